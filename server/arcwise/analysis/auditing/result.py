"""The result of an audit."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass
from typing import Any

from arcwise.analysis.documents import words_of_loss
from arcwise.digits import rounded_down, rounded_up


@dataclass(frozen=True)
class Finding:
    """An event that was chosen on one half of the outputs and counted in the other.

    `kind` is "range", "value", "low bits" or "low bits of the distance"; `event` describes the outputs. In
    `calls` calls each, the input `input` gave `count` such outputs, and the input `other` gave `other_count`.
    `epsilon`, at least 0, is the lower bound from this event. All bounds of an audit hold together.
    """

    kind: str
    event: str
    input: float
    other: float
    count: int
    other_count: int
    calls: int
    epsilon: float


@dataclass(frozen=True)
class Audit:
    """A lower confidence bound on the epsilon of a mechanism; `str` puts it in words.

    Attributes
    ----------
    claim, delta
        The claim about the mechanism: (epsilon, delta)-LDP.
    level
        The confidence. For a mechanism with a true claim, the bound exceeds the claim with a probability of
        at most 1 - level.
    calls, inputs
        The number of calls of the mechanism, and the number of inputs tried.
    findings
        The tested events, the largest bound first.
    """

    claim: float
    delta: float
    level: float
    calls: int
    inputs: int
    findings: tuple[Finding, ...]

    @property
    def epsilon(self) -> float:
        """The lower bound, at least 0: a smaller epsilon is ruled out at the confidence `level`."""
        return max(each.epsilon for each in self.findings)

    @property
    def above(self) -> bool:
        """Whether epsilon is above the claim, at the confidence level."""
        return self.epsilon > self.claim

    @property
    def support_leaks(self) -> tuple[Finding, ...]:
        """The findings above the claim with outputs that one input gave and the other input never gave."""
        return tuple(each for each in self.findings if not each.other_count and each.epsilon > self.claim)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object with the attributes, `epsilon`, `above` and the `support_leaks`."""
        leaks = [asdict(each) for each in self.support_leaks]
        return {**asdict(self), "epsilon": self.epsilon, "above": self.above, "support_leaks": leaks}

    def __repr__(self) -> str:
        found = f"epsilon at least {rounded_down(self.epsilon, 4)}, claim {rounded_up(self.claim)}"
        return f"<Audit of {self.calls:,} calls: {found}>"

    def __str__(self) -> str:
        return "\n".join(_words(self))


def _words(audit: Audit) -> list[str]:
    lines = [
        f"{audit.calls:,} calls with {audit.inputs} inputs; events chosen on one half of the outputs, "
        f"counted in the other"
    ]
    for each in audit.findings:
        lines += textwrap.wrap(each.event, 100, initial_indent="  ", subsequent_indent="    ")
        lines.append(
            f"    input {each.input!r}: {each.count:,} of {each.calls:,}; "
            f"input {each.other!r}: {each.other_count:,}; epsilon at least {rounded_down(each.epsilon, 4)}"
        )
    for each in audit.support_leaks[:1]:
        how = "the lowest bits of floats" if each.kind.startswith("low bits") else "the outputs"
        lines.append(
            f"support leak: {how} distinguish input {each.input!r} from input {each.other!r}, "
            "which never gave such an output"
        )
    verdict = "ABOVE THE CLAIM" if audit.above else "nothing found"
    lines.append(
        f"{verdict}: epsilon is at least {rounded_down(audit.epsilon, 4)} at confidence {audit.level:g}; "
        f"claimed: {words_of_loss(audit.claim, audit.delta)}"
    )
    return lines
