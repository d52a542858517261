"""The table of a comparison: one row for each mechanism, sorted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from arcwise.analysis.mechanism_table.candidates import candidates
from arcwise.analysis.mechanism_table.measures import MechanismRow, measure
from arcwise.analysis.simulate import as_population
from arcwise.analysis.threads import one_thread
from arcwise.checks import checked_bool, explained
from arcwise.domains import Circle, Interval
from arcwise.errors import CertificateError, ParameterError
from arcwise.kernels.base import MAX_CODES
from arcwise.kernels.certificate import check_epsilon
from arcwise.mechanisms.window import check_nodes

if TYPE_CHECKING:
    from arcwise.domains import Domain

DEFAULT_DELTA = 1e-6
"""What mechanisms that spend a delta aim at, unless told."""

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with the mechanisms that are done, their number in all, and the name of the one that comes next."""

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
"""What rows can be sorted by; the first is the default."""


@dataclass(frozen=True)
class ComparisonTable:
    """The sorted rows of a comparison, and by label the reasons why other mechanisms cannot be made."""

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
    """Return one row for every registered mechanism that serves the domain, best first.

    Parameters
    ----------
    domain
        An `Interval` or a `Circle`; with a step, mechanisms without a node for each value are left out.
    epsilon
        From 0.01 to 20.
    delta
        For mechanisms that spend one; the row has the delta that their integers exactly have.
    nodes
        N of the mechanisms that let it be chosen; each one's own default unless given.
    designs
        Whether to add the mechanisms that linear programming finds for this domain and epsilon (seconds).
    sort
        One of `SORTS`.
    population
        What averages are over, as `simulate_counts` takes it: values of the domain, a line such as
        "normal:40,10", a `Population`. Uniform inputs unless given.
    progress
        Called before each mechanism and at the end.

    Raises
    ------
    ParameterError, DomainError
        When an argument is out of its bounds. What only some mechanisms do not take leaves those out.

    Notes
    -----
    The grid of inputs holds every node, the quarters between nodes, both ends and 1,025 equal
    steps; on a circle one step between nodes is enough, because every kernel there commutes with turning. On
    a lattice inputs are its values, unless numbers between them are rounded by chance.

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
    chosen = candidates(domain, epsilon, delta=delta, nodes=nodes, designs=designs)
    rows: list[MechanismRow] = []
    left_out: dict[str, str] = {}
    for done, candidate in enumerate(chosen):
        if progress:
            progress(done, len(chosen), candidate.label)
        try:
            mechanism = candidate.make()
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
