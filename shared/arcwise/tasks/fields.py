"""The fields of a task in their fixed order, and as a JSON object that people can read.

    [1, name, domain, epsilon, goal, epoch_seconds, caps, mechanism]
    [..., optional]                where an optional field is set: see `optional`
    domain     ["interval", low, high, clip]  or  ["circle", period]
               [..., step, rounding]          where the domain has a step
    caps       [lifetime, rolling, window]    micro-epsilon or nil, micro-epsilon or nil, seconds
               [lifetime, rolling, window, lifetime_delta, rolling_delta]
                                              where delta is capped: units of 2**-64 or nil
    mechanism  [name, version, kernel]
    kernel     ["window", placement, K, N, W, b, g]
               ["table", placement, K, N, N rows of K weights, K output values on the unit interval]
               ["circulant", placement, K, the K weights of node 0]

In JSON a weight is a decimal string, since a JSON number may not hold it exactly. A row of weights is one
string of decimals separated by spaces.

This module does not judge a task: `Task` checks the fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from arcwise.domains import Circle, Interval
from arcwise.errors import TaskError
from arcwise.kernels.certificate import UNIT
from arcwise.tasks.caps import Caps
from arcwise.tasks.optional import optional_from_json

if TYPE_CHECKING:
    from arcwise.domains import Domain

SCHEMA_VERSION: Final = 1

_KINDS: Final[dict[str, tuple[type[Domain], tuple[str, ...]]]] = {
    "interval": (Interval, ("low", "high", "clip")),
    "circle": (Circle, ("period",)),
}
"""The kinds of domains, with their class and the names of their fields, in order."""

_LATTICE: Final = ("step", "rounding")
"""Fields that only a domain with a step has, so that a task without a step keeps its earlier id."""

_CAPS: Final = ("lifetime_micro_epsilon", "rolling_micro_epsilon", "rolling_window_seconds")
_DELTA_CAPS: Final = ("lifetime_delta_units", "rolling_delta_units")
"""Fields that only a task with a cap of delta has, so that a task without such a cap keeps its earlier id."""

_KERNELS: Final[dict[str, tuple[str, ...]]] = {
    "window": ("codes", "nodes", "window", "background", "extra"),
    "table": ("codes", "nodes", "rows", "units"),
    "circulant": ("codes", "weights"),
}
"""The kinds of kernels, with the names of their fields after kind and placement, in order."""


def domain_to_fields(domain: Domain) -> list[Any]:
    """Return ``[kind, ...]`` of a domain."""
    kind, names = next((kind, names) for kind, (cls, names) in _KINDS.items() if isinstance(domain, cls))
    lattice = () if domain.step is None else _LATTICE
    return [kind, *(getattr(domain, name) for name in (*names, *lattice))]


def domain_from_fields(fields: Any) -> Domain:
    """Return the domain that ``[kind, ...]`` describes."""
    kind, *bounds = fields
    cls, _ = _checked_kind(kind)
    return cls(*bounds)


def domain_to_json(fields: list[Any]) -> dict[str, Any]:
    """Return the JSON object of the fields of a domain."""
    kind, *bounds = fields
    return {"kind": kind, **dict(zip(_bound_names(kind, len(bounds)), bounds, strict=True))}


def domain_from_json(data: Any) -> list[Any]:
    """Return the fields in a JSON object of a domain; an object with a step must have a rounding."""
    lattice = _LATTICE if any(key in data for key in _LATTICE) else ()
    return [data["kind"], *(data[key] for key in (*_checked_kind(data["kind"])[1], *lattice))]


def caps_to_fields(caps: Caps) -> list[Any]:
    """Return ``[lifetime, rolling, window]``, followed by both caps of delta if at least one is set."""
    fields = [caps.lifetime_micro, caps.rolling_micro, caps.window]
    deltas = [caps.lifetime_delta_units, caps.rolling_delta_units]
    return fields if deltas == [None, None] else fields + deltas


def caps_from_fields(fields: Any) -> Caps:
    """Return the caps that three or five fields describe."""
    lifetime, rolling, window, *deltas = fields
    lifetime_delta, rolling_delta = deltas or (None, None)
    return Caps(
        _cap("lifetime", lifetime),
        _cap("rolling", rolling),
        window,
        _delta_cap("lifetime_delta", lifetime_delta),
        _delta_cap("rolling_delta", rolling_delta),
    )


def caps_to_json(fields: list[Any]) -> dict[str, Any]:
    """Return the JSON object of the fields of caps."""
    deltas = [None if units is None else str(units) for units in fields[3:]]
    return dict(zip(_CAPS, fields[:3], strict=True)) | dict(zip(_DELTA_CAPS, deltas, strict=bool(deltas)))


def caps_from_json(data: Any) -> list[Any]:
    """Return the fields in a JSON object of caps; an object with one cap of delta must have both."""
    fields = [data[key] for key in _CAPS]
    if any(key in data for key in _DELTA_CAPS):
        fields += [None if data[key] is None else _decimal(data[key], key) for key in _DELTA_CAPS]
    return fields


def fields_to_json(fields: list[Any], task_id: str) -> dict[str, Any]:
    """Return the JSON object of a task's fields."""
    version, name, domain, epsilon, goal, epoch_seconds, caps, mechanism, *optional = fields
    mechanism_name, mechanism_version, kernel_fields = mechanism
    kind_of_kernel, placement, *rest = kernel_fields
    kernel = {"kind": kind_of_kernel, "placement": placement}
    for key, value in zip(_KERNELS[kind_of_kernel], rest, strict=True):
        kernel[key] = _WRITERS[key](value) if key in _WRITERS else value
    return {
        "arcwise_task": version,
        "name": name,
        "id": task_id,
        **(optional[0] if optional else {}),
        "domain": domain_to_json(domain),
        "epsilon": epsilon,
        "goal": goal,
        "period_seconds": epoch_seconds,
        "caps": caps_to_json(caps),
        "mechanism": {"name": mechanism_name, "version": mechanism_version, "kernel": kernel},
    }


def fields_from_json(data: Any) -> tuple[list[Any], Any]:
    """Return the fields in a JSON object of a task, and the id given in it.

    Raises `TaskError` if a key is missing, or if a value is not the required object or decimal string.
    """
    if isinstance(data, dict) and "arcwise_group" in data:
        raise TaskError(
            "this is the file of a group, not of a task: read it with Group.load or `arcwise group`"
        )
    try:
        domain, caps, mechanism = data["domain"], data["caps"], data["mechanism"]
        bounds = domain_from_json(domain)
        kernel = _kernel_from_json(mechanism["kernel"])
        version = mechanism["version"]
        if type(version) is not int:  # True and 1.0 equal 1 and would be accepted
            raise TaskError(f"the version of a mechanism must be an integer, got {version!r}")
        fields = [
            data["arcwise_task"],
            data["name"],
            bounds,
            data["epsilon"],
            data["goal"],
            data["period_seconds"],
            caps_from_json(caps),
            [mechanism["name"], version, kernel],
            *optional_from_json(data),
        ]
        return fields, data["id"]
    except KeyError as error:
        raise TaskError(f"a task file needs the key {error}") from None
    except TypeError:
        raise TaskError("a task file holds one JSON object with objects inside") from None


def _checked_kind(kind: object) -> tuple[type[Domain], tuple[str, ...]]:
    if not isinstance(kind, str) or kind not in _KINDS:
        known = " or ".join(f'"{known}"' for known in _KINDS)
        raise TaskError(f"the kind of a domain must be {known}, got {kind!r}")
    return _KINDS[kind]


def _bound_names(kind: str, count: int) -> tuple[str, ...]:
    """Return the names of `count` fields of a domain, with or without those of its lattice."""
    names = _KINDS[kind][1]
    return names if count == len(names) else (*names, *_LATTICE)


def _cap(name: str, micro: object) -> float | None:
    if micro is not None and type(micro) is not int:
        raise TaskError(f"the {name} cap must be a whole number of micro-epsilon or none, got {micro!r}")
    return None if micro is None else micro / 1_000_000


def _delta_cap(name: str, units: object) -> float | None:
    if units is None:
        return None
    if type(units) is not int or not 0 < units < UNIT or int(units / UNIT * UNIT) != units:
        raise TaskError(
            f"the {name} cap must be none or units of 2**-64, from 1 to below 2**64, that a float holds "
            f"exactly; got {units!r}"
        )
    return units / UNIT


def _kernel_from_json(kernel: Any) -> list[Any]:
    kind = kernel["kind"]
    if not isinstance(kind, str) or kind not in _KERNELS:
        known = ", ".join(f'"{known}"' for known in _KERNELS)
        raise TaskError(f"the kind of a kernel must be one of {known}; got {kind!r}")
    rest = [_READERS[key](kernel[key], key) if key in _READERS else kernel[key] for key in _KERNELS[kind]]
    return [kind, kernel["placement"], *rest]


def _decimal(value: object, name: str) -> int:
    if not isinstance(value, str) or not value.isascii() or not value.isdecimal() or len(value) > 20:
        raise TaskError(f"{name} must be a decimal string, got {value!r}")
    return int(value)


def _decimals(value: object, name: str) -> list[int]:
    if not isinstance(value, str):
        raise TaskError(f"{name} must be a string of decimals separated by spaces, got {value!r}")
    return [_decimal(part, name) for part in value.split(" ")]


def _rows(value: object, name: str) -> list[list[int]]:
    if not isinstance(value, list):
        raise TaskError(f"{name} must be a list of strings of decimals, got {value!r}")
    return [_decimals(row, name) for row in value]


def _joined(weights: list[int]) -> str:
    return " ".join(map(str, weights))


_WRITERS: Final[dict[str, Any]] = {
    "background": str,
    "extra": str,
    "weights": _joined,
    "rows": lambda rows: [_joined(row) for row in rows],
}
_READERS: Final[dict[str, Any]] = {
    "background": _decimal,
    "extra": _decimal,
    "weights": _decimals,
    "rows": _rows,
}
"""Conversion of weights to JSON and back, for numbers beyond the exact range of JSON."""
