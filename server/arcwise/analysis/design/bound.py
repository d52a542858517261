"""A lower bound on the worst case of *every* epsilon-LDP mechanism on the interval, with a dual certificate.

The bound is that of a relaxed problem, with only finitely many inputs x_i and outputs anywhere. By linear
duality, for any weights ``lambda_i >= 0`` with the sum 1 and any mu_i, nu_i let

    c_i(y) = lambda_i |y - x_i|^power - mu_i y - nu_i,      G(y) = sum_i min(c_i(y), e^epsilon c_i(y)).

The laws P_i of the outputs have ``m <= P_i <= e^epsilon m`` for one measure m of mass at most 1, so

    max_i loss_i >= sum_i lambda_i loss_i = sum_i (nu_i + mu_i x_i) + sum_i int c_i dP_i
                 >= sum_i (nu_i + mu_i x_i) + int G dm >= sum_i (nu_i + mu_i x_i) - max(0, -min_y G(y)),

where ``mu_i = 0`` unless the mechanism must be unbiased. This needs no grid of outputs: between the roots of
the c_i, G is convex, so its minimum is found on each piece. The right side is a valid bound for any
multipliers, even if the solver's answer is inaccurate.

The multipliers come from cutting planes. A program over (lambda, mu, nu) has one constraint for each pair of
an output and a set of rows that are high at this output. New constraints are added where G is negative, at a
point between the program's optimum and the best multipliers found so far. This in-out separation (Ben-Ameur
and Neto 2007) needs few rounds. The interval is [-1, 1]. By symmetry, one half of the multipliers is enough.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import linprog

from arcwise.errors import ArcwiseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.typing import BoolArray, FloatArray

    Pattern = tuple[float, BoolArray]

_RTOL = 2e-6
"""The computed bound is at most this far below the best bound for its inputs."""


_PATIENCE = 10
"""A cut is dropped if it has not been binding for this many rounds."""


_BOX = 100.0
"""The solver's multipliers stay within this bound, in their units, while there are few cuts."""


class Multipliers(NamedTuple):
    """Multipliers for each input, shape (N,): of the loss (non-negative, sum 1), of the mean, of the sum."""

    loss: FloatArray
    mean: FloatArray
    total: FloatArray


def certified_bound(
    multipliers: Multipliers, inputs: FloatArray, epsilon: float, power: float, *, unbiased: bool
) -> float:
    """Return the bound that these multipliers prove: no mechanism has a smaller worst case on [-1, 1]."""
    # A solver's multipliers meet the conditions of the proof only approximately.
    loss = np.maximum(multipliers.loss, 0.0)
    share = float(loss.sum())
    multipliers = Multipliers(loss / share, multipliers.mean / share, multipliers.total / share)
    value = float(multipliers.total.sum() + multipliers.mean @ inputs)
    _, depth = _valleys(multipliers, inputs, math.exp(epsilon), power, unbiased=unbiased)
    # Subtract the rounding error of a sum of N terms, each accurate to a few units in the last place.
    size = float(np.abs(multipliers.total).sum() + np.abs(multipliers.mean).sum())
    return value - max(0.0, -float(depth.min())) - 1e-14 * size * math.exp(epsilon)


def interval_bound(epsilon: float, power: float, inputs: int, *, unbiased: bool) -> float:
    """Return a certified lower bound on the worst-case loss ``|y-x|^power`` on [-1, 1].

    The worst case is bounded at an odd number of `inputs` at equal distances; more inputs give a larger
    bound. If `unbiased`, only unbiased mechanisms are considered, with outputs anywhere, and `power` must be
    2.
    """
    # Go from coarse to fine: the patterns that mattered for half of the inputs are a good start for all
    # inputs.
    patterns: list[Pattern] = []
    count = inputs
    ladder = [count]
    while count > 9 and count % 4 == 1:
        count = count // 2 + 1
        ladder.insert(0, count)
    bound = 0.0
    for count in ladder:
        problem = _Dual(epsilon, power, count, unbiased=unbiased)
        bound, patterns = problem.solve([(y, _refine(high, count)) for y, high in patterns])
    return bound


def _refine(high: BoolArray, count: int) -> BoolArray:
    """Return a set of inputs on the finer grid; an input between two others is in the set if both are."""
    place = np.linspace(0.0, len(high) - 1.0, count)
    fine: BoolArray = high[np.floor(place).astype(int)] & high[np.ceil(place).astype(int)]
    return fine


class _Dual:
    """The program over the multipliers of the inputs ``x >= 0``; inputs below 0 have mirrored multipliers."""

    def __init__(self, epsilon: float, power: float, inputs: int, *, unbiased: bool) -> None:
        self.epsilon, self.power, self.unbiased = epsilon, power, unbiased
        self.growth = math.exp(epsilon)
        self.x = np.linspace(-1.0, 1.0, inputs)
        middle = inputs // 2
        self.half = self.x[middle:]
        self.count = len(self.half)
        self.image = np.abs(np.arange(inputs) - middle)
        self.sign = np.sign(self.x)
        self.weight = np.where(self.half == 0.0, 1.0, 2.0)
        self.reach = 1.2 / math.tanh(epsilon / 2) if unbiased else 1.0
        # Multipliers of means and sums, and the coefficients of cuts, are in units of their possible size.
        self.units = np.array([1.0, self.reach ** (power - 1.0), self.reach**power])
        mean = self.weight * self.half if unbiased else np.zeros(self.count)
        self.value = np.outer(self.units, np.ones(self.count)).ravel() * np.concatenate(
            [np.zeros(self.count), mean, self.weight]
        )

    def unfold(self, z: FloatArray) -> Multipliers:
        loss, mean, total = z.reshape(3, -1)[:, self.image] * self.units[:, None]
        return Multipliers(loss, self.sign * mean, total)

    def cut(self, y: float, high: BoolArray) -> FloatArray:
        """Return the coefficients of ``sum_i h_i c_i(y)`` for the multipliers of the half."""
        h = np.where(high, self.growth, 1.0)
        terms = np.stack([h * np.abs(y - self.x) ** self.power, -h * self.sign * y, -h])
        folded: FloatArray = np.zeros((self.count, 3))
        np.add.at(folded, self.image, terms.T)
        if not self.unbiased:
            folded[:, 1] = 0.0
        return np.ravel(folded.T * (self.units / self.units[2])[:, None])

    def first_patterns(self) -> list[Pattern]:
        """Return outputs with windows of high inputs around them, the shape of optimal mechanisms."""
        patterns: list[Pattern] = []
        for y in np.linspace(0.0, self.reach, 25).tolist():
            for width in np.linspace(0.05, 2.0, 12).tolist():
                start = min(min(y, 1.0) - width / 2, 1.0 - width)
                patterns.append((y, (self.x >= start) & (self.x <= start + width)))
        return patterns

    def solve(self, known: list[Pattern]) -> tuple[float, list[Pattern]]:
        """Return a bound at most `_RTOL` below the best bound for these inputs, and its patterns."""
        patterns = self.first_patterns() + known
        cuts = [self.cut(*pattern) for pattern in patterns]
        idle = [0] * len(cuts)
        mean = (-_BOX, _BOX) if self.unbiased else (0.0, 0.0)
        limits = [(0.0, None)] * self.count + [mean] * self.count + [(-_BOX, _BOX)] * self.count
        best, inner = -math.inf, None
        while True:
            result = self.optimum(np.array(cuts), limits)
            outer, upper = result.x, float(self.value @ result.x)
            fresh: list[Pattern] = []
            for share in (0.5, 0.75, 1.0) if inner is not None else (1.0,):
                point = outer if inner is None else share * outer + (1 - share) * inner
                fresh, reached = self.separate(point, abs(best), outer)
                if reached > best:
                    best = reached
                    # Lowering every nu by g lifts G by at least N g: this is feasible, and gives exactly the
                    # bound.
                    inner = point.copy()
                    shift = (float(self.value @ point) - reached) / len(self.x)
                    inner[2 * self.count :] -= shift / self.units[2]
                if fresh:
                    break
            binding = result.ineqlin.marginals < -1e-9
            if upper - best <= _RTOL * best or not fresh:
                return best, [patterns[index] for index in np.flatnonzero(binding)]
            # Cuts that have not mattered for a while slow the solver down. If such a cut matters later, it is
            # added again.
            idle = [0 if bind else count + 1 for bind, count in zip(binding, idle, strict=True)]
            kept = [index for index, count in enumerate(idle) if count < _PATIENCE]
            patterns = [patterns[index] for index in kept] + fresh
            cuts = [cuts[index] for index in kept] + [self.cut(*pattern) for pattern in fresh]
            idle = [idle[index] for index in kept] + [0] * len(fresh)

    def optimum(self, cuts: FloatArray, limits: Sequence[tuple[float, float | None]]) -> Any:
        """Return HiGHS's answer, at a coarser tolerance if its numerics fail at the finest.

        The coarser tolerance can make the bound smaller, but never invalid.
        """
        for tolerance in (1e-10, 1e-8, 1e-7):
            result = linprog(
                -self.value,
                A_ub=-cuts,
                b_ub=np.zeros(len(cuts)),
                A_eq=np.concatenate([self.weight, np.zeros(2 * self.count)])[None],
                b_eq=[1.0],
                bounds=limits,
                method="highs-ds",
                options={"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance},
            )
            if result.x is not None:
                return result
        raise ArcwiseError(
            f"the solver found no multipliers at epsilon {self.epsilon!r}: HiGHS says {result.message}"
        )

    def separate(self, point: FloatArray, size: float, outer: FloatArray) -> tuple[list[Pattern], float]:
        """Return the patterns that a point (and `outer`) violates, and the bound that the point proves."""
        multipliers = self.unfold(point)
        multipliers = multipliers._replace(loss=np.maximum(multipliers.loss, 0.0))
        y, depth = _valleys(multipliers, self.x, self.growth, self.power, unbiased=self.unbiased)
        reached = certified_bound(multipliers, self.x, self.epsilon, self.power, unbiased=self.unbiased)
        least = 0.1 * _RTOL * size if math.isfinite(size) else 0.0
        # Farther out the coefficients of a cut would be too large for the solver.
        places = y[(depth < -least) & (y >= 0.0) & (y < 100.0 * self.reach)]
        high = _prices(multipliers, self.x, places, self.power) < 0.0
        patterns = list(zip(places.tolist(), high.T, strict=True))
        return [p for p in patterns if self.cut(*p) @ outer < -1e-12], reached


def _prices(multipliers: Multipliers, x: FloatArray, y: FloatArray, power: float) -> FloatArray:
    """Return ``c_i(y)``, shape (N, len(y))."""
    loss = multipliers.loss[:, None] * np.abs(y - x[:, None]) ** power
    prices: FloatArray = loss - multipliers.mean[:, None] * y - multipliers.total[:, None]
    return prices


def _valleys(
    multipliers: Multipliers, x: FloatArray, growth: float, power: float, *, unbiased: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the position and the value of the minimum of G on every piece between roots of the c_i.

    On a piece no c_i changes its sign, so G is a sum of convex functions with positive weights. Its slope
    increases, and bisection finds the zero of the slope.
    """
    if unbiased:
        edges = _quadratic_roots(multipliers, x)
        # Beyond the last root G is one convex parabola; its slope is positive far out.
        far = 10.0 * (1.0 + float(np.abs(edges).max(initial=1.0)))
        edges = np.concatenate([[-far], edges, [far]])
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            radius = (np.maximum(multipliers.total, 0.0) / multipliers.loss) ** (1.0 / power)
        radius = np.where(np.isfinite(radius), radius, 3.0)
        edges = np.clip(np.concatenate([x - radius, x, x + radius]), -1.0, 1.0)
    edges = np.unique(edges)
    left, right = edges[:-1].copy(), edges[1:].copy()
    middle = 0.5 * (left + right)
    high = np.where(_prices(multipliers, x, middle, power) < 0.0, growth, 1.0)
    for _ in range(60):
        distance = middle - x[:, None]
        slope = power * multipliers.loss[:, None] * np.sign(distance) * np.abs(distance) ** (power - 1.0)
        rising = ((slope - multipliers.mean[:, None]) * high).sum(axis=0) > 0.0
        right, left = np.where(rising, middle, right), np.where(rising, left, middle)
        middle = 0.5 * (left + right)
    places = np.concatenate([edges, middle])
    prices = _prices(multipliers, x, places, power)
    depth: FloatArray = np.where(prices < 0.0, growth * prices, prices).sum(axis=0)
    return places, depth


def _quadratic_roots(multipliers: Multipliers, x: FloatArray) -> FloatArray:
    """Return the real roots of ``lambda (y - x)^2 - mu y - nu`` for all inputs."""
    a, b = multipliers.loss, -2.0 * multipliers.loss * x - multipliers.mean
    c = multipliers.loss * x**2 - multipliers.total
    discriminant = b * b - 4.0 * a * c
    with np.errstate(divide="ignore", invalid="ignore"):
        q = -0.5 * (b + np.copysign(np.sqrt(np.maximum(discriminant, 0.0)), b))
        roots = np.concatenate([q / a, c / q])
    keep = np.isfinite(roots) & np.tile(discriminant >= 0.0, 2) & (np.abs(roots) < 1e6)
    real: FloatArray = roots[keep]
    return real
