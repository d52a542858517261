"""What error means for each goal, for which populations it is planned, and the curve of a mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from arcwise.analysis.planning.direction import DirectionCurve
from arcwise.analysis.planning.distribution import SimulatedCurve, Surveys
from arcwise.analysis.planning.mean import MeanCurve
from arcwise.analysis.simulate import named_population

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from arcwise.analysis.planning.base import Curve
    from arcwise.analysis.planning.request import Request
    from arcwise.analysis.simulate import Population
    from arcwise.mechanisms import Mechanism
    from arcwise.mechanisms.circular import CircularMechanism

REFERENCES = {
    "interval": ("uniform", "beta25", "two-bumps"),
    "circle": ("uniform", "von-mises", "two-directions"),
}
"""The populations that a distribution is planned for where none is given, by their names in `simulate`."""

_SURVEYS = Surveys(few=8, many=48)
_BRIEF = Surveys(few=8, many=16)


class Model:
    """The curves of one checked request.

    `measure` names the error in words, and `holds` the populations for which it holds. `tick` is called with
    a few words before each simulation, if curves are `simulated`.
    """

    def __init__(self, request: Request, tick: Callable[[str], None]) -> None:
        self._request = request
        self._tick = tick
        self.simulated = request.goal == "distribution"
        self._populations: Mapping[str, Population] = {}
        given = bool(request.populations)
        words = " and ".join(name for name, _ in request.populations)
        if request.goal == "mean":
            self.measure = (
                "standard error of the mean over repeated surveys, exact"
                if request.target == "population"
                else "standard error of these users' mean over repeated reports of theirs, exact"
            )
            self.holds = "for every population: the worst is planned for"
            if given:
                self.holds = f"{'on average ' if len(request.populations) > 1 else ''}for {words}"
        elif request.goal == "direction":
            self.measure = "root mean square error of the direction over repeated surveys"
            self.holds = (
                f"for {words}"
                if given
                else f"for every population with a resultant length of at least {request.length:g}"
            )
        else:
            circular = request.domain.circular
            self.measure = (
                "expected Wasserstein-1 distance to the values of those who report, "
                f"simulated ({_SURVEYS.many} surveys)"
            )
            if given:
                self._populations = dict(request.populations)
                self.holds = f"for {'the worst of ' if len(request.populations) > 1 else ''}{words}"
            else:
                names = REFERENCES["circle" if circular else "interval"]
                self._populations = {name: named_population(name, circular=circular) for name in names}
                self.holds = f"for the worst of {', '.join(names)}: no guarantee for others"

    def curve(self, mechanism: Mechanism, *, brief: bool = False) -> Curve:
        """Return the error of a mechanism on the unit domain as a function of the number of reports.

        With `brief`, fewer surveys are simulated.
        """
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
