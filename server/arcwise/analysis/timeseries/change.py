"""Test whether several populations have the same mean, or the same mean direction and resultant length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from arcwise.typing import FloatArray

_METHOD = (
    "the larger p-value of two F tests that nothing changes: with a covariance for each point, and with one"
)
_NOTE = (
    "for independent reports: devices that send similar values at two points make a change between the two "
    "harder to find; devices that stay for several points and are then replaced can look like a change"
)


@dataclass(frozen=True)
class Change:
    """A test of the hypothesis that nothing changes between the points with enough reports.

    `of` names the tested quantity in words. There are two p-values: `own` is from the test with a covariance
    for each point, and `pooled` from the test with a single covariance. Each is the probability that chance
    alone makes the points differ at least as much.
    """

    of: str
    own: float
    pooled: float
    points: int

    @property
    def p(self) -> float:
        """The larger of the two p-values. A small value means that something changes."""
        return max(self.own, self.pooled)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object: the tested quantity, p-values, points, method, and assumptions."""
        p_values = {"p": self.p, "own": self.own, "pooled": self.pooled}
        return {"of": self.of, **p_values, "points": self.points, "method": _METHOD, "note": _NOTE}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Change:
        """Return the test that `to_dict` wrote."""
        return cls(document["of"], float(document["own"]), float(document["pooled"]), document["points"])

    def words(self, level: float) -> str:
        """Return the outcome at a level in words: a p-value below ``1 - level`` indicates a change."""
        p = f"p = {self.p:.2g}" if self.p >= 1e-4 else "p < 0.0001"
        return f"{'a change' if self.p < 1 - level else 'no sign of a change'} of {self.of} ({p})"


def change(of: str, values: FloatArray, covariances: FloatArray, reports: FloatArray) -> Change:
    """Return the test that independent averages have the same expectation.

    `values`, shape (k, p), holds the averages: p numbers for each of at least 2 points. `covariances`, shape
    (k, p, p), holds the estimated covariance matrix of each average, which must not be singular. `reports`,
    shape (k,), holds the numbers of reports behind the averages, at least 2 each.

    If the spread of the reports changes and their mean does not, only weights from each point's own
    covariance keep the level. But if reports are skewed, a point's average and its covariance are dependent.
    With few reports at many points, such weights then raise false alarms (`benchmarks/studies/series.py`); a
    single pooled covariance does not. Both tests must find a change: the p-value is the larger of their two
    p-values.
    """
    own, pooled = _own(values, covariances, reports), _pooled(values, covariances, reports)
    return Change(of, own, pooled, len(values))


def _own(values: FloatArray, covariances: FloatArray, reports: FloatArray) -> float:
    """Return the p-value of Welch's test; for p = 2, of Johansen's test.

    ``Q = sum_i (z_i - z)' W_i (z_i - z)``, with inverse covariances ``W_i`` and z the average with these
    weights. With known covariances, Q would be chi-square with ``f = p (k - 1)`` degrees of freedom. The
    covariances are estimated, which makes Q larger: with
    ``A = sum_i (tr(M_i^2) + (tr M_i)^2) / (2 (n_i - 1))`` and ``M_i = I - (sum_j W_j)^-1 W_i``, Q over
    ``f + 2A - 6A/(f + 2)`` is approximately F with f and ``f (f + 2) / (3A)`` degrees of freedom.

    References
    ----------
    Welch (1951), On the comparison of several mean values: an alternative approach. Biometrika.
    Johansen (1980), The Welch-James approximation to the distribution of the residual sum of squares in a
    weighted linear regression. Biometrika.
    """
    from scipy.special import fdtrc

    k, p = values.shape
    weights = np.linalg.inv(covariances)
    total = weights.sum(axis=0)
    away = values - np.linalg.solve(total, np.einsum("kij,kj->i", weights, values))
    statistic = float(np.einsum("ki,kij,kj->", away, weights, away))
    rest = np.eye(p) - np.linalg.solve(total, weights)
    traces = np.einsum("kij,kji->k", rest, rest) + np.einsum("kii->k", rest) ** 2
    a = float((traces / (reports - 1.0)).sum()) / 2
    freedom = float(p * (k - 1))
    scale = freedom + 2 * a - 6 * a / (freedom + 2)
    return float(fdtrc(freedom, freedom * (freedom + 2) / (3 * a), statistic / scale))


def _pooled(values: FloatArray, covariances: FloatArray, reports: FloatArray) -> float:
    """Return the p-value of the analysis of variance; for p = 2, of its F approximation.

    ``Q = sum_i n_i (z_i - z)' S^-1 (z_i - z)`` with S the covariance of a report, pooled over the k points
    with ``r = n - k`` degrees of freedom. ``Q (r - p + 1) / (r p (k - 1))`` is F with p (k - 1) and r - p + 1
    degrees of freedom: exactly for p = 1 (Fisher) and for k = 2 (Hotelling) if reports are normal, and with
    the right expectation for all k.
    """
    from scipy.special import fdtrc

    k, p = values.shape
    rest = float(reports.sum()) - k
    pooled = np.einsum("k,kij->ij", reports * (reports - 1.0), covariances) / rest
    away = values - reports @ values / reports.sum()
    statistic = float(np.einsum("k,ki,ij,kj->", reports, away, np.linalg.inv(pooled), away))
    freedom, other = float(p * (k - 1)), rest - p + 1
    return float(fdtrc(freedom, other, statistic * other / (rest * freedom)))
