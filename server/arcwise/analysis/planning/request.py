"""Requests to the planner: arguments with their bounds and defaults, checked once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from arcwise.analysis.estimators.inference_target import check_level
from arcwise.analysis.planning.curve import MAX_REPORTS
from arcwise.analysis.planning.distribution import FEWEST
from arcwise.analysis.simulate import MAX_DEVICES, as_populations
from arcwise.checks import real_or_nan
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.kernels.certificate import check_epsilon

if TYPE_CHECKING:
    from arcwise.analysis.simulate import Population
    from arcwise.domains import Domain
    from arcwise.tasks.central import CentralStatement

DEFAULT_LENGTH = 0.5
"""The resultant length that is assumed for a direction, unless one is given."""

_GOALS = {Interval: ("mean", "distribution"), Circle: ("direction", "distribution")}
"""The goals of each kind of domain; the first is the default."""


class Request(NamedTuple):
    """A checked request; one of epsilon, error and reports is None, and is the quantity to find.

    The error is a share of the range or of the period. `populations` are pairs of a name and the parsed
    population. The tuple is empty for the worst of all populations, or for the reference populations of a
    distribution. `lines` are the populations as they were written; the tuple is empty if they were not given
    as lines. The other fields are as for `plan`.
    """

    domain: Domain
    goal: str
    epsilon: float | None
    error: float | None
    reports: int | None
    populations: tuple[tuple[str, Population], ...]
    lines: tuple[str, ...]
    length: float
    target: str
    level: float
    delta: float | None
    central: CentralStatement | None

    @property
    def simulated(self) -> bool:
        """Whether errors are simulated, because no formula gives them."""
        return self.goal == "distribution"

    @property
    def found(self) -> str:
        """The quantity to be found: "epsilon", "error" or "reports"."""
        return next(name for name in ("epsilon", "error", "reports") if getattr(self, name) is None)


def check_request(
    domain: Domain,
    *,
    goal: str | None,
    epsilon: float | None,
    error: float | str | None,
    reports: float | None,
    population: Any,
    length: float | None,
    target: str,
    level: float,
    delta: float | None,
    central: CentralStatement | None,
) -> Request:
    """Return a request with its defaults filled in, or raise `ParameterError`."""
    if not isinstance(domain, (Interval, Circle)):
        raise ParameterError(f"domain must be an Interval or a Circle, got {domain!r}")
    goals = _GOALS[type(domain)]
    goal = goals[0] if goal is None else goal
    if goal not in goals:
        names = " or ".join(f'"{name}"' for name in goals)
        raise ParameterError(f"goal must be {names} on {type(domain).__name__}, got {goal!r}")
    given = {"epsilon": epsilon, "error": error, "reports": reports}
    known = [name for name, value in given.items() if value is not None]
    if len(known) != 2:
        raise ParameterError(
            "two of epsilon, error and reports must be given, and the third is computed; "
            f"got {', '.join(known) or 'none'}"
        )
    if target not in ("population", "users"):
        raise ParameterError(f'target must be "population" or "users", got {target!r}')
    if target == "users" and goal == "direction":
        raise ParameterError('target must be "population" for a direction, got "users"')
    if length is not None and (goal != "direction" or population is not None):
        raise ParameterError("length must be left out except for a direction without a population")
    if length is not None and not 0.01 <= length <= 1.0:
        raise ParameterError(f"length must be from 0.01 to 1, got {length!r}")
    check_level(level)
    if delta is not None and not 0.0 < delta < 1.0:
        raise ParameterError(f"delta must be more than 0 and less than 1, got {delta!r}")
    parsed = () if population is None else as_populations(population, domain)
    if len(parsed) > 1 and goal == "direction":
        raise ParameterError(f"population must be a single one for a direction, got {len(parsed)}")
    given_lines = population if isinstance(population, (list, tuple)) else [population]
    lines = tuple(line for line in given_lines if isinstance(line, str))
    lines = lines if len(lines) == len(parsed) else ()
    called = lines or tuple(
        f"the given population {place}" if len(parsed) > 1 else "the given population"
        for place in range(1, len(parsed) + 1)
    )
    return Request(
        domain=domain,
        goal=goal,
        epsilon=None if epsilon is None else check_epsilon(epsilon),
        error=None if error is None else _read_error(error, domain),
        reports=None if reports is None else _checked_reports(reports, goal),
        populations=tuple(zip(called, parsed, strict=True)),
        lines=lines,
        length=DEFAULT_LENGTH if length is None else float(length),
        # The error of a distribution is the distance to the law of the users who report.
        target="users" if goal == "distribution" else target,
        level=float(level),
        delta=delta,
        central=central,
    )


def _read_error(error: float | str, domain: Domain) -> float:
    """Return an error as a share of the range or the period.

    A number, or a text with a number, is in the unit of the domain; a text that ends with % is a share of the
    range.
    """
    number: Any = error
    if isinstance(error, str):
        text = error.strip()
        share = text.endswith("%")
        try:
            number = float(text.removesuffix("%"))
        except ValueError:
            number = math.nan
        number = number / 100.0 * domain.length if share else number
    if not 0.0 < real_or_nan(number) < math.inf:
        raise ParameterError(f"error must be a positive number or a share such as '1%', got {error!r}")
    unit = float(number) / domain.length
    if unit > 1.0:
        raise ParameterError(
            f"error must be at most the {'period' if domain.circular else 'range'} "
            f"{domain.length:g}, got {error!r}"
        )
    return max(unit, 1e-300)


def _checked_reports(reports: float, goal: str) -> int:
    least, most = (FEWEST, MAX_DEVICES) if goal == "distribution" else (1, MAX_REPORTS)
    if not least <= real_or_nan(reports) <= most or reports != int(reports):
        raise ParameterError(
            f"reports must be a whole number from {least} to {most} for a {goal}, got {reports!r}"
        )
    return int(reports)
