"""Codes with more reports than any population explains, and lower bounds of their surplus."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import bdtrik

from arcwise.analysis.likelihood.maximum import largest_probabilities

if TYPE_CHECKING:
    from arcwise.analysis.likelihood.maximum import Fitted, Model
    from arcwise.typing import BoolArray, FloatArray

_WORK = 150_000
"""Product of fits and codes from which no further code is set aside: a sender can make any counts."""

_FILLS = 50
_FILLED = 0.01
"""Tolerance, in standard errors of the total: small compared with every bound computed from the fit."""


@dataclass(frozen=True)
class ExcessCode:
    """A code with more reports than the model explains.

    `count` is the number of reports, `expected` the expected number under the model fitted to the codes
    without a surplus, and `at_least` a lower confidence bound of the surplus.
    """

    code: int
    count: int
    expected: float
    at_least: int


def excess_codes(  # noqa: PLR0917
    model: Model,
    counts: FloatArray,
    fitted: Fitted,
    critical: float,
    certain: BoolArray,
    level: float,
    reports: FloatArray,
    most: float,
) -> tuple[tuple[ExcessCode, ...], Fitted]:
    """Return the codes with a surplus, and the model fitted to the others.

    `counts` holds the `reports` divided by `most` and rounded to integers, since a device may have repeated
    an answer up to `most` times.

    A surplus distorts the fit, so that innocent codes elsewhere look suspicious. So the code with the largest
    residual is set aside, together with its information about the population, and the model is fitted again
    to the remaining codes. This repeats until no residual exceeds the critical value, or a quarter of the
    codes are set aside, or the fits have taken too long (`_WORK`).
    """
    aside, fits = certain.copy(), 0
    while True:
        if aside.any():
            fitted, taken = _without(model, counts, fitted, aside)
            fits += taken
        expected = _honest(counts, fitted.codes, aside) * fitted.codes
        spread = np.sqrt(expected)
        excess = np.divide(counts - expected, spread, out=np.zeros_like(counts), where=spread > 0)
        worst = int(np.argmax(np.where(aside, -np.inf, excess)))
        if (
            excess[worst] <= critical
            or aside.sum() >= len(counts) // 4
            or fits * len(counts) >= _WORK
            or counts.sum() == counts[aside].sum()
        ):
            break
        aside[worst] = True
    # Numbers of reports are integers, so bounds are rounded up. There are two bounds of the honest reports:
    # from the model, and from the code's largest probability.
    bound = np.ceil(bdtrik(1.0 - level / len(counts), counts.sum(), largest_probabilities(model.kernel)))
    least = np.ceil(reports - most * np.minimum(expected + critical * spread, bound))
    found = [
        ExcessCode(int(j), int(reports[j]), float(most * expected[j]), int(least[j]))
        for j in np.flatnonzero(aside & (least > 0))
    ]
    return tuple(sorted(found, key=lambda each: (-each.at_least, each.code))), fitted


def _honest(counts: FloatArray, codes: FloatArray, aside: BoolArray) -> float:
    """Return the number of reports without the surplus, estimated from the codes that are not set aside."""
    share = float(codes[~aside].sum())
    return float(counts[~aside].sum()) / share if share else 0.0


def _without(model: Model, counts: FloatArray, fitted: Fitted, aside: BoolArray) -> tuple[Fitted, int]:
    """Return the most likely model of the codes that are not set aside, and the number of fits it took.

    The codes set aside are missing data.
    """
    rest = np.where(aside, 0.0, counts)
    known = float(rest.sum())
    if not known:
        return fitted, 0
    previous = np.zeros_like(counts)
    for taken in range(_FILLS):
        missing = np.where(aside, fitted.codes, 0.0)
        filled = rest + _honest(counts, fitted.codes, aside) * missing
        if np.abs(filled - previous).sum() <= _FILLED * math.sqrt(known):
            return fitted, taken
        previous = filled
        fitted = model.fit(filled)
    return fitted, _FILLS
