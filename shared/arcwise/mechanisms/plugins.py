"""Mechanisms of other packages, registered as entry points of the group ``arcwise.mechanisms``.

An entry point is named ``NAME.VERSION`` and points to the class. Installed packages are searched when a name
is unknown or all mechanisms are listed, but never for arcwise's own names, so no other package can take over
such a name.
"""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import TYPE_CHECKING

from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import EntryPoint

    from arcwise.mechanisms.base import Mechanism

GROUP = "arcwise.mechanisms"

_OURS = (
    "certificate",
    "from_fields",
    "kernel_fields",
    "locate",
    "node",
    "node_at",
    "place_node",
    "place_nodes",
    "randomize",
    "randomize_at",
    "randomize_many",
)
"""The methods that draw, check and serialise the integers. Every mechanism must leave them to arcwise."""


@cache
def installed() -> Mapping[tuple[str, int], tuple[EntryPoint, ...]]:
    """Return the entry points by name and version; they are looked up once, and not loaded.

    An entry point that is not named NAME.VERSION has version 0, which no task has.
    """
    from importlib.metadata import entry_points

    found: dict[tuple[str, int], tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=GROUP):
        match = re.fullmatch(r"([a-z0-9]+(?:-[a-z0-9]+)*)\.([1-9][0-9]{0,8})", point.name)
        key = (match[1], int(match[2])) if match else (point.name, 0)
        # A package found twice, on two entries of sys.path, offers the same entry point twice.
        if all(
            (_package(other), other.value) != (_package(point), point.value) for other in found.get(key, ())
        ):
            found[key] = (*found.get(key, ()), point)
    return found


def load(key: tuple[str, int], points: tuple[EntryPoint, ...]) -> type[Mechanism]:
    """Return the class behind the entry points of a name and version.

    Raises `ParameterError` if there are several, if the class cannot be imported, or if it is not a mechanism
    of this name and version that leaves drawing and certifying to arcwise.
    """
    what = f"mechanism {key[0]!r} version {key[1]}"
    if len(points) > 1:
        packages = " and ".join(sorted(map(_package, points)))
        raise ParameterError(f"{what} is offered by {packages}: uninstall all but one")
    (point,) = points
    what += f" of {_package(point)} ({point.value})"
    try:
        cls = point.load()
    except Exception as error:  # importing a package may raise anything
        raise ParameterError(f"{what} cannot be loaded: {type(error).__name__}: {error}") from error
    from arcwise.mechanisms.circulant import CirculantMechanism
    from arcwise.mechanisms.table import TableMechanism
    from arcwise.mechanisms.window import WindowMechanism

    bases = (CirculantMechanism, TableMechanism, WindowMechanism)
    if not isinstance(cls, type) or not issubclass(cls, bases) or inspect.isabstract(cls):
        names = ", ".join(base.__name__ for base in bases)
        raise ParameterError(f"{what} must be a class derived from one of {names}")
    if (cls.name, cls.version) != key:
        raise ParameterError(
            f"{what} calls itself {cls.name!r} version {cls.version}: name and version of the class must be "
            "those of its entry point"
        )
    base = next(base for base in bases if issubclass(cls, base))
    changed = [name for name in _OURS if not _same(getattr(cls, name), getattr(base, name))]
    if changed:
        raise ParameterError(f"{what} must leave {', '.join(changed)} to arcwise, which draws and certifies")
    return cls


def _same(one: object, other: object) -> bool:
    # A class method is bound again for each class.
    return getattr(one, "__func__", one) is getattr(other, "__func__", other)


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unknown package"
