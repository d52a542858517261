"""Which mechanisms serve a goal, how each is made at any epsilon, and the command that makes its task."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from arcwise.analysis.design import minimax
from arcwise.analysis.design.request import designable
from arcwise.analysis.mechanism_table.candidates import candidates
from arcwise.digits import rounded_up
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.mechanisms.registry import MECHANISMS
from arcwise.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.analysis.simulate import Population
    from arcwise.domains import Domain
    from arcwise.mechanisms import Mechanism
    from arcwise.tasks.central import CentralStatement

MANY_REPORTS = 1_000_000
"""From so many expected reports on a task for the distribution of an interval has 256 nodes."""

_CHOSEN = {
    ("mean", Interval): "LP design, mean",
    ("distribution", Interval): "optimal-piecewise, inset",
    ("direction", Circle): "optimal-circular",
    ("distribution", Circle): "optimal-circular",
}
"""The label of what `arcwise task new --goal` takes."""

_FOR_POPULATION = "LP design, population"
"""The label of what `arcwise task new --goal mean --population` takes."""

_DESIGNS = {("mean", Interval): "LP design, mean", ("direction", Circle): "LP design, direction"}
_CLAMP = "clamp"
_WHY_NO_CLAMP = (
    "values near an end give the same reports, so no number of them reaches a small error; "
    "it is the optimum for a single value (goal value)"
)
_WHY_NO_DELTA = "it spends a delta: say which one is allowed"
_UNUSED_DELTA = 1e-6
"""What families that spend a delta are listed with when none is allowed, to be left out by their name."""


@dataclass(frozen=True)
class Family:
    """One mechanism at any epsilon.

    `label` is that of `arcwise compare`. `chosen` marks the mechanism that a task with this goal gets. `make`
    takes epsilon and the number of reports, if known, and returns the mechanism on the unit domain. `delta`
    is the one that it is made to spend, None for pure mechanisms; `lines` are the populations that it is
    designed for, as they were written.
    """

    label: str
    chosen: bool
    make: Callable[[float, int | None], Mechanism]
    delta: float | None = None
    lines: tuple[str, ...] = ()

    @property
    def designed(self) -> bool:
        """Whether a solver makes it, which takes seconds for each epsilon."""
        return self.label.startswith("LP design")

    def command(
        self,
        domain: Domain,
        goal: str,
        epsilon: float,
        reports: int,
        central: CentralStatement | None = None,
    ) -> str:
        """Return the command that makes such a task; empty where `arcwise task new` has no words for it."""
        start = f"arcwise task new NAME {domain_words(domain)} --epsilon {epsilon:.15g} --goal {goal}"
        if central is not None:
            start += f" {_statement_words(central)}"
        if self.label == _FOR_POPULATION:
            given = "".join(f" --population {shlex.quote(line)}" for line in self.lines)
            return start + given if given else ""
        if self.label == _DESIGNS.get((goal, type(domain))) == "LP design, mean":
            return start
        if self.chosen and self.label == _CHOSEN[goal, type(domain)]:
            finer = goal == "distribution" and not domain.circular and reports >= MANY_REPORTS
            finer = finer and not domain.discrete
            return f"{start} --expected-reports {reports}" if finer else start
        name, _, member = self.label.partition(", ")
        if name == "LP design" or member not in ("", "inset"):
            return ""
        return f"{start} --mechanism {name}" + (
            f" --delta {self.delta:.15g}" if self.delta is not None else ""
        )


def _statement_words(central: CentralStatement) -> str:
    """Return the options of a command that make a statement."""
    words = f"--central {central.epsilon:.15g} --delta {central.delta:.15g} --reports {central.reports}"
    words += f" --honest {central.honest:.15g}" if central.honest < 1 else ""
    words += f" --reports-each {central.reports_each}" if central.reports_each > 1 else ""
    return words + (f" --releases {central.releases}" if central.releases > 1 else "")


def domain_words(domain: Domain) -> str:
    """Return the options of a command that name the domain; clipping is left out."""
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
    epsilon: float,
    delta: float | None,
    *,
    compare: bool,
    populations: tuple[Population, ...] = (),
    lines: tuple[str, ...] = (),
) -> list[Family]:
    """Return the mechanisms that may serve a goal; the one that its task gets comes first.

    The families are the same at every epsilon. Without a `delta`, mechanisms that spend one are left out;
    without `compare`, all but the first. `populations`, on the unit domain, are those that a mean may be
    designed for, and `lines` are the same as they were written, for commands.
    """
    unit = domain.unit()
    kind = goal, type(domain)
    first = _CHOSEN[kind]
    if first == "LP design, mean":
        if domain.discrete and not designable(domain):
            first = "optimal-piecewise, inset"
        elif populations and lines:
            first = _FOR_POPULATION
    # Of values there are no lines that `arcwise task new` could take: their design stands beside the goal's.
    designed = bool(populations) and goal == "mean" and (not domain.discrete or designable(domain))

    def listed(at: float) -> dict[str, Callable[[], Mechanism]]:
        allowed = _UNUSED_DELTA if delta is None else delta
        own = {_FOR_POPULATION: partial(minimax, unit, at, population=populations)}
        return (own if designed else {}) | {
            candidate.label: candidate.make
            for candidate in candidates(unit, at, delta=allowed, nodes=None, designs=kind in _DESIGNS)
        }

    def maker(label: str) -> Callable[[float, int | None], Mechanism]:
        def make(at: float, reports: int | None) -> Mechanism:
            if label == first and goal == "distribution":
                return Task("planned", unit, at, goal=goal, expected_reports=reports).mechanism
            mechanism = listed(at)[label]()
            if mechanism.epsilon != at:
                raise ParameterError(f"spends a delta only, not epsilon {rounded_up(at)}")
            return mechanism

        return make

    labels = [label for label in listed(epsilon) if _serves(label, kind)]
    labels = [label for label in labels if delta is not None or not _spends(label)]
    labels.sort(key=lambda label: label != first)
    return [
        Family(
            label,
            label == first,
            maker(label),
            delta if _spends(label) else None,
            lines if label == _FOR_POPULATION else (),
        )
        for label in labels[: None if compare else 1]
    ]


def unserving(domain: Domain, epsilon: float, delta: float | None) -> dict[str, str]:
    """Return, by label, why a mechanism of this domain serves none of the goals that can be planned."""
    unit = domain.unit()
    labels = [
        candidate.label
        for candidate in candidates(unit, epsilon, delta=_UNUSED_DELTA, nodes=None, designs=False)
    ]
    clamped = {label: _WHY_NO_CLAMP for label in labels if _CLAMP in label}
    return clamped | {label: _WHY_NO_DELTA for label in labels if delta is None and _spends(label)}


def _spends(label: str) -> bool:
    """Return whether reports of the mechanism with this label spend a delta."""
    approximate = {name for (name, _), cls in MECHANISMS.items() if cls.approximate}
    return label.partition(", ")[0] in approximate


def _serves(label: str, kind: tuple[str, type[Interval] | type[Circle]]) -> bool:
    if label.startswith("LP design"):
        return label == _FOR_POPULATION or label == _DESIGNS.get(kind)
    return _CLAMP not in label
