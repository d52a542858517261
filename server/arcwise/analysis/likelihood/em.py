"""Maximum likelihood of the node distribution by EM, with a certified gap, on any kernel.

The reports' codes have the distribution ``q = f P``, with f the probabilities of the N nodes and P the
kernel's rows. A step consists of a map from nodes to codes and a map back (`linear_maps`): O(N + K) for a
window kernel. `distribution` decides on the number of steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.likelihood.linear_maps import rows_of
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from arcwise.kernels.base import Kernel
    from arcwise.typing import FloatArray

_TINY = float(np.finfo(np.float64).tiny)
"""The least probability with a logarithm here: probabilities of nodes without reports decrease to 0."""


@dataclass(frozen=True)
class EMFit:
    """A node distribution and a bound on its distance from the most likely one.

    `log_likelihood` is ``sum_j counts_j log q_j``, and no node distribution has a log-likelihood above
    ``log_likelihood + gap``. `iterations` is the number of EM steps, or the number to which longer steps are
    equivalent.

    The log-likelihood L is concave, and its gradient at f is ``n grad``. So for every f*,
    ``L(f*) - L(f) <= n (grad . f* - grad . f)``. Since f* is on the simplex, ``grad . f* <= max_s grad_s``,
    and ``grad . f = sum_j counts_j/n = 1``.
    """

    probabilities: FloatArray
    log_likelihood: float
    gap: float
    iterations: int


class EMSteps:
    """EM steps of one or more data sets of a kernel in lockstep, in buffers that are allocated once.

    `counts` has the shape (K,) or (M, K), non-negative, each row with a positive sum. M data sets share every
    numpy call, which for a few hundred codes costs hardly more than a single data set. Every data set starts
    from `start`, shape (N,), positive: equal probabilities unless given.

    A step ``f_s <- f_s grad_s`` with ``grad_s = sum_j P_sj counts_j / (n q_j)`` is the exact maximiser of the
    expected complete-data likelihood, so no step lowers the likelihood.
    """

    def __init__(self, kernel: Kernel, counts: ArrayLike, *, start: FloatArray | None = None) -> None:
        weights = np.atleast_2d(np.asarray(counts, dtype=np.float64))
        if weights.shape[1:] != (kernel.codes,):
            raise ParameterError(f"counts must have {kernel.codes} codes, got shape {weights.shape}")
        self.totals: FloatArray = weights.sum(axis=1)
        if not (weights.min() >= 0 and self.totals.min() > 0):
            raise ParameterError("counts must be non-negative with a positive sum")
        self._weights = weights / self.totals[:, None]
        self.iterations = 0

        n = kernel.nodes
        f = np.full(n, 1.0) if start is None else np.asarray(start, dtype=np.float64)
        if f.shape != (n,) or not f.min() > 0:
            raise ParameterError(f"start must be {n} positive numbers")
        self._rows = rows_of(kernel, len(weights))
        self._f, self._q, self._gradient = self._rows.nodes, self._rows.codes, self._rows.gradient
        self._scaled = self._rows.scale * self._weights
        self._f[:] = f
        self._normalise()
        self._refresh()

    @property
    def probabilities(self) -> FloatArray:
        """The current node distributions, shape (M, N)."""
        return self._f / self._rows.scale

    @property
    def codes(self) -> FloatArray:
        """The code distributions of the data sets, shape (M, K); a view that the next step overwrites."""
        return self._q

    def log_likelihood(self) -> FloatArray:
        """Return the log-likelihoods ``sum_j counts_j log q_j`` of the data sets, shape (M,)."""
        value: FloatArray = self.totals * (self._weights * np.log(self._q)).sum(axis=1)
        return value

    def current(self, which: int) -> EMFit:
        """Return the current fit of data set `which`."""
        n, q, gradient = float(self.totals[which]), self._q[which], self._gradient[which]
        return EMFit(
            self._f[which] / self._rows.scale,
            n * float((self._weights[which] * np.log(q)).sum()),
            n * max(float(gradient.max()) - 1.0, 0.0),
            self.iterations,
        )

    def step(self, smooth: Callable[[FloatArray], FloatArray] | None = None) -> None:
        """Take one EM step on every data set, or one of smoothed EM with `smooth`, from `smoother`."""
        self._f *= self._gradient
        if smooth is not None:
            self._f[:] = smooth(self._f)
        self._normalise()  # keeps the sum at 1 despite rounding
        self._refresh()
        self.iterations += 1

    def keep(self, share: float) -> None:
        """Set nodes to 0 if they are less likely than this share of their data set's most likely node."""
        self._f[self._f < share * self._f.max(axis=1, keepdims=True)] = 0.0
        self._normalise()
        self._refresh()

    def leap(self, stages: int) -> None:
        """Move as far as ``(s^2 + s)/2`` EM steps, at the cost of `stages` = s steps.

        A leap of one stage is `step`. A leap should be short compared with `iterations`, a third or less.
        Then nodes change little in it, and it ends close to where the steps would end. After only a few steps
        a leap may fail.

        An EM step is an Euler step of length 1 of ``d log f / dt = log grad``. If steps change little, an
        error in log f shrinks by a factor ``1 - e`` in a step, with e in [0, 1] for EM (Dempster, Laird and
        Rubin 1977). The Runge-Kutta-Legendre scheme of first order (Meyer, Balsara and Aslam 2014; here of
        length ``(s^2 + s)/2``) shrinks it by ``P_s(1 - e)``. For every e in [0, 2] the Legendre polynomial
        P_s is at most 1 in size, so the scheme follows the flow as EM does.
        """
        if stages < 1:
            raise ParameterError(f"stages must be at least 1, got {stages!r}")
        if stages == 1:
            self.step()
            return
        # In place: three arrays for any number of stages.
        before = np.log(np.maximum(self._f, _TINY))
        now, moved = before + self._pull(np.empty_like(before)), np.empty_like(before)
        for j in range(2, stages + 1):
            self._put(now, moved)
            self._pull(moved)
            moved += now
            moved *= (2 * j - 1) / j
            before *= (1 - j) / j
            before += moved
            before, now = now, before
        self._put(now, moved)
        self.iterations += stages * (stages + 1) // 2

    def _pull(self, out: FloatArray) -> FloatArray:
        """Return in `out` the amounts that a step adds to the logarithms of the current probabilities."""
        np.maximum(self._gradient, _TINY, out=out)
        return np.asarray(np.log(out, out=out))

    def _put(self, logarithms: FloatArray, spare: FloatArray) -> None:
        """Set probabilities proportional to the exponentials of `logarithms`; `spare` is overwritten."""
        np.subtract(logarithms, logarithms.max(axis=1, keepdims=True), out=spare)
        np.exp(spare, out=self._f)
        self._normalise()
        self._refresh()

    def _normalise(self) -> None:
        # In two operations: then a probability of 1 becomes exactly the scale, and stays so.
        self._f /= np.add.reduce(self._f, axis=1, keepdims=True)
        self._f *= self._rows.scale

    def _refresh(self) -> None:
        """Compute q and the gradient of the current probabilities."""
        self._rows.forward()
        np.divide(self._scaled, self._q, out=self._rows.residual)
        self._rows.backward()


def smoother(kernel: Kernel) -> Callable[[FloatArray], FloatArray]:
    """Return a function that averages every node, shape (..., N), with its two neighbours.

    The weights are 1, 2, 1; at the two ends of an interval 2, 1. On a circle the first and the last node are
    neighbours.
    """
    many, circular = kernel.nodes, kernel.circular

    def add_up(f: FloatArray) -> FloatArray:
        total = 2.0 * f
        total[..., 1:] += f[..., :-1]
        total[..., :-1] += f[..., 1:]
        if circular:
            total[..., 0] += f[..., -1]
            total[..., -1] += f[..., 0]
        return total

    weights = add_up(np.ones(many))
    return lambda f: add_up(f) / weights
