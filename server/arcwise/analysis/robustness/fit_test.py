"""The fit test: whether honest devices of some population explain the counts, and which codes do not fit.

Any population gives the codes a distribution ``q = f P``, with f the nodes' probabilities. The test checks
whether the counts are further from the nearest such q than chance explains. It scans the residuals for single
codes that are too frequent, and uses G^2 for all codes together. Reports of made-up inputs have such a q, so
no test detects them; `damage` computes their possible effect.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import betainc

from arcwise.analysis.counts import check_counts, mechanism_of
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.likelihood.distribution import fit_held_out
from arcwise.analysis.likelihood.information import fast_information
from arcwise.analysis.likelihood.maximum import (
    Face,
    Model,
    g_squared,
    largest_probabilities,
    residuals,
    smallest_probabilities,
)
from arcwise.analysis.robustness import MOST_CODES
from arcwise.analysis.robustness.damage import damage
from arcwise.analysis.robustness.excess_codes import ExcessCode, excess_codes
from arcwise.analysis.threads import one_thread
from arcwise.checks import explained
from arcwise.errors import ParameterError
from arcwise.tasks import Task

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from arcwise.analysis.robustness.damage import Damage
    from arcwise.kernels.base import Kernel
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray, IntArray

_BOOTSTRAP = 0.9
"""The part of the level for the bootstrapped test; the remaining part is for the bound on single codes."""

_MOST_ALONE = 0.1
"""Largest share of isolated reports with which G^2 is used.

For spread-out populations the p-values of G^2 then have a mean of 0.4 to 0.6. If more than a quarter of the
reports are isolated, the mean is 0.03 to 0.25.
"""

_NAMED = 10
"""Most codes that the text of the result names."""

_DIFFERENCES = ("any share", "distribution")
"""Rows with numbers that are differences from the fitted distribution."""

_SAID = ("variance", "circular variance")
"""Estimates that the text leaves out, because another row implies them."""


@dataclass(frozen=True)
class FitTest:
    """The result of the fit test; `str` puts it in words.

    Attributes
    ----------
    n, level, draws
        The number of reports, the level of the test, and the number of bootstrap draws.
    p_value
        The p-value of the whole test, ``min(p_bootstrap / 0.9, p_bound / 0.1)``, at most 1 (Bonferroni,
        weighted).
    p_bootstrap
        The smaller of the p-values of `residual` and `g_squared` is a statistic again; this is its p-value,
        from the same bootstrap.
    p_bound
        The p-value of the most conspicuous code, compared with its largest probability over all inputs: exact
        binomial, with Bonferroni's correction for the number of codes. It needs no model and no bootstrap.
    residual, residual_code, p_residual
        The largest of Pearson's residuals ``(count - n q) / sqrt(n q)``, its code, and its own p-value.
    g_squared, p_g_squared
        The likelihood-ratio statistic of the fitted model against the counts themselves, and its own p-value.
        If more than a tenth of the reports are isolated (each is the only report at its place), the statistic
        is not used and the p-value is None.
    critical
        The residual above which the test rejects, for any `g_squared`.
    gap
        All log-likelihoods of the test are certified to be within this many nats of their maximum.
    flagged
        The codes with a surplus, the largest first; empty unless the test rejects.
    damage
        The possible effect of undetected liars on each estimate, for several shares of liars.
    independent
        The number of independent reports to which the tested counts are equivalent; it is n unless answers
        may have been repeated. The statistics refer to this number; the numbers in `flagged` refer to all n
        reports.
    note
        A warning that repeated answers raise alarms, if several epochs may contain repeated answers and
        `reports_per_device` was not given; otherwise "".
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
    p_g_squared: float | None
    critical: float
    gap: float
    flagged: tuple[ExcessCode, ...]
    damage: tuple[Damage, ...]
    independent: int
    note: str

    @property
    def rejected(self) -> bool:
        """Whether honest reports alone are ruled out at the level."""
        return self.p_value <= self.level

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object with the attributes, `rejected` and the result in words."""
        damages = [each.to_dict() for each in self.damage]
        return {**asdict(self), "damage": damages, "rejected": self.rejected, "report": str(self)}

    def __repr__(self) -> str:
        return f"<FitTest of {self.n:,} reports: p {_p(self.p_value)}>"

    def __str__(self) -> str:
        return "\n".join(_words(self))


def _p(p: float) -> str:
    return f"= {p:.2g}" if p > 1e-12 else "< 1e-12"


def _words(test: FitTest) -> list[str]:
    """Return the lines of the result in words."""
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
                "  no single code is conspicuous: the counts as a whole are too far from every population"
            )
        if test.p_bound <= (1 - _BOOTSTRAP) * test.level:
            lines.append("  a code is more frequent than any population could make it")
    if test.independent < test.n:
        lines.append(f"  tested as {test.independent:,} reports, since answers may have been repeated")
    if test.note:
        lines.append(f"  {test.note}")
    of_g_squared = "too few reports for it" if test.p_g_squared is None else f"p {_p(test.p_g_squared)}"
    lines.append(
        f"  largest residual {test.residual:.2f} (code {test.residual_code}, p {_p(test.p_residual)}), "
        f"G^2 {test.g_squared:.1f} ({of_g_squared}), {test.draws} draws"
    )
    return lines + ["  " + line for line in _damage_words(test.damage)]


def _damage_words(damages: tuple[Damage, ...]) -> list[str]:
    """Return the table of possible damage: a row for each estimate, two columns for each share."""
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
        "If this share of the reports are lies, the honest devices' numbers lie in these ranges, by the fit.",
        "If liars choose codes that the residuals do not reveal, they move estimates by at most (codes):",
        *("  " + line.rstrip() for line in table),
    ]


def _span(damage: Damage) -> str:
    low, high = damage.honest
    if damage.estimate == "any share":
        return f"+- {high:.4g}"
    if damage.estimate == "distribution":
        return f"within {high:.4g}"
    return f"{low:.4g} to {high:.4g}"


_REPEATED = "repeated answers of devices that memoise raise alarms: then set reports_per_device and memoised"

_SHARES = (0.01, 0.05)
"""Shares of liars for which the result states the possible damage."""


@one_thread()
@explained
def fit_test(
    task: Task | Mechanism,
    counts: ArrayLike,
    *,
    level: float = 0.05,
    draws: int = 199,
    seed: int | None = None,
    reports_per_device: float | None = None,
    memoised: bool = False,
    epochs: int = 1,
) -> FitTest:
    """Test whether honest reports of some population explain the counts.

    Parameters
    ----------
    task
        The task that the devices answered, or a mechanism.
    counts
        Shape (K,): the number of reports per code, non-negative integers, at least one report.
    level
        The accepted probability of a false alarm, from 0.001 to 0.5.
    draws
        The number of data sets drawn from the fitted model, with which the statistics are compared; at least
        ``3 / (0.9 level)``, which is 67 at level 0.05. With fewer data sets, no residual could be large
        enough to reject.
    seed
        The seed of the draws. By default it is computed from the counts, so equal counts give equal answers.
    reports_per_device
        The most reports that one device may have sent, m, at least 1; the default is 1. Without `memoised` it
        affects only the note.
    memoised
        Whether devices may have repeated an answer instead of drawing a new one, as clients that memoise the
        task do. Then n reports are tested as n/m reports, and `reports_per_device` is required.
    epochs
        The number of epochs from the first to the last report, for the note.

    Returns
    -------
    FitTest

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or the task has more than 2,048 codes.

    Notes
    -----
    Parametric bootstrap: data sets are drawn from the most likely q and fitted again, and each gives both
    statistics. The rank of a statistic among all data sets, including the counts, gives its p-value. The
    smaller of the two p-values of a data set is a statistic again, and its rank is the p-value of the test.

    A draw is fitted only on the nodes with mass in the most likely f, its face (`Face`). Some of these nodes
    have mass by chance alone, and none in the population. If draws could be fitted on all nodes, each fit
    would again choose nodes by chance. Their statistics would be too small, and honest reports of atoms or of
    a small part of the domain would raise alarms.

    If counts are normal, consider the chi-square distance to a convex set, given the nearest face. For any
    population this distance is stochastically at most the distance to the span of the face (Cox and Shi
    2023). For the largest residual no such theorem is known; `benchmarks/studies/fit_test.py` measures both.

    A report is isolated if it is the only report at its place. The share of isolated reports estimates the
    part of the population that no report has shown (Good 1953). If it is large, draws from the fit repeat
    places where the counts do not, and their G^2 is smaller. So G^2 is used only if at most a tenth of the
    reports are isolated.

    If devices send several new answers, m is not needed. Given the devices' values, the counts are a sum of
    independent codes with laws that average to ``f P``, and their covariance is at most that of n reports
    that each have this law. Memoised answers do not raise more alarms either, once the counts are divided by
    m: then each device's answer has a weight of at most 1, and the covariance is at most that of n/m reports.

    Examples
    --------
    >>> import numpy as np
    >>> from arcwise.domains import Interval
    >>> from arcwise.tasks import Task
    >>> task = Task("score", Interval(0, 1), epsilon=1.0)
    >>> counts = np.full(task.mechanism.kernel.codes, 200)
    >>> counts[3] += 400
    >>> [excess.code for excess in fit_test(task, counts).flagged]
    [3]
    """
    mechanism = mechanism_of(task)
    if not 0.001 <= level <= 0.5:
        raise ParameterError(f"level must be from 0.001 to 0.5, got {level!r}")
    least = math.ceil(3 / (_BOOTSTRAP * level) - 1e-9)
    if seed is not None and seed < 0:
        raise ParameterError(f"seed must be at least 0, got {seed!r}")
    if draws < least:
        raise ParameterError(f"draws must be at least {least} at level {level:g}, got {draws!r}")
    observed = check_counts(counts, mechanism.kernel.codes)
    survey = Survey(mechanism, observed, reports_per_device=reports_per_device, memoised=memoised)
    if mechanism.kernel.codes > MOST_CODES:
        raise ParameterError(
            f"task must have at most {MOST_CODES:,} codes for a fit test, got {mechanism.kernel.codes:,}: "
            "make the task with fewer nodes to test it"
        )
    generator = np.random.default_rng(survey.whole.astype(np.int64).tolist() if seed is None else seed)
    # A repeated answer costs no budget, so caps do not limit it; devices repeat no answer to a task with a
    # central statement.
    unsaid = epochs > 1 and reports_per_device is None
    note = _REPEATED if unsaid and isinstance(task, Task) and task.central is None else ""
    return _tested(survey, observed, level, draws, generator, note)


def _tested(  # noqa: PLR0917
    survey: Survey, reports: FloatArray, level: float, draws: int, generator: np.random.Generator, note: str
) -> FitTest:
    mechanism, observed = survey.mechanism, survey.whole
    kernel = mechanism.kernel
    n = int(observed.sum())
    most = float(reports.sum()) / survey.n
    model = Model(kernel)
    fitted = model.fit(observed)
    active = model.active(observed, fitted)
    face = Face(
        model.rows_of(active),
        fitted.nodes[active],
        smallest_probabilities(kernel),
        information=fast_information(kernel, active),
    )
    drawn = generator.multinomial(n, face.codes, size=draws).astype(np.float64)
    of_draws, drawn_gap = face.statistics(drawn)
    gap = max(fitted.gap, drawn_gap)
    own = residuals(observed, fitted.codes).max(), g_squared(observed, fitted.codes)
    statistics = np.vstack([own, of_draws])
    p_values = _ranks(statistics, np.array([math.sqrt(2 * gap), 2 * gap]))
    crowded = _alone(kernel, active, n * fitted.nodes[active]) <= _MOST_ALONE
    if not crowded:
        p_values = p_values[:, :1]
    p_bootstrap = float(_ranks(-p_values.min(axis=1)[:, None], np.zeros(1))[0, 0])

    # In no population is the probability of a code larger than its largest probability over the inputs. The
    # probability that a binomial number is at least c is an incomplete beta function (at c = 0 it is 1).
    tails = betainc(np.maximum(observed, 0.5), n - observed + 1, largest_probabilities(kernel))
    tails[observed == 0] = 1.0
    p_bound = min(kernel.codes * float(tails.min()), 1.0)
    p_value = min(p_bootstrap / _BOOTSTRAP, p_bound / (1 - _BOOTSTRAP), 1.0)

    critical = _critical(statistics[1:, 0], p_values[1:].min(axis=1), _BOOTSTRAP * level)
    flagged: tuple[ExcessCode, ...] = ()
    if p_value <= level:
        certain = kernel.codes * tails <= (1 - _BOOTSTRAP) * level
        flagged, _ = excess_codes(model, observed, fitted, critical, certain, level, reports, most)
    code = int(np.argmax(residuals(observed, fitted.codes)))
    # The possible damage refers to the distribution that the estimates show, without the surplus found.
    cleaned = observed.copy()
    for each in flagged:
        cleaned[each.code] = min(round(each.expected / most), observed[each.code])
    shown = fit_held_out(mechanism, cleaned if cleaned.any() else observed).probabilities
    return FitTest(
        n=int(survey.reports),
        level=level,
        draws=draws,
        p_value=p_value,
        p_bootstrap=p_bootstrap,
        p_bound=p_bound,
        residual=float(statistics[0, 0]),
        residual_code=code,
        p_residual=float(p_values[0, 0]),
        g_squared=float(statistics[0, 1]),
        p_g_squared=float(p_values[0, 1]) if crowded else None,
        critical=critical,
        gap=gap,
        flagged=flagged,
        damage=tuple(
            each for k in _SHARES for each in damage(mechanism, shown, k, reports=n, critical=critical)
        ),
        independent=n,
        note=note,
    )


def _alone(kernel: Kernel, active: IntArray, reports: FloatArray) -> float:
    """Return the share of isolated reports: those in runs of active nodes with one fitted report.

    `active` holds the active nodes in increasing order, and `reports` the fitted number of reports at each.
    """
    runs = np.add.reduceat(reports, np.flatnonzero(np.diff(active, prepend=-2) > 1))
    if kernel.circular and len(runs) > 1 and active[0] == 0 and active[-1] == kernel.nodes - 1:
        runs[0] += runs[-1]
        runs = runs[:-1]
    return float(runs[runs < 1.5].sum() / reports.sum())


def _ranks(statistics: FloatArray, tolerance: FloatArray) -> FloatArray:
    """Return, for each data set and statistic, the share of all data sets with a statistic at least as large.

    Shape (B, S) to (B, S). Differences below `tolerance`, shape (S,), count as ties, so that an unfinished
    fit does not decide.
    """
    n = len(statistics)
    result = np.empty_like(statistics)
    for column, (values, slack) in enumerate(zip(statistics.T, tolerance, strict=True)):
        result[:, column] = n - np.searchsorted(np.sort(values), values - slack, side="left")
    return result / n


def _critical(drawn: FloatArray, smallest: FloatArray, level: float) -> float:
    """Return the residual above which the bootstrapped test rejects for every G^2.

    `drawn` and `smallest`, shape (B,), hold the largest residual of each draw and the smaller of its two
    p-values.

    A residual larger than all but r - 1 of the draws has a p-value of at most ``r / (B+1)``. At most one data
    set is alone at the top of each statistic, so r = 1 always rejects with at least 3 / level draws.
    """
    total = len(drawn) + 1
    ranks = np.arange(1, total)
    # The number of draws with a p-value at least as small, plus the counts themselves.
    reached = 1 + np.searchsorted(np.sort(smallest), ranks / total + 1e-12, side="right")
    rank = int(np.count_nonzero(reached / total <= level + 1e-12))
    return float(np.sort(drawn)[-max(rank, 1)])
