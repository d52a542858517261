"""The mechanisms by name and version, and their conversion to and from the fields of a task.

The meaning of a name with its version never changes, and the pair is never removed. A changed mechanism gets
a new version. A new mechanism is one class and one line in `PLACES` below
(docs/contributing/adding-a-mechanism.md). Other packages add theirs as entry points, see
`arcwise.mechanisms.plugins`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from arcwise.domains import Domain
    from arcwise.mechanisms.base import Mechanism

PLACES: dict[tuple[str, int], str] = {
    ("optimal-piecewise", 1): "optimal:OptimalPiecewise",
    ("optimal-circular", 1): "optimal:OptimalCircular",
    ("designed-table", 1): "designed:DesignedTable",
    ("designed-circular", 1): "designed:DesignedCircular",
    ("laplace", 1): "additive.pure:LaplaceMechanism",
    ("bounded-laplace", 1): "additive.pure:BoundedLaplaceMechanism",
    ("geometric", 1): "additive.pure:GeometricMechanism",
    ("staircase", 1): "additive.pure:StaircaseMechanism",
    ("discrete-staircase", 1): "additive.pure:DiscreteStaircaseMechanism",
    ("truncated-laplace", 1): "additive.approximate:TruncatedLaplaceMechanism",
    ("uniform-atom", 1): "additive.approximate:UniformAtomMechanism",
    ("gaussian", 1): "additive.approximate:GaussianMechanism",
    ("piecewise", 1): "published_windows:Piecewise",
    ("piecewise-sub", 1): "published_windows:PiecewiseSub",
    ("piecewise-opt", 1): "published_windows:PiecewiseOpt",
    ("truncated-piecewise", 1): "published_tables:TruncatedPiecewise",
    ("square-wave", 1): "published_windows:SquareWave",
    ("piecewise-transformation", 1): "published_tables:PiecewiseTransformation",
    ("unbiased-optimal-piecewise", 1): "published_tables:UnbiasedOptimalPiecewise",
    ("duchi", 1): "published_windows:Duchi",
    ("three-outputs", 1): "published_tables:ThreeOutputs",
    ("hybrid", 1): "published_tables:Hybrid",
    ("randomized-response", 1): "published_windows:RandomizedResponse",
    ("von-mises", 1): "directional:VonMises",
    ("purkayastha", 1): "directional:Purkayastha",
}
"""For each name and version, the module of the class in this package and the name of the class."""


class _Mechanisms(Mapping[tuple[str, int], "type[Mechanism]"]):
    """A mapping that imports a mechanism's file on first use, since a device needs only one.

    Other packages are searched for a name that is not our own, and when all mechanisms are listed.
    """

    def __getitem__(self, key: tuple[str, int]) -> type[Mechanism]:
        place = PLACES.get(key)
        if place is None:
            from arcwise.mechanisms.plugins import installed, load

            if key not in self:
                raise KeyError(key)
            return load(key, installed()[key])
        module, _, name = place.partition(":")
        cls: type[Mechanism] = getattr(import_module(f"arcwise.mechanisms.{module}"), name)
        return cls

    def __contains__(self, key: object) -> bool:
        return key in PLACES or key in self._others()

    def __iter__(self) -> Iterator[tuple[str, int]]:
        yield from PLACES
        yield from self._others()

    def __len__(self) -> int:
        return len(PLACES) + len(self._others())

    def _others(self) -> list[tuple[str, int]]:
        from arcwise.mechanisms.plugins import installed

        # Our names are reserved in every version, so that no other package can take a future version.
        ours = {name for name, _ in PLACES}
        return [(name, version) for name, version in installed() if version and name not in ours]


MECHANISMS: Mapping[tuple[str, int], type[Mechanism]] = _Mechanisms()
"""Every mechanism by its name and version."""


def mechanism_to_fields(mechanism: Mechanism) -> list[Any]:
    """Return ``[name, version, [kind, placement, ...]]``: the sampler as integers.

    ========== =====================================================
    kind       other fields
    ========== =====================================================
    window     K, N, W, b, g
    table      K, N, rows, output values on the unit interval
    circulant  K, the row of node 0
    ========== =====================================================
    """
    kernel = [mechanism.kind, mechanism.placement, *mechanism.kernel_fields()]
    return [mechanism.name, mechanism.version, kernel]


def mechanism_from_fields(fields: Any, domain: Domain, epsilon: float) -> Mechanism:
    """Return the mechanism with these fields of `mechanism_to_fields`, with exactly the same integers."""
    try:
        name, version, (kind, placement, *kernel) = fields
        cls = MECHANISMS.get((name, version))
    except (TypeError, ValueError):
        raise ParameterError("mechanism must be [name, version, [kind, placement, ...]]") from None
    if cls is None or kind != cls.kind:
        known = ", ".join(f"{n} version {v}" for n, v in MECHANISMS)
        raise ParameterError(
            f"mechanism {name!r} version {version!r} ({kind!r}) is unknown; this arcwise knows {known}"
        )
    try:
        return cls.from_fields(domain, epsilon, placement, kernel)
    except ParameterError:
        raise
    except (TypeError, ValueError) as error:  # too few or too many fields
        raise ParameterError(f"the kernel of mechanism {name!r} has other fields: {error}") from None
