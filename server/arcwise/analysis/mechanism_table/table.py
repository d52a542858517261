"""The mechanisms that are compared, and their table: one row for each, sorted."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

from arcwise.analysis.mechanism_table.measures import MechanismRow, measure
from arcwise.analysis.simulate import as_population
from arcwise.analysis.threads import one_thread
from arcwise.checks import checked_bool, explained
from arcwise.domains import Circle, Interval
from arcwise.errors import CertificateError, ParameterError
from arcwise.kernels.base import MAX_CODES
from arcwise.kernels.certificate import check_epsilon
from arcwise.mechanisms import DesignedCircular, DesignedTable
from arcwise.mechanisms.registry import MECHANISMS
from arcwise.mechanisms.window import check_nodes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from arcwise.domains import Domain
    from arcwise.mechanisms import Mechanism

DEFAULT_DELTA = 1e-6
"""The default delta for mechanisms that spend a delta."""

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with the number of finished mechanisms, the total number, and the name of the next mechanism."""

SORTS = (
    "worst-squared",
    "mean-squared",
    "worst-absolute",
    "mean-absolute",
    "worst-truncated",
    "mean-truncated",
    "worst-variance",
    "bias",
    "codes",
    "task-bytes",
    "label",
)
"""Columns that rows can be sorted by; the first is the default."""


@dataclass(frozen=True)
class Candidate:
    """One member of a family of mechanisms on a domain, at any epsilon.

    `family` is a class of the registry. It is None if linear programming designs the mechanism. `options` are
    the arguments besides the domain and epsilon.
    """

    label: str
    domain: Domain
    family: type[Mechanism] | None
    options: Mapping[str, Any]

    def make(self, epsilon: float) -> Mechanism:
        """Return the mechanism; a family that spends only a delta ignores epsilon."""
        if self.family is None:
            from arcwise.analysis.design import minimax

            return minimax(self.domain, epsilon, **self.options)
        family: Any = self.family
        takes = "epsilon" in inspect.signature(family).parameters
        made: Mechanism = family(self.domain, **({"epsilon": epsilon} if takes else {}), **self.options)
        return made


def candidates(domain: Domain, *, delta: float, nodes: int | None, designs: bool) -> list[Candidate]:
    """Return every registered mechanism that serves the domain, in all its placements, and the LP designs.

    Mechanisms with a window that is optimal for a loss appear twice: for ``|y-x|`` and for ``(y-x)^2``.
    """
    found = []
    for (name, _), family in MECHANISMS.items():
        if not isinstance(domain, family.domain_type) or family in (DesignedTable, DesignedCircular):
            continue
        takes = inspect.signature(family).parameters
        placements = getattr(family, "placements", ()) if "placement" in takes else ()
        powers = (1.0, 2.0) if "power" in takes else (1.0,)
        for placement, power in product(placements or (None,), powers):
            given = {"delta": delta, "nodes": nodes, "placement": placement, "power": power}
            options = {key: value for key, value in given.items() if key in takes and value is not None}
            words = [name, *([placement] if placement else []), *(["squared"] if power == 2.0 else [])]
            found.append(Candidate(", ".join(words), domain, family, options))
    if designs:
        first = "direction" if domain.circular else "mean"
        found += [
            Candidate(f"LP design, {first}", domain, None, {"goal": first}),
            Candidate("LP design, value", domain, None, {"goal": "value"}),
            Candidate("LP design, value, squared", domain, None, {"goal": "value", "power": 2.0}),
        ]
    return found


@dataclass(frozen=True)
class ComparisonTable:
    """The sorted rows of a comparison, and the reasons why other mechanisms cannot be made, by label."""

    rows: list[MechanismRow]
    left_out: dict[str, str]

    def __repr__(self) -> str:
        best = f", first {self.rows[0].label}" if self.rows else ""
        return f"<ComparisonTable of {len(self.rows)} mechanisms{best}>"


@one_thread()
@explained
def compare(
    domain: Domain,
    epsilon: float,
    *,
    delta: float = DEFAULT_DELTA,
    nodes: int | None = None,
    designs: bool = True,
    sort: str = SORTS[0],
    population: Any = None,
    progress: Progress | None = None,
) -> ComparisonTable:
    """Compare the registered mechanisms for a domain: one row for each, best first.

    Parameters
    ----------
    domain
        An `Interval` or a `Circle`; with a step, mechanisms without a node for each value are left out.
    epsilon
        From 0.01 to 20.
    delta
        The delta for mechanisms that spend a delta. Their rows show the exact delta of their integers.
    nodes
        The number N of nodes for mechanisms that let you choose N. By default, each mechanism has its own
        default.
    designs
        Whether to add the mechanisms that linear programming finds for this domain and epsilon, which takes
        seconds.
    sort
        The column by which rows are sorted: one of `SORTS`.
    population
        The inputs to average over, as for `simulate_counts`: values of the domain, a line such as
        "normal:40,10", a `Population`. The default is uniform inputs.
    progress
        Called before each mechanism and at the end.

    Raises
    ------
    ParameterError, DomainError
        If an argument is out of its bounds. If a single mechanism does not accept an argument, only this
        mechanism is left out.

    Notes
    -----
    The grid of inputs contains every node, the quarters between nodes, and 1,025 inputs at equal distances,
    with both ends. On a circle, one step between nodes is enough, because every kernel on a circle commutes
    with rotation. On a lattice, the inputs are the values, unless numbers between values are rounded
    stochastically.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> rows = compare(Interval(0, 1), 1.0, designs=False).rows
    >>> all(row.worst_squared >= row.mean_squared for row in rows)
    True
    """
    if not isinstance(domain, (Interval, Circle)):
        raise ParameterError(f"domain must be an Interval or a Circle, got {domain!r}")
    epsilon = check_epsilon(epsilon)
    designs = checked_bool("designs", designs)
    if not 0.0 < delta < 1.0:
        raise ParameterError(f"delta must be more than 0 and less than 1, got {delta!r}")
    if nodes is not None:
        nodes = check_nodes(nodes, MAX_CODES)
    if sort not in SORTS:
        raise ParameterError(f"sort must be one of {', '.join(SORTS)}; got {sort!r}")
    values = None if population is None else as_population(population, domain)
    chosen = candidates(domain, delta=delta, nodes=nodes, designs=designs)
    rows: list[MechanismRow] = []
    left_out: dict[str, str] = {}
    for done, candidate in enumerate(chosen):
        if progress:
            progress(done, len(chosen), candidate.label)
        try:
            mechanism = candidate.make(epsilon)
        except (ParameterError, CertificateError) as error:
            left_out[candidate.label] = str(error)
        else:
            rows.append(measure(mechanism, candidate.label, values))
    if progress:
        progress(len(chosen), len(chosen), "")
    key = sort.replace("-", "_")
    rows.sort(key=lambda row: (_nan_last(getattr(row, key)), row.label))
    return ComparisonTable(rows, left_out)


def _nan_last(value: Any) -> tuple[bool, Any]:
    return (True, 0.0) if value != value else (False, value)  # noqa: PLR0124 (only NaN differs from itself)
