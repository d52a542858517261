"""The figures that designs are judged by, as rows of a table. Printing them is left to the command line."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from arcwise.analysis.design.designer import minimax
from arcwise.analysis.design.integers import exact_bias
from arcwise.analysis.design.measures import lower_bound, worst_case
from arcwise.analysis.design.piecewise import randomized_response
from arcwise.analysis.threads import one_thread
from arcwise.digits import rounded_up
from arcwise.domains import Interval
from arcwise.mechanisms.closed_forms.optimal import interval_expected_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from arcwise.domains import Domain

_UNIT = Interval(0.0, 1.0)


class Figure(NamedTuple):
    """The figures of a design at one epsilon.

    `bound` is a recomputed `lower_bound` on the worst case of every mechanism; `worst` is that of the design
    over all inputs, from its integers; `published` is that of the best published mechanism, if known. `bias`
    is the largest bias at a node, exact, and None for goals other than "mean". `spent` is the log of the
    exact largest ratio of weights, at most epsilon. `seconds` is the time that the design took.
    """

    epsilon: float
    bound: float
    worst: float
    published: float | None
    bias: float | None
    spent: float
    codes: int
    nodes: int
    seconds: float

    @property
    def excess(self) -> float:
        """By what share the design's worst case is above the bound."""
        return self.worst / self.bound - 1.0

    @property
    def saving(self) -> float | None:
        """How many times as large the best published worst case is."""
        return None if self.published is None else self.published / self.worst


@one_thread()
def figures(
    epsilons: Iterable[float],
    *,
    domain: Domain = _UNIT,
    goal: str = "mean",
    power: float | None = None,
    published: Mapping[float, float] | None = None,
    inputs: int | None = None,
    cache: bool = True,
    progress: Callable[[float, str], None] | None = None,
) -> list[Figure]:
    """Return a row for each epsilon: designed, measured, and bounded from below.

    `published` has the worst case of the best published mechanism for some values of epsilon, in the unit of
    `worst_case`; `inputs` is as for `lower_bound`. `progress` is called with the share done and a few words.
    All other arguments are as for `minimax`.
    """
    wanted = list(epsilons)
    rows = []
    for number, epsilon in enumerate(wanted):
        if progress is not None:
            progress(number / len(wanted), f"epsilon {rounded_up(epsilon)}")
        begin = time.perf_counter()
        mechanism = minimax(domain, epsilon, goal=goal, power=power, cache=cache)
        seconds = time.perf_counter() - begin
        bias = None
        if goal == "mean":
            bias = exact_bias(
                [mechanism.kernel.row(node) for node in range(mechanism.kernel.nodes)],
                mechanism.code_units().tolist(),
            )
        rows.append(
            Figure(
                epsilon=epsilon,
                bound=lower_bound(domain, epsilon, goal, power=power, inputs=inputs),
                worst=worst_case(mechanism, goal=goal, power=power),
                published=None if published is None else published.get(epsilon),
                bias=bias,
                spent=mechanism.certificate().spent_epsilon,
                codes=mechanism.kernel.codes,
                nodes=mechanism.kernel.nodes,
                seconds=seconds,
            )
        )
    if progress is not None:
        progress(1.0, "done")
    return rows


class Gap(NamedTuple):
    """The gap between the best piecewise density and the best mechanism, for ``|y-x|^power`` on [0, 1].

    The fields after epsilon are worst cases: a lower bound for every mechanism, and those of a designed
    table, of the best m-piece density for any m of at least 3, and, for power 1 only, of the counterexample
    with two atoms.
    """

    epsilon: float
    bound: float
    designed: float
    piecewise: float
    two_atoms: float | None


@one_thread()
def piecewise_gaps(
    epsilons: Iterable[float],
    *,
    power: float = 1.0,
    cache: bool = True,
    progress: Callable[[float, str], None] | None = None,
) -> list[Gap]:
    """Return for each epsilon the worst cases of the best mechanism, the best density and two atoms."""
    rows = figures(epsilons, goal="value", power=power, cache=cache, progress=progress)
    return [
        Gap(
            epsilon=row.epsilon,
            bound=row.bound,
            designed=row.worst,
            piecewise=interval_expected_error(0.0, row.epsilon, power),
            two_atoms=randomized_response(row.epsilon).worst_case() if power == 1.0 else None,
        )
        for row in rows
    ]
