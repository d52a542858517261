"""Could these counts come from honest devices, whatever the population? A test, and who stands out.

Any population gives the codes a distribution ``q = f P``, f the nodes' probabilities. The test asks whether
the counts are further from the nearest such q than chance explains: a scan of the residuals for single codes
that are too frequent, and G^2 for all codes together. Reports of made-up inputs have such a q, so no test
finds them; `damage` says what they can do.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betainc

from arcwise.analysis.counts import check_counts
from arcwise.analysis.likelihood.bootstrap_fit import (
    Model,
    g_squared,
    largest_probabilities,
    residuals,
    smallest_probabilities,
)
from arcwise.analysis.likelihood.distribution import fit_held_out
from arcwise.analysis.likelihood.face import Face
from arcwise.analysis.robustness.damage import damage
from arcwise.analysis.robustness.excess_codes import excess_codes
from arcwise.analysis.robustness.fit_result import BOOTSTRAP, ExcessCode, FitTest
from arcwise.analysis.threads import one_thread
from arcwise.errors import ParameterError
from arcwise.mechanisms.base import Mechanism

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from arcwise.tasks import Task
    from arcwise.typing import FloatArray


__all__ = ["ExcessCode", "FitTest", "fit_test"]

SHARES = (0.01, 0.05)
"""Of liars, for which the report says what they can do."""


@one_thread()
def fit_test(
    task: Task | Mechanism,
    counts: ArrayLike,
    *,
    level: float = 0.05,
    draws: int = 199,
    seed: int | None = None,
) -> FitTest:
    """Test whether honest reports of some population explain the counts.

    Parameters
    ----------
    task
        What was asked, or a mechanism.
    counts
        Shape (K,): the number of reports per code, non-negative integers, at least one report.
    level
        The probability of a false alarm that is accepted, from 0.001 to 0.5.
    draws
        Data sets drawn from the fitted model, with which the statistics are compared; at least
        ``3 / (0.9 level)``, which is 67 at level 0.05, or no residual could be large enough.
    seed
        Of the draws. From the counts unless given, so equal counts give equal answers.

    Returns
    -------
    FitTest

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    Parametric bootstrap: data sets drawn from the most likely q are fitted anew and give both statistics.
    They are compared as ranks among all sets, the counts' own included; the smaller of the two p-values of a
    set is a statistic again, and its rank is the p-value.

    A draw is fitted only on the nodes that the most likely f has mass on, its face (`Face`). Some of these
    have mass by chance alone, and none in the population. Draws that could choose among all nodes would
    choose once more by chance; their statistics would be too small, and honest reports of atoms or of a small
    part of the domain would raise alarms.

    Where counts are normal, the chi-square distance to a convex set, given the face that is nearest, is
    stochastically at most the distance to all that the face spans, whatever the population (Cox and Shi
    2023). For the largest residual this is not a theorem; `benchmarks/studies/fit_test.py` measures both.

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
    mechanism = task if isinstance(task, Mechanism) else task.mechanism
    if not 0.001 <= level <= 0.5:
        raise ParameterError(f"level must be from 0.001 to 0.5, got {level!r}")
    least = math.ceil(3 / (BOOTSTRAP * level) - 1e-9)
    if seed is not None and seed < 0:
        raise ParameterError(f"seed must be at least 0, got {seed!r}")
    if draws < least:
        raise ParameterError(f"draws must be at least {least} at level {level:g}, got {draws!r}")
    observed = check_counts(counts, mechanism.kernel.codes)
    generator = np.random.default_rng(observed.astype(np.int64).tolist() if seed is None else seed)
    return _tested(mechanism, observed, level, draws, generator)


def _tested(
    mechanism: Mechanism, observed: FloatArray, level: float, draws: int, generator: np.random.Generator
) -> FitTest:
    kernel = mechanism.kernel
    n = int(observed.sum())
    model = Model(kernel)
    fitted = model.fit(observed)
    active = model.active(observed, fitted)
    face = Face(model.rows_of(active), fitted.nodes[active], smallest_probabilities(kernel))
    drawn = generator.multinomial(n, face.codes, size=draws).astype(np.float64)
    of_draws, drawn_gap = face.statistics(drawn)
    gap = max(fitted.gap, drawn_gap)
    own = residuals(observed, fitted.codes).max(), g_squared(observed, fitted.codes)
    statistics = np.vstack([own, of_draws])
    p_values = _ranks(statistics, np.array([math.sqrt(2 * gap), 2 * gap]))
    p_bootstrap = float(_ranks(-p_values.min(axis=1)[:, None], np.zeros(1))[0, 0])

    # No population gives a code more than its largest probability over the inputs.
    # That a binomial number is c or more is an incomplete beta function (at c = 0 its limit: certain).
    tails = betainc(np.maximum(observed, 0.5), n - observed + 1, largest_probabilities(kernel))
    tails[observed == 0] = 1.0
    p_bound = min(kernel.codes * float(tails.min()), 1.0)
    p_value = min(p_bootstrap / BOOTSTRAP, p_bound / (1 - BOOTSTRAP), 1.0)

    critical = _critical(statistics[1:, 0], p_values[1:].min(axis=1), BOOTSTRAP * level)
    flagged: tuple[ExcessCode, ...] = ()
    if p_value <= level:
        certain = kernel.codes * tails <= (1 - BOOTSTRAP) * level
        flagged, _ = excess_codes(model, observed, fitted, critical, certain, level)
    code = int(np.argmax(residuals(observed, fitted.codes)))
    # What liars could do is told of the distribution that the estimates show, without what was found.
    cleaned = observed.copy()
    for each in flagged:
        cleaned[each.code] = min(round(each.expected), each.count)
    shown = fit_held_out(mechanism, cleaned if cleaned.any() else observed).probabilities
    return FitTest(
        n=n,
        level=level,
        draws=draws,
        p_value=p_value,
        p_bootstrap=p_bootstrap,
        p_bound=p_bound,
        residual=float(statistics[0, 0]),
        residual_code=code,
        p_residual=float(p_values[0, 0]),
        g_squared=float(statistics[0, 1]),
        p_g_squared=float(p_values[0, 1]),
        critical=critical,
        gap=gap,
        flagged=flagged,
        damage=tuple(
            each for k in SHARES for each in damage(mechanism, shown, k, reports=n, critical=critical)
        ),
    )


def _ranks(statistics: FloatArray, tolerance: FloatArray) -> FloatArray:
    """Return, for each set and statistic, the share of all sets whose statistic is as large or larger.

    Shape (B, S) to (B, S). What differs by less than `tolerance`, shape (S,), is tied: an unfinished fit may
    not decide.
    """
    n = len(statistics)
    result = np.empty_like(statistics)
    for column, (values, slack) in enumerate(zip(statistics.T, tolerance, strict=True)):
        result[:, column] = n - np.searchsorted(np.sort(values), values - slack, side="left")
    return result / n


def _critical(drawn: FloatArray, smallest: FloatArray, level: float) -> float:
    """Return the residual above which the bootstrapped test rejects, whatever G^2 is.

    Parameters
    ----------
    drawn, smallest
        Shape (B,): the largest residual of each draw, and the smaller of its two p-values.
    level
        Of the bootstrapped test.

    Notes
    -----
    Larger than all but r - 1 of the draws is a p-value of at most ``r / (B+1)``. At most one set is alone on
    top of each statistic, so r = 1 always rejects with 3 / level draws or more.
    """
    total = len(drawn) + 1
    ranks = np.arange(1, total)
    # How many draws have a p-value as small, and the counts themselves.
    reached = 1 + np.searchsorted(np.sort(smallest), ranks / total + 1e-12, side="right")
    rank = int(np.count_nonzero(reached / total <= level + 1e-12))
    return float(np.sort(drawn)[-max(rank, 1)])
