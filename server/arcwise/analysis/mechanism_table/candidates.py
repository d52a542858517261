"""Which mechanisms are compared: every registered one that serves the domain, and what LP finds for it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from arcwise.mechanisms import DesignedCircular, DesignedTable
from arcwise.mechanisms.registry import MECHANISMS

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.domains import Domain
    from arcwise.mechanisms import Mechanism


@dataclass(frozen=True)
class Candidate:
    """A mechanism that can be made: its label, and how."""

    label: str
    make: Callable[[], Mechanism]


def candidates(
    domain: Domain,
    epsilon: float,
    *,
    delta: float,
    nodes: int | None,
    designs: bool,
) -> list[Candidate]:
    """Return every registered mechanism that serves the domain, in all its placements, and the LP designs.

    Mechanisms whose window is optimal for a loss appear for ``|y-x|`` and for ``(y-x)^2``.
    """
    given: dict[str, Any] = {"delta": delta}
    if nodes is not None:
        given["nodes"] = nodes
    found = []
    for (name, _), cls in MECHANISMS.items():
        if not isinstance(domain, cls.domain_type) or cls in (DesignedTable, DesignedCircular):
            continue
        takes = inspect.signature(cls).parameters
        common = {key: value for key, value in given.items() if key in takes}
        for label, special in _members(name, cls, takes):
            found.append(Candidate(label, _maker(cls, domain, epsilon, {**common, **special})))
    if designs:
        found.extend(_designs(domain, epsilon))
    return found


def _members(name: str, cls: type[Mechanism], takes: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the labels and special arguments of the members of a family that are compared."""
    placements = getattr(cls, "placements", ()) if "placement" in takes else ()
    members: list[tuple[str, dict[str, Any]]] = [
        (f"{name}, {placement}", {"placement": placement}) for placement in placements
    ] or [(name, {})]
    if "power" in takes:
        members = [
            (label if power == 1.0 else f"{label}, squared", {**special, "power": power})
            for label, special in members
            for power in (1.0, 2.0)
        ]
    return members


def _maker(cls: Any, domain: Domain, epsilon: float, given: dict[str, Any]) -> Callable[[], Mechanism]:
    if "epsilon" in inspect.signature(cls).parameters:
        given = {"epsilon": epsilon, **given}
    return partial(cls, domain, **given)


def _designs(domain: Domain, epsilon: float) -> list[Candidate]:
    """Return what linear programming makes for this domain and epsilon."""
    from arcwise.analysis.design import minimax

    first = "direction" if domain.circular else "mean"
    wanted: dict[str, dict[str, Any]] = {
        first: {"goal": first},
        "value": {"goal": "value"},
        "value, squared": {"goal": "value", "power": 2.0},
    }
    return [
        Candidate(f"LP design, {what}", partial(minimax, domain, epsilon, **given))
        for what, given in wanted.items()
    ]
