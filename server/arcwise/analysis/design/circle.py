"""Designs on the circle: one row, because the problem is invariant under rotation.

One row is enough, for the following reason. Turn a mechanism P by r: ``P_r(A | x) = P(A + r | x + r)``. P_r
keeps the same epsilon and has the same worst case. The mean of P_r over all r is at least as good, because
ratios of means are at most the largest ratio, and the worst case is convex in P. That mean is invariant: its
law for the input x is one law, turned by x. On a grid of K nodes and K codes, turn by multiples of 1/K; the
result is a circulant kernel. In it, every code takes every weight of the row as the input moves around the
circle, so the ratio is ``max(row) / min(row)``. The same argument with reflections shows that the row can be
symmetric. Inputs between nodes are rounded stochastically.

The loss is ``d^power`` for the goal "value", or ``1 - cos(2 pi d)`` for the goal "direction", with d the
circular distance on a circle of circumference 1. The loss for "direction" has the expectation 1 - rho_1,
where rho_1 is the attenuation of the first trigonometric moment.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import brentq, linprog

from arcwise.analysis.design.worst import mixture_maximum, mixture_peaks
from arcwise.errors import ArcwiseError

if TYPE_CHECKING:
    from arcwise.analysis.design.worst import Curves
    from arcwise.typing import FloatArray, IntArray


class CircularLoss(NamedTuple):
    """``d^power`` of the circular distance, or ``1 - cos(2 pi d)`` if power is None."""

    power: float | None

    def __call__(self, difference: FloatArray) -> FloatArray:
        """Return the loss of differences of positions on the circle of circumference 1, any shape."""
        if self.power is None:
            loss: FloatArray = 2.0 * np.sin(np.pi * difference) ** 2
            return loss
        turned = np.mod(difference, 1.0)
        distance: FloatArray = np.minimum(turned, 1.0 - turned)
        return distance**self.power

    def inverse(self, level: float) -> float:
        """Return the distance at which the loss reaches a level."""
        if self.power is None:
            return math.asin(math.sqrt(level / 2.0)) / math.pi
        return float(level ** (1.0 / self.power))

    def integral(self, distance: float) -> float:
        """Return the integral of the loss over all positions up to a distance, on both sides."""
        if self.power is None:
            return float(2.0 * distance - math.sin(2.0 * math.pi * distance) / math.pi)
        return float(2.0 * distance ** (self.power + 1.0) / (self.power + 1.0))


def _mixtures(codes: int, loss: CircularLoss, fraction: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the losses of each code for node 0 and for node 1, at inputs between them, shape (n, K)."""
    x = fraction[:, None] / codes
    position = np.arange(codes) / codes
    return loss(position - x), loss(position + 1.0 / codes - x)


def find_row(epsilon: float, codes: int, loss: CircularLoss, *, rounds: bool = True) -> FloatArray:
    """Return the probabilities of node 0, shape (K,), that minimise the worst-case loss over all inputs.

    If `rounds` is false, the K nodes are the only inputs.
    """
    growth = math.exp(epsilon)
    half = codes // 2 + 1
    image = np.minimum(np.arange(codes), codes - np.arange(codes))  # codes j and K-j share a variable
    fold = np.zeros((codes, half))
    fold[np.arange(codes), image] = 1.0
    cost = np.zeros(half + 2)  # the variables: the row, its least weight, the worst case
    cost[-1] = 1.0
    one = np.ones((half, 1))
    ratio = np.block(
        [[np.eye(half), -growth * one, 0 * one], [-np.eye(half), one, 0 * one]],
    )
    total = np.append(fold.sum(axis=0), [0.0, 0.0])[None]
    fractions = np.array([0.0, 0.5] if rounds else [0.0])
    while True:
        first, second = _mixtures(codes, loss, fractions)
        mixed = ((1 - fractions)[:, None] * first + fractions[:, None] * second) @ fold
        worst = np.column_stack([mixed, np.zeros(len(fractions)), -np.ones(len(fractions))])
        result = linprog(
            cost,
            A_ub=np.vstack([worst, ratio]),
            b_ub=np.zeros(len(worst) + len(ratio)),
            A_eq=total,
            b_eq=[1.0],
            method="highs-ds",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        if result.x is None:
            raise ArcwiseError(f"the solver found no row: HiGHS says {result.message}")
        row: FloatArray = fold @ result.x[:half]
        if not rounds:
            return row
        peaks = mixture_peaks(_curves(row, loss), *_pieces())
        at = peaks.fraction[peaks.value > result.x[-1] * (1 + 1e-9)]
        at = at[[bool(np.abs(fractions - f).min() > 1e-8) for f in at]]
        if not at.size:
            return row
        fractions = np.append(fractions, at)


def _pieces() -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the first half of the way from node 0 to node 1; the second half is its mirror image.

    No code's distance has a kink inside this half, because positions and their antipodes are multiples of
    1/(2K).
    """
    edges = np.linspace(0.0, 0.5, 9)
    return np.zeros(8, np.int64), edges[:-1], edges[1:]


def _curves(row: FloatArray, loss: CircularLoss) -> Curves:
    def curves(pair: IntArray, fraction: FloatArray) -> tuple[FloatArray, FloatArray]:
        first, second = _mixtures(len(row), loss, fraction)
        return first @ row, second @ row

    return curves


def circle_worst(row: FloatArray, loss: CircularLoss, *, rounds: bool = True) -> float:
    """Return the largest expected loss over all inputs, for a row that turns with the input.

    The row, shape (K,), holds the probabilities of node 0 and is symmetric: code j has the probability of
    code K-j. If `rounds`, inputs may lie between two nodes.

    For "direction", take an input at the fraction f of a step between two nodes. The moment of the mixture
    has, along the input, the component ``rho ((1-f) cos(2 pi f/K) + f cos(2 pi (1-f)/K))``. This is least at
    f = 1/2, where it is ``rho cos(pi/K)``.
    """
    codes = len(row)
    if not rounds:
        return float(row @ loss(np.arange(codes) / codes))
    if loss.power is None:
        rho = float(row @ np.cos(2.0 * np.pi * np.arange(codes) / codes))
        return 1.0 - rho * (math.cos(math.pi / codes) if rho > 0 else 1.0)
    return mixture_maximum(_curves(row, loss), *_pieces())


def circle_bound(epsilon: float, loss: CircularLoss) -> float:
    """Return the least worst-case loss of any epsilon-LDP mechanism on the circle of circumference 1.

    Let L be the loss of an output. By invariance the law is one density f with ``m <= f <= e^epsilon m``, and
    ``m > 0`` constant. For any level v, ``E L - v = int (L - v) f >= m (int (L-v)^+ - e^epsilon int
    (v-L)^+)``, because the best density is high exactly where L < v. At the v where the bracket vanishes,
    ``E L >= v``, with equality for the window {L < v}. So v is the least expected loss, and also the loss at
    the edge of the window.
    """
    everywhere = loss.integral(0.5)
    growth = math.expm1(epsilon)

    def bracket(level: float) -> float:
        # int (L-v)^+ - e^eps int (v-L)^+ = int (L - v) - (e^eps - 1) int (v - L)^+
        distance = loss.inverse(level)
        return everywhere - level - growth * (2.0 * distance * level - loss.integral(distance))

    return float(brentq(bracket, 0.0, everywhere, xtol=1e-300, rtol=1e-14))
