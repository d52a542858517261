"""Plans for every mechanism of a request, and the meaning of the error in words."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, cast

from arcwise.analysis.planning.curve import HIGHEST, smallest_epsilon
from arcwise.analysis.planning.direction import DirectionCurve
from arcwise.analysis.planning.distribution import SimulatedCurve, Surveys
from arcwise.analysis.planning.fineness import fineness
from arcwise.analysis.planning.mean import MeanCurve
from arcwise.analysis.planning.mechanisms import MANY_REPORTS
from arcwise.analysis.planning.result import PlannedMechanism
from arcwise.analysis.simulate import named_population
from arcwise.digits import rounded_up
from arcwise.errors import CertificateError, ParameterError
from arcwise.kernels.certificate import UNIT

if TYPE_CHECKING:
    from arcwise.analysis.planning.curve import Curve
    from arcwise.analysis.planning.mechanisms import Family
    from arcwise.analysis.planning.request import Request
    from arcwise.mechanisms import Mechanism
    from arcwise.mechanisms.circular import CircularMechanism

    Points = tuple[tuple[float, float], ...]

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with the number of finished mechanisms, their total, and a few words on the current work."""

TRIAL = 1.0
"""The start of the search for the chosen mechanism's epsilon. Other searches start at its result."""

_TOLERANCE = 0.005
_SIMULATED_TOLERANCE = 0.03
_SURVEYS = Surveys(few=8, many=48)
_BRIEF = Surveys(few=8, many=16)

_REFERENCES = ("uniform", "beta25", "two-bumps")
_REFERENCES_OF_CIRCLE = ("uniform", "von-mises", "two-directions")
"""The named populations that a distribution is planned for, if the caller gives no population."""


def meaning(request: Request) -> tuple[str, str]:
    """Return in words the definition of the error, and the populations for which it holds."""
    names = [name for name, _ in request.populations]
    several = len(names) > 1
    words = f"for {' and '.join(names)}"
    if request.goal == "mean":
        measure = (
            "standard error of the mean over repeated surveys, exact"
            if request.target == "population"
            else "standard error of these users' mean over repeated reports of theirs, exact"
        )
        if not names:
            return measure, "for every population: planned for the worst"
        return measure, f"on average {words}" if several else words
    if request.goal == "direction":
        worst = f"for every population with a resultant length of at least {request.length:g}"
        return "root mean square error of the direction over repeated surveys", words if names else worst
    measure = "expected Wasserstein-1 distance to the values of those who report, "
    measure += f"simulated ({_SURVEYS.many} surveys)"
    if not names:
        return measure, f"for the worst of {', '.join(_references(request))}: no guarantee for others"
    return measure, f"for the worst of {' and '.join(names)}" if several else words


def _references(request: Request) -> tuple[str, ...]:
    return _REFERENCES_OF_CIRCLE if request.domain.circular else _REFERENCES


class Work:
    """The planning of one checked request for the mechanisms that may serve it; the first is the chosen one.

    `compared` is the quantity by which mechanisms are compared. It is the quantity to find or, if errors are
    simulated, the error with the reports and the epsilon of the chosen mechanism. `coarse` maps the label of
    each mechanism with a grid that is coarse for its epsilon to the warning of `fineness`.
    """

    def __init__(self, request: Request, members: list[Family], progress: Progress | None) -> None:
        self.compared = "error" if request.simulated else request.found
        self.coarse: dict[str, str] = {}
        self._request = request
        self._populations = dict(request.populations)
        if request.simulated and not self._populations:
            circular = request.domain.circular
            self._populations = {
                name: named_population(name, circular=circular) for name in _references(request)
            }
        self._members = members
        self._progress = progress
        self._done = 0
        self._start = TRIAL

    def rows(self) -> tuple[list[PlannedMechanism], dict[str, str], Curve]:
        """Return the rows, the reasons for mechanisms without a row, and the chosen mechanism's curve."""
        chosen, curve = self._row(self._members[0])
        self._start = chosen.epsilon
        rows, left_out = [chosen], {}
        others = self._members[1:]
        simulated = self._request.simulated
        # Users and seeds are the same for all mechanisms, so that errors from few surveys can be compared.
        scale = chosen.error / self._beside(self._members[0], chosen).error if others and simulated else 1.0
        for family in others:
            self._done += 1
            try:
                if simulated:
                    row = self._beside(family, chosen)
                    error = scale * row.error
                    at = row.epsilon if self._request.epsilon is None else row.reports
                    rows.append(replace(row, error=error, points=((at, error),)))
                else:
                    rows.append(self._row(family)[0])
            except (ParameterError, CertificateError) as reason:
                left_out[family.label] = str(reason)
        self._done = len(self._members)
        self._tick("")
        return rows, left_out, curve

    def _row(self, family: Family) -> tuple[PlannedMechanism, Curve]:
        """Return the row of one mechanism, and its error curve."""
        request = self._request
        self._tick(family.label)
        tried: Points = ()
        reports, epsilon = request.reports, request.epsilon
        if epsilon is None:
            epsilon, tried, mechanism, curve = self._epsilon(family)
        else:
            mechanism = family.make(epsilon, reports)
            curve = self._curve(mechanism)
        if reports is None:
            mechanism, curve, reports = self._reports(family, mechanism, curve, epsilon)
        if math.isinf(curve.error(reports)):
            raise ParameterError(f"{reports} reports are too few to estimate a {request.goal}")
        return self._described(family, mechanism, curve, reports=reports, epsilon=epsilon, tried=tried), curve

    def _beside(self, family: Family, chosen: PlannedMechanism) -> PlannedMechanism:
        """Return a mechanism's error, from few surveys, with the reports and epsilon of the chosen one."""
        self._tick(family.label)
        mechanism = family.make(chosen.epsilon, chosen.reports)
        curve = self._curve(mechanism, brief=True)
        return self._described(
            family, mechanism, curve, reports=chosen.reports, epsilon=chosen.epsilon, tried=()
        )

    def _curve(self, mechanism: Mechanism, *, brief: bool = False) -> Curve:
        """Return the error curve of a mechanism on the unit domain; `brief` simulates fewer surveys."""
        request = self._request
        if request.goal == "mean":
            members = tuple(population for _, population in request.populations)
            return MeanCurve(mechanism, members or None, request.target)
        if request.goal == "direction":
            member = request.populations[0][1] if request.populations else None
            return DirectionCurve(cast("CircularMechanism", mechanism), member, request.length)
        return SimulatedCurve(
            mechanism,
            self._populations,
            _BRIEF if brief else _SURVEYS,
            tick=lambda reports: self._tick(f"{mechanism.name}, surveys of {reports:,} reports"),
        )

    def _reports(
        self, family: Family, mechanism: Mechanism, curve: Curve, epsilon: float
    ) -> tuple[Mechanism, Curve, int]:
        """Return the mechanism and the curve for a task that reaches the error, and its number of reports."""
        error = self._request.error
        assert error is not None  # noqa: S101 -- two of three are given
        reports = curve.reports(error)
        if reports is not None and self._request.simulated:
            finer = family.make(epsilon, reports)
            if finer.kernel.nodes != mechanism.kernel.nodes:
                # The finer grid may need fewer reports, but it is used only from MANY_REPORTS on.
                mechanism, curve = finer, self._curve(finer)
                reports = curve.reports(error)
                reports = None if reports is None else max(reports, MANY_REPORTS)
        if reports is None:
            raise ParameterError(
                f"error must be at least {self._in_unit(curve.reached(curve.most)):.4g}, which the largest "
                f"number of reports, {curve.most:,}, reaches at epsilon {rounded_up(epsilon)} with "
                f"{family.label}; got {self._in_unit(error):.4g}"
            )
        return mechanism, curve, reports

    def _epsilon(self, family: Family) -> tuple[float, Points, Mechanism, Curve]:
        """Return the smallest epsilon that reaches the error with one mechanism, and all pairs tried."""
        made: dict[float, tuple[Mechanism, Curve]] = {}
        error, reports = self._request.error, self._request.reports
        assert error is not None  # noqa: S101 -- two of three are given
        assert reports is not None  # noqa: S101

        def reached(epsilon: float) -> float:
            self._tick(f"{family.label} at epsilon {rounded_up(epsilon)}")
            mechanism = family.make(epsilon, reports)
            made[epsilon] = mechanism, self._curve(mechanism)
            return made[epsilon][1].reached(reports)

        tolerance = _SIMULATED_TOLERANCE if self._request.simulated else _TOLERANCE
        answer = smallest_epsilon(reached, error, start=self._start, tolerance=tolerance)
        if answer.epsilon is None:
            least = self._in_unit(answer.tried[-1][1])
            raise ParameterError(
                f"error must be at least {least:.4g}, which {reports:,} reports reach at epsilon "
                f"{HIGHEST:g} with {family.label}; got {self._in_unit(error):.4g}"
            )
        return answer.epsilon, answer.tried, *made[answer.epsilon]

    def _described(
        self,
        family: Family,
        mechanism: Mechanism,
        curve: Curve,
        *,
        reports: int,
        epsilon: float,
        tried: Points,
    ) -> PlannedMechanism:
        request = self._request
        found = fineness(mechanism)
        if found is not None and (warning := found.warning()):
            self.coarse[family.label] = warning
        half = curve.half_width(reports, request.level)
        points = tried or curve.points(reports)
        return PlannedMechanism(
            label=family.label,
            chosen=family.chosen,
            reports=reports,
            epsilon=epsilon,
            error=self._in_unit(curve.error(reports)),
            half_width=None if half is None else self._in_unit(half),
            relative=math.nan,
            delta=mechanism.certificate().delta / UNIT,
            nodes=mechanism.kernel.nodes,
            codes=mechanism.kernel.codes,
            command=family.command(request.domain, epsilon, reports, request.central),
            points=tuple((x, self._in_unit(y)) for x, y in points if not math.isinf(y)),
        )

    def _in_unit(self, share: float) -> float:
        return share * self._request.domain.length

    def _tick(self, words: str) -> None:
        if self._progress is not None:
            self._progress(self._done, len(self._members), words)
