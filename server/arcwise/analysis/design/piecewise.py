"""The m-piece framework: the density with the least worst-case error among densities with m levels or fewer.

The source is "Optimal Piecewise-based Mechanism for Collecting Bounded Numerical Data under Local
Differential Privacy" (Zheng, Mishra, Hu). For the input x the report has the density ``p_1, ..., p_m`` on
consecutive pieces of the domain. Levels are the same for every x, with ``p_i <= e^epsilon p_j``; the ends of
the pieces may depend on x.

Three pieces are enough for the following reason. Fix the lowest level q and an input, and let L(y) be the
loss of the output y. The error ``int L f`` is linear in the density f, with ``q <= f <= e^epsilon q`` and
mass 1. So the best f is e^epsilon q where the loss is least, and q elsewhere (the bathtub principle). It has
two levels, the high level where ``L(y) < v``. For ``|y-x|^k`` this is a window around x. Inside a domain, a
window leaves at most three pieces. The worst input of an interval is an end, because the sorted values of
``|y - 0|`` are nowhere below those of ``|y - x|``. The best q for the end is that of `optimal_levels`, and
the error with these levels is no larger at other inputs. With m = 2 the window must touch an end of the
domain at every input, which increases the error of inputs in the middle.

`pieces_search` finds the same optimum by a search that does not rely on this proof.

The best density is not the best of all mechanisms. As a counterexample, let the true output be a for values
below 1/2 and 1-a for other values. Report the true output with probability ``e^epsilon / (1 + e^epsilon)``,
and otherwise the other output. With ``a = (e^epsilon - 1) / (4 e^epsilon)`` the worst case of ``|y-x|`` is
``(1 + e^-epsilon) / 4``, reached at 0, 1/2 and 1. At epsilon 1 this is 0.342, while the best density has
0.378. The law has two atoms, which no density has. From epsilon 1.77 on, the density is better again.
`lower_bound` with the goal "value" bounds all mechanisms.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis.threads import one_thread
from arcwise.checks import checked_integer
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.kernels.certificate import check_epsilon
from arcwise.mechanisms.closed_forms.optimal import (
    circle_expected_error,
    interval_expected_error,
    optimal_levels,
)

if TYPE_CHECKING:
    from arcwise.domains import Domain


class Pieces(NamedTuple):
    """An optimal m-piece density at its worst input.

    `input` is the lower end or the middle of an interval, or the point opposite to 0 on a circle. `edges`
    ascend from one end of the domain to the other; `levels` are densities per unit of the domain. `worst` is
    ``E|y-x|^power`` at this input, which is the largest error of all inputs.
    """

    input: float
    edges: tuple[float, ...]
    levels: tuple[float, ...]
    worst: float


@one_thread()
def optimal_pieces(m: int, epsilon: float, power: float, domain: Domain) -> Pieces:
    """Return the density with at most m pieces that has the least worst-case error, at its worst input.

    `power`, at least 1, is the exponent of the loss. On a circle pieces are counted along [0, period), as in
    the source, so a window across 0 makes three pieces.
    """
    number = check_epsilon(epsilon)
    m = checked_integer("m", m, 1)
    if not (math.isfinite(power) and power >= 1.0):
        raise ParameterError(f"power must be finite and at least 1, got {power!r}")
    if not isinstance(domain, (Interval, Circle)):
        raise ParameterError(f"domain must be an Interval or a Circle, got {domain!r}")
    circular = domain.circular
    if m == 1:
        x, start, width, high = (0.5 if circular else 0.0), 0.0, 1.0, 1.0
        worst = _window_error(x, 1.0, 0.0, power, circular=circular)
    elif m == 2:
        uniform = _window_error(0.5 if circular else 0.0, 1.0, 0.0, power, circular=circular)
        x, width, worst = _two_pieces(number, power, circular=circular)
        if worst >= uniform:  # on a circle, two pieces may be no better than one piece
            return optimal_pieces(1, epsilon, power, domain)
        start, high = 0.0, _high_level(width, number)
    else:
        high, _, half = optimal_levels(number, power)
        x, start, width = (0.5, 0.5 - half, 2.0 * half) if circular else (0.0, 0.0, 2.0 * half)
        worst = (
            circle_expected_error(number, power) if circular else interval_expected_error(0, number, power)
        )
    edges = [0.0, start, start + width, 1.0]
    levels = [high * math.exp(-number), high, high * math.exp(-number)]
    kept = [i for i in range(3) if edges[i] < edges[i + 1]]
    low = domain.start
    length = float(domain.length)
    ends = (edges[kept[0]], *(edges[i + 1] for i in kept))
    return Pieces(
        low + length * x,
        tuple(low + length * end for end in ends),
        tuple(levels[i] / length for i in kept),
        worst * length**power,
    )


def _high_level(width: float, epsilon: float) -> float:
    """Return the level inside a window of this width, for mass 1; outside it is e^-epsilon times this."""
    return 1.0 / (width + math.exp(-epsilon) * (1.0 - width))


def _two_pieces(epsilon: float, power: float, *, circular: bool) -> tuple[float, float, float]:
    """Return the worst input, the window's width and the worst case of the best two pieces on [0, 1].

    The window is [0, w) for inputs up to 1/2, and its mirror image above. On an interval the error is convex
    in x; on a circle it grows with the distance from the window's middle. So the worst input is 0 or 1/2.
    """
    from scipy.optimize import minimize_scalar

    def errors(width: float) -> tuple[float, float]:
        at_end = _window_error(0.0, width, epsilon, power, circular=circular)
        return at_end, _window_error(0.5, width, epsilon, power, circular=circular)

    # The larger of two errors can have two valleys, so search all of [0, 1] before descending into one.
    grid = np.linspace(0.0, 1.0, 2001)[1:]
    best = int(np.argmin([max(errors(width)) for width in grid]))
    bounds = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)])
    found = minimize_scalar(
        lambda width: max(errors(width)), bounds=bounds, method="bounded", options={"xatol": 1e-13}
    )
    width = float(found.x)
    at_end, at_middle = errors(width)
    return (0.0 if at_end >= at_middle else 0.5), width, max(at_end, at_middle)


def _window_error(x: float, width: float, epsilon: float, power: float, *, circular: bool) -> float:
    """Return ``E|y-x|^power`` for the window [0, width) on [0, 1], with the level ratio e^epsilon."""
    k = power + 1.0

    def integral(z: float) -> float:
        """Return the integral of the loss from x to x + z."""
        size = abs(z)
        if circular and size > 0.5:
            return math.copysign((2.0 * 0.5**k - (1.0 - size) ** k) / k, z)
        return math.copysign(size**k / k, z)

    everywhere = integral(1.0 - x) - integral(-x)
    window = integral(width - x) - integral(-x)
    low = math.exp(-epsilon)
    return _high_level(width, epsilon) * (low * everywhere + (1.0 - low) * window)


class TwoAtoms(NamedTuple):
    """Randomised response with the two outputs ``(a, 1-a)`` of the unit interval.

    `truth` is the probability of a for values below 1/2, and of 1-a for other values.
    """

    outputs: tuple[float, float]
    truth: float

    def expected_error(self, x: float) -> float:
        """Return ``E|y-x|`` for the input x in [0, 1]."""
        near, far = sorted(self.outputs, key=lambda y: (y < 0.5) != (x < 0.5))
        return self.truth * abs(near - x) + (1.0 - self.truth) * abs(far - x)

    def worst_case(self) -> float:
        """Return the largest ``E|y-x|`` over all inputs.

        On either side of 1/2, the error is piecewise linear in x, with kinks only at the outputs. So its
        largest value is at an end of a piece: at 0, an output, 1/2 (from either side) or 1.
        """
        below = math.nextafter(0.5, 0.0)
        return max(self.expected_error(x) for x in (0.0, *self.outputs, below, 0.5, 1.0))


def randomized_response(epsilon: float) -> TwoAtoms:
    """Return the randomised response of the counterexample in the module's docstring, at this epsilon.

    Examples
    --------
    >>> round(randomized_response(1.0).worst_case(), 6)
    0.34197
    """
    inverse = math.exp(-check_epsilon(epsilon))
    a = (1.0 - inverse) / 4.0
    return TwoAtoms((a, 1.0 - a), 1.0 / (1.0 + inverse))
