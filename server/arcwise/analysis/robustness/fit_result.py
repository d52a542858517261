"""What the fit test found: its numbers, its JSON, its report in words. Nothing is computed here."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arcwise.analysis.robustness.damage import Damage

__all__ = ["BOOTSTRAP", "ExcessCode", "FitTest"]

BOOTSTRAP = 0.9
"""The part of the level that the bootstrapped test has; the bound on single codes has the rest."""

_NAMED = 10
"""Codes that the report names."""

_DIFFERENCES = ("any share", "distribution")
"""Rows whose numbers are differences from the fitted distribution."""

_SAID = ("variance", "circular variance")
"""Estimates that the report leaves out: another row tells them."""


@dataclass(frozen=True)
class ExcessCode:
    """A code with more reports than the model explains.

    Attributes
    ----------
    code, count
        Which, and how many reports it has.
    expected
        How many the model expects that is fitted to the codes without a surplus.
    at_least
        Lower confidence bound of the reports that are too many.
    """

    code: int
    count: int
    expected: float
    at_least: int


@dataclass(frozen=True)
class FitTest:
    """What the test found; `str` says it in words.

    Attributes
    ----------
    n, level, draws
        Reports, level of the test, bootstrap draws.
    p_value
        Of the whole test, ``min(p_bootstrap / 0.9, p_bound / 0.1)``, at most 1 (Bonferroni, weighted).
    p_bootstrap
        Of the smaller of the p-values of `residual` and `g_squared`, by the same bootstrap.
    p_bound
        Of the most conspicuous code against its largest probability over all inputs: exact binomial,
        Bonferroni over the codes. It needs no model and no bootstrap.
    residual, residual_code, p_residual
        The largest of Pearson's residuals ``(count - n q) / sqrt(n q)``, its code, and its own p-value.
    g_squared, p_g_squared
        The likelihood-ratio statistic against the counts themselves, and its own p-value.
    critical
        The residual above which the test rejects, whatever `g_squared` is.
    gap
        Nats to which all likelihoods of the test are certified.
    flagged
        The codes with a surplus, the largest first; empty unless the test rejects.
    damage
        What shares of liars that stay unseen could do to each estimate: for each share, all estimates.
    """

    n: int
    level: float
    draws: int
    p_value: float
    p_bootstrap: float
    p_bound: float
    residual: float
    residual_code: int
    p_residual: float
    g_squared: float
    p_g_squared: float
    critical: float
    gap: float
    flagged: tuple[ExcessCode, ...]
    damage: tuple[Damage, ...]

    @property
    def rejected(self) -> bool:
        """Whether honest reports alone are ruled out at the level."""
        return self.p_value <= self.level

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object with the attributes, `rejected` and the report in words."""
        damages = [each.to_dict() for each in self.damage]
        return {**asdict(self), "damage": damages, "rejected": self.rejected, "report": str(self)}

    def __str__(self) -> str:
        return "\n".join(_words(self))


def _p(p: float) -> str:
    return f"= {p:.2g}" if p > 1e-12 else "< 1e-12"


def _words(test: FitTest) -> list[str]:
    """Return the report in lines."""
    p = f"p {_p(test.p_value)} at level {test.level:g}"
    if not test.rejected:
        lines = [f"fit test: nothing found ({p}): honest reports of some population explain the counts"]
    else:
        lines = [f"fit test: honest reports do not explain the counts ({p})"]
        if test.flagged:
            least = sum(each.at_least for each in test.flagged)
            lines.append(f"  at least {least:,} of {test.n:,} reports are too many, for these codes:")
            lines += [
                f"  code {each.code}: {each.count:,} reports, {each.expected:,.0f} expected, "
                f"at least {each.at_least:,} too many"
                for each in test.flagged[:_NAMED]
            ]
            if len(test.flagged) > _NAMED:
                lines.append(f"  and {len(test.flagged) - _NAMED} more codes")
        else:
            lines.append(
                "  no single code stands out: the counts as a whole are too far from every population"
            )
        if test.p_bound <= (1 - BOOTSTRAP) * test.level:
            lines.append("  a code is more frequent than any population could make it")
    lines.append(
        f"  largest residual {test.residual:.2f} (code {test.residual_code}, p {_p(test.p_residual)}), "
        f"G^2 {test.g_squared:.1f} (p {_p(test.p_g_squared)}), {test.draws} draws"
    )
    return lines + ["  " + line for line in _damage_words(test.damage)]


def _damage_words(damages: tuple[Damage, ...]) -> list[str]:
    """Return the table of what liars can do; a row for each estimate, two columns for each share."""
    shares = list(dict.fromkeys(each.share for each in damages))
    names = [name for name in dict.fromkeys(each.estimate for each in damages) if name not in _SAID]
    at = {(each.estimate, each.share): each for each in damages}
    percent = [f"{100 * share:.3g} % liars" for share in shares]
    rows = [["", "fitted", *percent, *(f"codes, {100 * share:.3g} %" for share in shares)]]
    for name in names:
        found = [at[name, share] for share in shares]
        value = found[0].value
        fitted = "" if name in _DIFFERENCES or value is None else f"{value:.4g}"
        spans = [_span(each) for each in found]
        codes = ["" if each.sending is None else f"+- {each.sending:.3g}" for each in found]
        rows.append([name, fitted, *spans, *codes])
    if all(not cell for row in rows[1:] for cell in row[2 + len(shares) :]):
        rows = [row[: 2 + len(shares)] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return [
        "lying about the input cannot be detected: such reports are those of a possible population.",
        "If so many of these reports are lies, the honest devices' numbers lie between (by the fitted",
        "distribution); codes of the liars' choice, unseen by the residuals, move estimates by no more than:",
        *("  " + line.rstrip() for line in table),
    ]


def _span(damage: Damage) -> str:
    low, high = damage.honest
    if damage.estimate == "any share":
        return f"+- {high:.4g}"
    if damage.estimate == "distribution":
        return f"within {high:.4g}"
    return f"{low:.4g} to {high:.4g}"
