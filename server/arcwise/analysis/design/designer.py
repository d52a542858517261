"""`minimax`: the mechanism with the least worst case for a goal, by linear programming, as integers.

=========== ======== ================================================================ ==================
goal        domain   minimises over all inputs the largest                            returns
=========== ======== ================================================================ ==================
"mean"      Interval variance, among unbiased mechanisms (or its average, see below)  `DesignedTable`
"value"     Interval ``E|y-x|^power``, outputs inside the domain                      `DesignedTable`
"value"     Circle   ``E d(y, x)^power``, d the circular distance                     `DesignedCircular`
"direction" Circle   ``1 - rho_1``, rho_1 the attenuation of the first moment         `DesignedCircular`
=========== ======== ================================================================ ==================

With a population, the goal "mean" minimises the expected variance over this population. `figures` compares
designs for means with a lower bound for all mechanisms.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from arcwise.analysis.design.cache import Design, load, save
from arcwise.analysis.design.circle import CircularLoss, find_row
from arcwise.analysis.design.integers import exact_bias, integer_table, symmetric_row
from arcwise.analysis.design.measures import lower_bound, worst_case
from arcwise.analysis.design.program import Goal
from arcwise.analysis.design.request import Request, check_request
from arcwise.analysis.design.search import find_table
from arcwise.analysis.threads import one_thread
from arcwise.checks import checked_bool, explained
from arcwise.digits import rounded_up
from arcwise.domains import Interval
from arcwise.errors import ArcwiseError, CertificateError, ParameterError
from arcwise.kernels.rounding import integer_row
from arcwise.mechanisms.closed_forms.published import best_published_variance
from arcwise.mechanisms.designed import DesignedCircular, DesignedTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from arcwise.domains import Circle, Domain

    Progress = Callable[[float, str], None]

LARGEST_BIAS = 1e-9
"""Largest bias at a node, as a share of the range. Designs have far less; cached files with more are
refused."""

_MARGINS = (1e-9, 1e-8, 1e-7, 1e-6)
"""Shares of epsilon that are left for repairs; the next share is tried if a share leaves too little room."""

_LARGEST = 14.0
"""Largest epsilon for which tables are solved; for a larger epsilon, the same table is used.

At this epsilon, the low levels are a millionth of the high levels, the smallest that the solver can
distinguish from zero. Rounding to nodes is then the only error that matters.
"""

_Designed: TypeAlias = DesignedTable | DesignedCircular


@one_thread()
@explained
def minimax(
    domain: Domain,
    epsilon: float,
    *,
    goal: str = "mean",
    outputs: int | None = None,
    nodes: int | None = None,
    power: float | None = None,
    population: Any = None,
    cache: bool = True,
    progress: Progress | None = None,
) -> DesignedTable | DesignedCircular:
    """Design the mechanism with the least worst case for a goal, by linear programming.

    Parameters
    ----------
    domain
        An `Interval` or a `Circle`. If it has a step, with up to 257 values on an interval or 1,024 on a
        circle, the nodes are the values, and the worst case is over these values.
    epsilon
        From 0.01 to 20.
    goal
        "mean" or "value" on an interval, "value" or "direction" on a circle; see the table of this module.
    outputs
        Largest number of codes K; outputs without weight are left out. On an interval, the default is 16 up
        to epsilon 5, and 32 above. For "value" with a step, it is the number of values if this is larger. On
        a circle, the default is 128. At epsilon 12, ``E d(y, x)`` is then 3.3 times that of the optimum
        without a grid, so use more outputs, or `OptimalCircular`.
    nodes
        Number of input nodes N, at equal distances. Inputs between nodes are rounded stochastically, and the
        worst case includes this rounding. The default is 17 up to epsilon 5, and 33 above or with a
        population. On a circle it is the number of codes. Leave `nodes` out if the domain has a step.
    power
        Exponent of the loss for "value", at least 1 (default 1). The other goals have no exponent.
    population
        For goal "mean": minimise the expected variance over this population instead of the largest variance.
        Give a population as for `simulate_counts`, or a list of several with equal weights. The mean is still
        unbiased for every population. The minimised variance includes a uniform population with a weight of 5
        %.
    cache
        Whether to look for the design on disk, and to store it there.
    progress
        Called with the finished share of the work, from 0 to 1, and a few words.

    Returns
    -------
    DesignedTable or DesignedCircular
        The designed mechanism; its certificate holds exactly. On an interval with goal "mean", its bias at
        the nodes is below 1e-15 of the range. On an interval, rounding to nodes adds to the variance at most
        a quarter of the squared distance of nodes, or to ``|y-x|`` at most half of this distance. From
        epsilon 9 on (variance) or 6 on (``|y-x|``), this is more than the program gains. Then use more nodes,
        or another mechanism.

    Raises
    ------
    ParameterError
        If an argument is out of its bounds, or the goal does not exist for the domain.
    ArcwiseError
        If the solver fails.

    Examples
    --------
    >>> mechanism = minimax(Interval(0, 1), 1.0, cache=False)
    >>> round(worst_case(mechanism), 3)
    0.999
    """
    cache = checked_bool("cache", cache)
    request = check_request(
        domain, epsilon, goal=goal, outputs=outputs, nodes=nodes, power=power, population=population
    )
    report: Progress = progress or (lambda share, text: None)
    if cache:
        kept = load(request.key)
        if kept is not None and _holds(request, kept):
            report(1.0, "taken from the cache")
            return _mechanism(domain, request, kept)
    design = _row(request, report) if request.domain == "circle" else _table(request, report)
    mechanism = _mechanism(domain, request, design)
    mechanism.certificate()
    if cache:
        save(request.key, design)
    report(1.0, f"worst case {design.worst:.6g} on the unit domain")
    return mechanism


def _table(request: Request, report: Progress) -> Design:
    """Design a table on the unit interval."""
    unbiased = request.goal == "mean"
    power = cast("float", request.power)  # never None on an interval
    scale = 0.5**power
    what = "worst case" if request.prior is None else "expected variance"

    def notify(share: float, worst: float) -> None:
        report(share, f"{what} {worst * scale:.6g} on the unit domain")

    epsilon = min(request.epsilon, _LARGEST)
    for margin in _MARGINS:
        goal = Goal(
            epsilon * (1.0 - margin),
            request.nodes,
            power,
            unbiased,
            rounds=request.rounds,
            prior=request.prior,
        )
        table = find_table(goal, request.outputs, notify)
        units = tuple((0.5 + 0.5 * table.outputs).tolist())
        rows = integer_table(
            table.rows,
            table.top,
            units,
            epsilon,
            margin=margin,
            unbiased=unbiased,
            symmetric=request.prior is None,
        )
        if rows is not None:
            return _measured(request, rows, units)
    raise ArcwiseError(f"no integer table keeps the means exactly at epsilon {request.epsilon!r}")


def _row(request: Request, report: Progress) -> Design:
    """Design a row on the circle of circumference 1."""
    report(0.0, "solving for the row")
    epsilon = request.epsilon * (1.0 - _MARGINS[0])
    row = find_row(epsilon, request.outputs, CircularLoss(request.power), rounds=request.rounds)
    weights = symmetric_row(integer_row(row / row.sum(), request.epsilon))
    return _measured(request, (weights,), ())


def _measured(request: Request, rows: tuple[tuple[int, ...], ...], units: tuple[float, ...]) -> Design:
    """Return the design with its worst case on the unit domain, which is computed from the integers."""
    mechanism = _mechanism(request.unit, request, Design(rows, units, math.nan))
    power = request.power if request.goal == "value" else None
    return Design(rows, units, worst_case(mechanism, goal=request.goal, power=power))


def _mechanism(domain: Domain, request: Request, design: Design) -> _Designed:
    if request.domain == "circle":
        return DesignedCircular(cast("Circle", domain), request.epsilon, design.rows[0])
    return DesignedTable(cast("Interval", domain), request.epsilon, design.rows, design.units)


def _holds(request: Request, design: Design) -> bool:
    """Return whether a cached design meets its claims: sizes, certificate, bias and worst case."""
    circular = request.domain == "circle"
    sizes = {len(row) for row in design.rows}
    if len(design.rows) != (1 if circular else request.nodes) or len(sizes) != 1:
        return False
    if not (sizes == {request.outputs} if circular else max(sizes) <= request.outputs):
        return False
    try:
        if request.goal == "mean" and exact_bias(design.rows, design.units) > LARGEST_BIAS:
            return False
        again = _measured(request, design.rows, design.units)
        _mechanism(request.unit, request, again).certificate()
    except (ParameterError, CertificateError, ValueError, OverflowError):
        return False
    return math.isclose(again.worst, design.worst, rel_tol=1e-9)


class Figure(NamedTuple):
    """The figures of a design for means at one epsilon, on values in [0, 1].

    `bound` is a recomputed `lower_bound` on the worst case of every mechanism. `worst` is the worst case of
    the design over all inputs, from its integers. `published` is the worst case of the best published
    mechanism. `bias` is the exact largest bias at a node. `spent` is the logarithm of the exact largest ratio
    of weights, at most epsilon. `seconds` is the time that the design took.
    """

    epsilon: float
    bound: float
    worst: float
    published: float
    bias: float
    spent: float
    codes: int
    nodes: int
    seconds: float

    @property
    def excess(self) -> float:
        """The share by which the design's worst case is above the bound."""
        return self.worst / self.bound - 1.0

    @property
    def saving(self) -> float:
        """The best published worst case divided by the design's."""
        return self.published / self.worst


@one_thread()
def figures(
    epsilons: Iterable[float],
    *,
    inputs: int | None = None,
    cache: bool = True,
    progress: Progress | None = None,
) -> list[Figure]:
    """Return the figures of the design for means at each epsilon, with the lower bound.

    `inputs` is as for `lower_bound`; `cache` and `progress` are as for `minimax`.
    """
    domain, wanted = Interval(0.0, 1.0), list(epsilons)
    report: Progress = progress or (lambda share, text: None)
    rows = []
    for number, epsilon in enumerate(wanted):
        report(number / len(wanted), f"epsilon {rounded_up(epsilon)}")
        begin = time.perf_counter()
        mechanism = minimax(domain, epsilon, cache=cache)
        seconds = time.perf_counter() - begin
        kernel = mechanism.kernel
        weights = [kernel.row(node) for node in range(kernel.nodes)]
        rows.append(
            Figure(
                epsilon=epsilon,
                bound=lower_bound(domain, epsilon, inputs=inputs),
                worst=worst_case(mechanism),
                published=best_published_variance(epsilon),
                bias=exact_bias(weights, mechanism.code_units().tolist()),
                spent=mechanism.certificate().spent_epsilon,
                codes=kernel.codes,
                nodes=kernel.nodes,
                seconds=seconds,
            )
        )
    report(1.0, "done")
    return rows
