"""`plan`: find the number of reports, the error or epsilon from the other two, for every mechanism."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from arcwise.analysis.central_privacy.promise import largest_local
from arcwise.analysis.planning.curve import LOWEST
from arcwise.analysis.planning.mechanisms import families, unserving
from arcwise.analysis.planning.request import check_request
from arcwise.analysis.planning.result import Plan
from arcwise.analysis.planning.work import TRIAL, Work, meaning
from arcwise.analysis.threads import one_thread
from arcwise.checks import checked_bool, explained, shown
from arcwise.errors import ParameterError
from arcwise.tasks.central import CentralStatement
from arcwise.tasks.task import Task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.analysis.planning.mechanisms import Family
    from arcwise.analysis.planning.request import Request
    from arcwise.analysis.planning.result import PlannedMechanism
    from arcwise.analysis.planning.work import Progress
    from arcwise.domains import Domain
    from arcwise.kernels.base import Kernel

_WORTH_SAYING = 1.005
"""A note appears if the chosen mechanism needs more than this many times as much as the best mechanism."""

_SLACK = 0.01
"""The share of a promise that may be left unused, if the promise is expensive to compute."""

_MAY_BE_CHANCE = 1.25
"""The threshold of the note for simulated errors: two standard errors of the ratio.

Errors of single surveys vary by about a third, and 16 surveys are compared.
"""


@one_thread()
@explained
def plan(
    domain: Domain,
    *,
    epsilon: float | None = None,
    error: float | str | None = None,
    reports: float | None = None,
    goal: str | None = None,
    population: Any = None,
    length: float | None = None,
    target: str = "population",
    level: float = 0.95,
    delta: float | None = None,
    compare: bool = True,
    progress: Progress | None = None,
    central: CentralStatement | None = None,
) -> Plan:
    """Plan a survey: find the reports, the error or the epsilon from the other two.

    Parameters
    ----------
    domain
        An `Interval` or a `Circle`. With a step, devices hold only the values of its lattice, and errors
        refer to these values.
    epsilon, error, reports
        Give two of these three. The error is in the unit of the domain, or a share of the range or period
        such as "1%".
    goal
        "mean" (default) or "distribution" on an interval; "direction" (default) or "distribution" on a
        circle.
    population
        Distribution of the devices' values, as for `simulate_counts`, such as "beta:2,5", or a list of
        several populations. A mean is planned for the average of their variances. If the populations are
        lines of text, the chosen mechanism is designed for this average. If they are arrays of values, the
        design is only listed, because no task command takes values. A distribution is planned for the worst
        of the populations. Without a population, a mean is planned for the worst of all populations, and a
        direction for the worst of all populations with the resultant length `length`. A distribution is then
        planned for the worst of three reference populations.
    length
        Resultant length of the population of a direction, 0.5 unless given.
    target
        "population", or "users" for the mean of those who report. The error for "users" does not include the
        error of sampling. The error of a distribution always refers to the users.
    level
        Level of the half-widths.
    delta
        The delta that mechanisms may spend. Without it, mechanisms that spend a delta are left out.
    compare
        Whether to plan also for mechanisms other than the default of this goal.
    progress
        Called before each mechanism, during simulations, and at the end.
    central
        A promise about those who see only released counts, given instead of epsilon and reports. The plan
        uses the number of reports that the promise assumes, and the largest local epsilon with three digits
        that keeps the promise. The error is computed. With several releases or a designed mechanism, the plan
        uses an epsilon that reaches 99 % of the promise. Other mechanisms reveal more or less at the same
        epsilon, and are left out.

    Raises
    ------
    ParameterError
        If an argument is out of its bounds, or no reports or epsilon reach the error.

    Notes
    -----
    The error of a mean is its standard error, exact at every number of reports. The error of a direction is
    its root mean square error. It is computed from the exact covariance of the first moment, which is normal
    with many reports. The error of a distribution is the expected Wasserstein-1 distance to the users' own
    values, simulated with fixed seeds. For a distribution, the result reaches the error with a margin of two
    standard errors of the simulation.

    Examples
    --------
    >>> from arcwise.domains import Circle
    >>> answer = plan(Circle(360), epsilon=1, error=2.0, compare=False)
    >>> answer.error <= 2.0
    True
    >>> from arcwise.tasks import CentralStatement
    >>> plan(Circle(360), central=CentralStatement(1.0, 1e-8, 10_000)).epsilon
    5.17
    """
    compare = checked_bool("compare", compare)
    if central is not None:
        _check_alone(central, {"epsilon": epsilon, "error": error, "reports": reports})
        epsilon, reports, compare = TRIAL, central.reports, False
    request = check_request(
        domain,
        goal=goal,
        epsilon=epsilon,
        error=error,
        reports=reports,
        population=population,
        length=length,
        target=target,
        level=level,
        delta=delta,
        central=central,
    )
    members = families(
        domain,
        request.goal,
        delta,
        compare=compare,
        populations=tuple(population for _, population in request.populations),
        lines=request.lines,
    )
    if central is not None:
        request = request._replace(epsilon=_allowed(domain, central, members[0]))
    work = Work(request, members, progress)
    rows, left_out, curve = work.rows()
    if compare:
        left_out |= unserving(domain, delta)
    smallest = min(getattr(row, work.compared) for row in rows)
    rows = [replace(row, relative=getattr(row, work.compared) / smallest) for row in rows]
    rows.sort(key=lambda row: (row.relative, not row.chosen, row.label))
    answer = next(row for row in rows if row.chosen)
    scale = domain.length
    measure, holds = meaning(request)
    return Plan(
        domain=domain,
        goal=request.goal,
        found=request.found,
        compared=work.compared,
        asked=None if request.error is None else request.error * scale,
        level=request.level,
        target=request.target,
        measure=measure,
        holds=holds,
        rows=tuple(rows),
        left_out=left_out,
        populations={name: scale * share for name, share in curve.details(answer.reports).items()},
        central=central,
        notes=tuple(_notes(request, work, answer, rows)),
    )


def _check_alone(central: CentralStatement, beside: dict[str, Any]) -> None:
    """Refuse a `central` that is not a statement, and arguments that a statement replaces."""
    if not isinstance(central, CentralStatement):
        raise ParameterError(f"central must be None or a CentralStatement, got {shown(central)}")
    for name, value in beside.items():
        if value is not None:
            raise ParameterError(
                f"{name} must be left out with central, got {value!r}: the promise gives epsilon and "
                "reports, and the error is computed"
            )


def _allowed(domain: Domain, central: CentralStatement, chosen: Family) -> float:
    """Return the local epsilon that a promise allows for the chosen mechanism."""

    def usual(trial: float) -> Kernel:
        return Task("planned", domain.unit(), trial, expected_reports=central.reports).mechanism.kernel

    def own(trial: float) -> Kernel:
        return chosen.make(trial, central.reports).kernel

    if chosen.designed:  # start near the answer, at the epsilon of a mechanism without a solver
        start = largest_local(central, usual, slack=_SLACK)
        return largest_local(central, own, start=start, slack=_SLACK)
    return largest_local(central, own, slack=0.0 if central.releases == 1 else _SLACK)


def _notes(
    request: Request, work: Work, answer: PlannedMechanism, rows: list[PlannedMechanism]
) -> Iterator[str]:
    """Yield further notes; the last notes are about grids that are coarse for their epsilon."""
    best, others = rows[0], rows[1:]
    if request.epsilon is None and answer.epsilon <= LOWEST:
        yield f"even epsilon {LOWEST:g}, the smallest that is tried, reaches the error"
    if request.simulated and others:
        yield f"mechanisms are compared by few surveys: ratios below {_MAY_BE_CHANCE:g} may be chance"
    if answer.relative > (_MAY_BE_CHANCE if request.simulated else _WORTH_SAYING):
        verb = "has" if work.compared == "error" else "needs"
        words = f"{best.label} {verb} {1 / answer.relative:.3g} times the {work.compared} of {answer.label}"
        yield f"{words}: {best.command}" if best.command else words
    if answer.label in work.coarse:
        yield f"{answer.label}: {work.coarse[answer.label]}"
    coarse = [label for label in work.coarse if label != answer.label]
    if coarse:
        yield f"the grids of these other mechanisms are too coarse for this epsilon: {'; '.join(coarse)}"
