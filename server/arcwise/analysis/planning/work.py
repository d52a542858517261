"""The planning of every mechanism of a request, the chosen one first."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from arcwise.analysis.planning.epsilon import HIGHEST, smallest_epsilon
from arcwise.analysis.planning.fineness import fineness
from arcwise.analysis.planning.mechanisms import MANY_REPORTS
from arcwise.analysis.planning.models import Model
from arcwise.analysis.planning.result import PlannedMechanism
from arcwise.digits import rounded_up
from arcwise.errors import CertificateError, ParameterError
from arcwise.kernels.certificate import UNIT

if TYPE_CHECKING:
    from arcwise.analysis.planning.base import Curve
    from arcwise.analysis.planning.mechanisms import Family
    from arcwise.analysis.planning.request import Request
    from arcwise.mechanisms import Mechanism

    Points = tuple[tuple[float, float], ...]

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with the mechanisms that are done, their number in all, and a few words on the work at hand."""

TRIAL = 1.0
"""Where the search for the chosen mechanism's epsilon begins; the others' begin at its answer."""

_TOLERANCE = 0.005
_SIMULATED_TOLERANCE = 0.03


class Work:
    """The planning of one checked request, with the mechanisms that may serve it, the chosen one first.

    `model` has the errors. `compared` is the quantity by which mechanisms are compared: the one to be found
    or, if that is simulated, the error with the reports and the epsilon of the chosen one. `coarse` has by
    label the mechanisms whose grids are coarse for their epsilon, with the advice of `fineness`.
    """

    def __init__(self, request: Request, members: list[Family], progress: Progress | None) -> None:
        self.model = Model(request, self._tick)
        self.compared = "error" if self.model.simulated else request.found
        self.coarse: dict[str, str] = {}
        self._request = request
        self._members = members
        self._progress = progress
        self._done = 0
        self._start = TRIAL

    def rows(self) -> tuple[list[PlannedMechanism], dict[str, str], Curve]:
        """Return a row for each mechanism, why others have none, and the curve of the chosen one."""
        chosen, curve = self._row(self._members[0])
        self._start = chosen.epsilon
        rows, left_out = [chosen], {}
        others = self._members[1:]
        scale = 1.0
        if others and self.model.simulated:
            scale = chosen.error / self._beside(self._members[0], chosen).error
        for family in others:
            self._done += 1
            try:
                if self.model.simulated:
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
        """Return what one mechanism needs or reaches."""
        request = self._request
        self._tick(family.label)
        tried: Points = ()
        reports, epsilon = request.reports, request.epsilon
        if epsilon is None:
            epsilon, tried, mechanism, curve = self._epsilon(family)
        else:
            mechanism = family.make(epsilon, reports)
            curve = self.model.curve(mechanism)
        if reports is None:
            mechanism, curve, reports = self._reports(family, mechanism, curve, epsilon)
        if math.isinf(curve.error(reports)):
            raise ParameterError(f"{reports} reports are too few to estimate a {request.goal}")
        return self._described(family, mechanism, curve, reports=reports, epsilon=epsilon, tried=tried), curve

    def _beside(self, family: Family, chosen: PlannedMechanism) -> PlannedMechanism:
        """Return the error of a mechanism, from few surveys, with the chosen one's reports and epsilon.

        It is to be set in relation to that of the chosen one from as few: their users and seeds are the same.
        """
        self._tick(family.label)
        mechanism = family.make(chosen.epsilon, chosen.reports)
        curve = self.model.curve(mechanism, brief=True)
        return self._described(
            family, mechanism, curve, reports=chosen.reports, epsilon=chosen.epsilon, tried=()
        )

    def _reports(
        self, family: Family, mechanism: Mechanism, curve: Curve, epsilon: float
    ) -> tuple[Mechanism, Curve, int]:
        """Return the number of reports that reaches the error, with the mechanism that so many get."""
        error = self._request.error
        assert error is not None  # noqa: S101 -- two of three are given
        reports = curve.reports(error)
        if reports is not None and self.model.simulated:
            finer = family.make(epsilon, reports)
            if finer.kernel.nodes != mechanism.kernel.nodes:
                # With the finer grid fewer reports may do; but not fewer than get it.
                mechanism, curve = finer, self.model.curve(finer)
                reports = curve.reports(error)
                reports = None if reports is None else max(reports, MANY_REPORTS)
        if reports is None:
            raise ParameterError(
                f"error must be at least {self._in_unit(curve.reached(curve.most)):.4g}, what the largest "
                f"number of reports, {curve.most:,}, reaches at epsilon {rounded_up(epsilon)} with "
                f"{family.label}; got {self._in_unit(error):.4g}"
            )
        return mechanism, curve, reports

    def _epsilon(self, family: Family) -> tuple[float, Points, Mechanism, Curve]:
        """Return the smallest epsilon that reaches the error with one mechanism, and all that were tried."""
        made: dict[float, tuple[Mechanism, Curve]] = {}
        error, reports = self._request.error, self._request.reports
        assert error is not None  # noqa: S101 -- two of three are given
        assert reports is not None  # noqa: S101

        def reached(epsilon: float) -> float:
            self._tick(f"{family.label} at epsilon {rounded_up(epsilon)}")
            mechanism = family.make(epsilon, reports)
            made[epsilon] = mechanism, self.model.curve(mechanism)
            return made[epsilon][1].reached(reports)

        tolerance = _SIMULATED_TOLERANCE if self.model.simulated else _TOLERANCE
        answer = smallest_epsilon(reached, error, start=self._start, tolerance=tolerance)
        if answer.epsilon is None:
            least = self._in_unit(answer.tried[-1][1])
            raise ParameterError(
                f"error must be at least {least:.4g}, what {reports:,} reports reach at epsilon "
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
            command=family.command(request.domain, request.goal, epsilon, reports),
            points=tuple((x, self._in_unit(y)) for x, y in points if not math.isinf(y)),
        )

    def _in_unit(self, share: float) -> float:
        return share * self._request.domain.length

    def _tick(self, words: str) -> None:
        if self._progress is not None:
            self._progress(self._done, len(self._members), words)
