"""Draws for the fit test: data sets of the fitted distribution, fitted anew on the nodes that it has mass on.

The counts have chosen these nodes; a draw may not choose again. The notes of `fit_test` say why.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.likelihood.bootstrap_fit import GAP, g_squared, law, residuals
from arcwise.analysis.likelihood.likelihood import Likelihood

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.analysis.likelihood.information import Information
    from arcwise.typing import BoolArray, FloatArray

_ENOUGH = 5.0
"""Reports to expect of the rarest code before counts are taken for normal, as for any chi-square test."""


class Face:
    """The distributions on some of the nodes, near a given one.

    `rows`, shape (d, K), holds the code probabilities of these nodes, and `nodes` the probabilities of the
    given distribution, up to a factor. `lowest`, shape (K,), is each code's smallest probability over all
    inputs. `information` is the function that `fast_information` returns for these nodes.
    """

    def __init__(
        self,
        rows: FloatArray,
        nodes: FloatArray,
        lowest: FloatArray,
        *,
        information: Callable[[BoolArray], Information] | None = None,
    ) -> None:
        self._rows = rows
        self._lowest = lowest
        self._information = information
        self.codes = law(nodes @ rows)

    def statistics(self, drawn: FloatArray) -> tuple[FloatArray, float]:
        """Return the largest residual and G^2 of each of B data sets fitted anew, shape (B, 2), and the gap.

        `drawn`, shape (B, K), holds counts drawn from `codes`, all with the same number of reports.

        Where every code can expect five reports, one linear step is the fit: a projection in the metric of
        the multinomial law. A node's probability may fall below 0 in it. Directions in which a change of f by
        1 moves the codes by less than a standard error are left out: no fit goes so far in them. Where
        reports are fewer, every set gets its most likely distribution on these nodes.
        """
        if self._lowest.min() > 0.0 and drawn[0].sum() * self.codes.min() >= _ENOUGH:
            return self._projected(drawn), 0.0
        found = []
        gap = 0.0
        for counts in drawn:
            best = Likelihood(self._rows, counts, information=self._information).maximize(gap=GAP)
            codes = law(best.probabilities @ self._rows)
            found.append((residuals(counts, codes).max(), g_squared(counts, codes)))
            gap = max(gap, best.gap)
        return np.array(found), gap

    def _projected(self, drawn: FloatArray) -> FloatArray:
        n, q = float(drawn[0].sum()), self.codes
        scale = np.sqrt(n * q)
        _, sizes, directions = np.linalg.svd(self._rows / np.sqrt(q), full_matrices=False)
        directions = directions[sizes > 1.0 / math.sqrt(n)]
        errors = (drawn - n * q) / scale
        left = errors - (errors @ directions.T) @ directions
        fitted = np.maximum((drawn - left * scale) / n, self._lowest)
        fitted /= fitted.sum(axis=1, keepdims=True)
        g = [g_squared(counts, codes) for counts, codes in zip(drawn, fitted, strict=True)]
        return np.stack([left.max(axis=1), g], axis=1)
