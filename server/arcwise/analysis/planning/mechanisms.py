"""The mechanisms that serve a goal: how to make each at any epsilon, and the command for its task."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arcwise.analysis.design.request import designable
from arcwise.analysis.mechanism_table.table import Candidate, candidates
from arcwise.digits import rounded_up
from arcwise.errors import ParameterError
from arcwise.tasks import Task

if TYPE_CHECKING:
    from arcwise.analysis.simulate import Population
    from arcwise.domains import Domain
    from arcwise.mechanisms import Mechanism
    from arcwise.tasks.central import CentralStatement

MANY_REPORTS = 1_000_000
"""From this many expected reports on, a task for the distribution of an interval has 256 nodes."""

_FOR_POPULATION = "LP design, population"
"""The label of the mechanism of `arcwise task new --goal mean --population`."""

_WHY_NO_CLAMP = (
    "values near an end give the same reports, so no number of them reaches a small error; "
    "it is the optimum for a single value (goal value)"
)
_WHY_NO_DELTA = "it spends a delta: give the delta that is allowed"
_UNUSED_DELTA = 1e-6
"""If no delta is allowed, families that spend one have this delta, only to be listed as left out."""


@dataclass(frozen=True)
class Family:
    """One mechanism for tasks with a goal, which can be made at any epsilon.

    `chosen` marks the default mechanism of this goal. `options` are the command's options other than domain,
    epsilon and goal, or None if no command makes the task.
    """

    candidate: Candidate
    goal: str
    chosen: bool
    options: str | None

    @property
    def label(self) -> str:
        """The label of the mechanism in `arcwise compare`."""
        return self.candidate.label

    @property
    def designed(self) -> bool:
        """Whether a solver makes the mechanism, which takes seconds for each epsilon."""
        return self.candidate.family is None

    def make(self, epsilon: float, reports: int | None) -> Mechanism:
        """Return the mechanism on the unit domain; its grid may depend on the number of reports, if known."""
        if self.chosen and self.goal == "distribution":
            unit = self.candidate.domain
            return Task("planned", unit, epsilon, goal=self.goal, expected_reports=reports).mechanism
        mechanism = self.candidate.make(epsilon)
        if mechanism.epsilon != epsilon:
            raise ParameterError(f"spends only a delta, not epsilon {rounded_up(epsilon)}")
        return mechanism

    def command(
        self, domain: Domain, epsilon: float, reports: int, central: CentralStatement | None = None
    ) -> str:
        """Return the command that makes such a task; empty if `arcwise task new` has no options for it."""
        if self.options is None:
            return ""
        words = f"arcwise task new NAME {domain_words(domain)} --epsilon {epsilon:.15g} --goal {self.goal}"
        if central is not None:
            words += f" {_statement_words(central)}"
        words += self.options
        finer = self.chosen and self.goal == "distribution" and not (domain.circular or domain.discrete)
        return f"{words} --expected-reports {reports}" if finer and reports >= MANY_REPORTS else words


def _statement_words(central: CentralStatement) -> str:
    """Return the command options that make a statement."""
    words = f"--central {central.epsilon:.15g} --delta {central.delta:.15g} --reports {central.reports}"
    words += f" --honest {central.honest:.15g}" if central.honest < 1 else ""
    words += f" --reports-each {central.reports_each}" if central.reports_each > 1 else ""
    return words + (f" --releases {central.releases}" if central.releases > 1 else "")


def domain_words(domain: Domain) -> str:
    """Return the command options that name the domain, without the options for clipping."""
    words = (
        f"--circle {domain.period:.12g}"
        if domain.circular
        else f"--domain {domain.low:.12g}:{domain.high:.12g}"
    )
    if domain.step is not None:
        words += f" --step {domain.step:.12g}"
        words += f" --rounding {domain.rounding}" if domain.rounding != "refuse" else ""
    return words


def families(
    domain: Domain,
    goal: str,
    delta: float | None,
    *,
    compare: bool,
    populations: tuple[Population, ...] = (),
    lines: tuple[str, ...] = (),
) -> list[Family]:
    """Return the mechanisms that may serve a goal; the first is the default of a task.

    Without a `delta`, mechanisms that spend a delta are left out. Without `compare`, all mechanisms but the
    first are left out. `populations` are the populations, on the unit domain, that a mechanism for a mean may
    be designed for. `lines` are the same populations as they were written, for commands.
    """
    listed = [
        each
        for each in _listed(domain, delta, designs=goal != "distribution")
        if each.options.get("goal", goal) == goal
        and not _clamps(each)
        and (delta is not None or not _spends(each))
    ]
    designs = goal == "mean" and (not domain.discrete or designable(domain))
    if designs and populations:
        options = {"goal": goal, "population": populations}
        listed.insert(0, Candidate(_FOR_POPULATION, domain.unit(), None, options))
    if domain.circular:
        first = "optimal-circular"
    elif not designs:
        first = "optimal-piecewise, inset"
    else:
        # A command cannot take values as populations, so their design is only listed next to the default.
        first = _FOR_POPULATION if lines else "LP design, mean"
    listed.sort(key=lambda each: each.label != first)
    return [
        Family(each, goal, each.label == first, _options(each, goal, lines, chosen=each.label == first))
        for each in listed[: None if compare else 1]
    ]


def _options(each: Candidate, goal: str, lines: tuple[str, ...], *, chosen: bool) -> str | None:
    """Return the command options other than domain, epsilon and goal; None if no command makes the task."""
    if each.label == _FOR_POPULATION:
        return "".join(f" --population {shlex.quote(line)}" for line in lines) or None
    if each.label == "LP design, mean" or (chosen and goal != "mean"):
        return ""
    if each.family is None or each.options.get("power") == 2.0:
        return None
    return f" --mechanism {each.family.name}" + (
        f" --delta {each.options['delta']:.15g}" if _spends(each) else ""
    )


def unserving(domain: Domain, delta: float | None) -> dict[str, str]:
    """Return, by label, why some mechanisms of this domain do not serve any goal that can be planned."""
    listed = _listed(domain, None, designs=False)
    clamped = {each.label: _WHY_NO_CLAMP for each in listed if _clamps(each)}
    return clamped | {each.label: _WHY_NO_DELTA for each in listed if delta is None and _spends(each)}


def _listed(domain: Domain, delta: float | None, *, designs: bool) -> list[Candidate]:
    allowed = _UNUSED_DELTA if delta is None else delta
    return candidates(domain.unit(), delta=allowed, nodes=None, designs=designs)


def _clamps(each: Candidate) -> bool:
    return each.options.get("placement") == "clamp"


def _spends(each: Candidate) -> bool:
    return each.family is not None and each.family.approximate
