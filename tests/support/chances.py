"""Whether counts follow probabilities: one chi-square test for samples of every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def chi_square(counts: ArrayLike, chances: ArrayLike) -> float:
    """Return the p-value of counts; cells of few expected counts are joined with the next."""
    seen, wanted = np.asarray(counts), np.asarray(chances)
    assert not seen[wanted == 0].any(), "something was drawn that cannot be"
    total, joined = seen.sum(), []
    count: Any = 0.0
    chance: Any = 0.0
    for each, expected in zip(seen.tolist(), wanted.tolist(), strict=True):
        count, chance = count + each, chance + expected
        if chance * total >= 20:
            joined.append((count, chance))
            count = chance = 0.0
    if len(joined) < 2:  # one cell holds nearly all expected counts
        return 1.0
    joined[-1] = (joined[-1][0] + count, joined[-1][1] + chance)
    observed, expected = np.array(joined).T
    return float(stats.chisquare(observed, expected / expected.sum() * total).pvalue)
