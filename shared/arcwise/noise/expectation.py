"""Expectations of any function of noise, by adaptive quadrature and by sums with a check of their tails.

Computed values of a function do not show how it behaves farther out. An expectation is accepted if its parts
become negligible before the probabilities become too small for a float. Otherwise it is refused.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias

    from arcwise.typing import FloatArray

    Function: TypeAlias = Callable[[FloatArray], Any]
    Values: TypeAlias = Callable[[FloatArray], FloatArray]

_TERMS_MAX = 2**28
"""The most function values in a sum, which takes some seconds."""

_NEGLIGIBLE = 1e-17  # a sum ends when a part is below this share of the sum of absolute values
_REST = 1e-12  # limit of the last part, where probabilities end; above it, the function grows too fast
_PROBABLE = 56.0  # e^-56 is 5e-25: every value at a larger probability counts
_WEIGHTS_END = 690.0  # e^-690 is 1e-300
_RELATIVE = 1e-14
_NOWHERE = np.zeros(0)
_PARTS = 8  # initial parts of a piece
_NODES = 16  # nodes of Gauss's rule on a stretch; a stretch is halved until both halves agree with the whole
_HALVINGS = 50
_STRETCHES = 2**14  # the most stretches in one pass
_BLOCK = 2**16
_TOO_FAST = "function must grow more slowly: its expectation does not converge within the range of a float"
_TOO_MANY = f"its sum would have more than {_TERMS_MAX:,} terms"


def checked_function(name: str, function: Any) -> Values:
    """Return a function of arrays with checks that its values have the same shape and are finite and real."""
    if not callable(function):
        raise ParameterError(f"{name} must be a function of an array, got {function!r}")

    def values(x: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            found = np.asarray(function(x))
        if found.shape not in {x.shape, ()} or found.dtype.kind not in "fiub":
            raise ParameterError(
                f"{name} must return a real number for each element of its array, got an array of "
                f"{found.dtype.name} of the shape {found.shape} for the shape {x.shape}"
            )
        found = np.broadcast_to(found, x.shape).astype(np.float64)
        if not np.isfinite(found).all():
            place = float(x[~np.isfinite(found)][0])
            raise ParameterError(
                f"{name} must be finite where the noise can be, or grow more slowly: it is not at {place:g}"
            )
        return found

    return values


def checked_loss(loss: Any, power: float) -> Values:
    """Return a loss as a function of ``|x|`` that raises `ParameterError` if its values decrease.

    Only the values at the evaluated places are compared. A power other than 1 together with a loss is
    refused.
    """
    if power != 1.0:
        raise ParameterError("give either power or loss: each of them is a loss")
    function = checked_function("loss", loss)

    def values(z: FloatArray) -> FloatArray:
        found = function(z)
        order = np.argsort(z)
        falls = np.diff(found[order]) < 0.0
        if falls.any():
            place = float(z[order][1:][falls][0])
            raise ParameterError(f"loss must not fall where |x| grows: it does before {place:g}")
        return found

    return values


def even_part(function: Values) -> Values:
    """Return ``(f(z) + f(-z)) / 2``, which has the same expectation for symmetric noise."""

    def values(z: FloatArray) -> FloatArray:
        values = function(np.concatenate((z, -z)))
        above, below = values[: z.size], values[z.size :]
        both = above + below
        both[np.abs(both) <= 2.0**-50 * np.abs(above)] = 0.0  # rounding errors of an odd function
        return both / 2.0

    return values


def integral(
    function: Values,
    pieces: Iterable[tuple[float, float]],
    points: FloatArray = _NOWHERE,
    *,
    endless: bool = False,
) -> float:
    """Return the sum of a function's integrals over pieces of the line, from 0 outwards.

    The function takes an array of shape (n,). It is smooth except for a few kinks and for jumps, which are at
    `points`. With `endless`, the noise has no end, and the last piece ends where its probabilities become too
    small. The integral over this piece must then be negligible. Raises `ParameterError` if it is not, or if
    the error of an integral exceeds a billionth of the sum of the absolute values of all integrals.
    """
    low, high = np.array([stretch for piece in pieces for stretch in _cut(*piece, points)]).T
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)

    def gauss(low: FloatArray, high: FloatArray) -> FloatArray:
        half = (high - low) / 2.0
        values = function(((low + high) / 2.0 + half * nodes[:, None]).ravel()).reshape(_NODES, -1)
        found: FloatArray = half * (weights @ values)
        return found

    whole = gauss(low, high)
    size, last = float(np.abs(whole).sum()), float(np.abs(whole[-_PARTS:]).sum())
    total = error = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        left, right = gauss(low, middle), gauss(middle, high)
        off = np.abs(left + right - whole)
        size = max(size, float(np.abs(left).sum() + np.abs(right).sum()))
        good = off <= _RELATIVE * size
        total, error = total + float((left + right)[good].sum()), error + float(off[good].sum())
        low, middle, high, left, right = (each[~good] for each in (low, middle, high, left, right))
        low, high = np.concatenate((low, middle)), np.concatenate((middle, high))
        whole = np.concatenate((left, right))
        if not low.size or low.size > _STRETCHES:
            break
    error += float(np.abs(whole).sum())
    if error > 1e-9 * size:
        raise ParameterError(
            "function must have fewer jumps or kinks: the error of its expectation is "
            f"{error:.2g}, with a size of {size:.2g}"
        )
    if endless and last > _REST * size:
        raise ParameterError(_TOO_FAST)
    return total + float(whole.sum())


def _cut(low: float, high: float, points: FloatArray) -> Iterable[tuple[float, float]]:
    """Return a piece as stretches: it is cut into a few equal parts, and also at some points."""
    inside = points[(points > low) & (points < high)]
    ends = np.unique(np.concatenate((np.linspace(low, high, _PARTS + 1), inside))).tolist()
    return pairwise(ends)


def series_sum(blocks: Iterable[tuple[FloatArray, bool]]) -> float:
    """Return the sum of blocks of terms; the flag of each block says whether the sum may end after it.

    Raises `ParameterError` if the terms end before they are negligible, or if too many would be needed.
    """
    total = size = part = 0.0
    terms = 0
    for block, may_end in blocks:
        part = float(np.abs(block).sum())
        total, size, terms = total + float(block.sum()), size + part, terms + block.size
        if may_end and part <= _NEGLIGIBLE * size:
            return total
        if terms > _TERMS_MAX:
            raise ParameterError(f"epsilon must be larger, or the sensitivity smaller: {_TOO_MANY}")
    if part > _REST * size:
        raise ParameterError(_TOO_FAST)
    return total


class Folded:
    """The function ``G(t) = sum over k >= 0 of e^(-rate k) f(k period + t)`` for t in [0, period].

    `function` is f and takes an array of shape (n,). Raises `ParameterError` if the terms are not negligible
    before the weights end, or if too many would be needed.
    """

    def __init__(self, function: Values, rate: float, period: float) -> None:
        self._function = function
        self._period = period
        most = math.ceil(_WEIGHTS_END / rate)
        periods = min(most, math.ceil(_PROBABLE / rate) + 1)
        while True:
            if periods > _TERMS_MAX // 64:
                raise ParameterError(f"epsilon must be larger, or the function grow more slowly: {_TOO_MANY}")
            self._weights = np.exp(-rate * np.arange(periods))
            size, rest = self._sizes()
            if (rest <= _NEGLIGIBLE * size).all():
                return
            if periods == most:
                if (rest <= _REST * size).all():
                    return
                raise ParameterError(_TOO_FAST)
            periods = min(2 * periods, most)

    def _sizes(self) -> tuple[FloatArray, FloatArray]:
        """Return sums of absolute terms at four places of the period: of all terms and of the last terms."""
        k = np.arange(self._weights.size)
        sums = []
        for t in self._period * np.array([0.25, 0.5, 0.75, 1.0]):
            terms = np.abs(self._weights * self._function(self._period * k + t))
            sums.append((terms.sum(), terms[-math.ceil(terms.size / 64) :].sum()))
        size, rest = np.array(sums).T
        return size, rest

    def __call__(self, t: FloatArray) -> FloatArray:
        """Return G at some places, shape (n,)."""
        found = np.zeros(t.size)
        step = max(1, _BLOCK // max(1, t.size))
        for start in range(0, self._weights.size, step):
            weights = self._weights[start : start + step]
            z = self._period * np.arange(start, start + weights.size, dtype=np.float64)[:, None] + t
            found += weights @ self._function(z.ravel()).reshape(z.shape)
        return found
