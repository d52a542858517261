"""What the figures on optimal piecewise mechanisms on [0, 1] share: mechanisms, bounds and designs.

Epsilon and the power of the error are parameters too. Every law here is continuous and its error an exact
integral (`exact`). "Truncated" outputs are moved to the nearer end of [0, 1], as the source does with PM, SW,
Laplace and staircase.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from arcwise.analysis.design import lower_bound, minimax, worst_case
from arcwise.domains import Interval
from arcwise.mechanisms.closed_forms.optimal import optimal_levels
from arcwise.mechanisms.closed_forms.piecewise import (
    least_half_range,
    piecewise_parameter,
    square_wave_half_window,
)
from arcwise.noise import Laplace, Staircase
from arcwise.papers.base import Check, formula
from arcwise.papers.exact import bounded_noise_error, interval_error, truncated_noise_error
from arcwise.papers.pictures import family_look

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.mechanisms.closed_forms.piecewise import PiecewiseMember
    from arcwise.typing import FloatArray

SOURCE = "Zheng, Mishra, Hu, slides"

UNIT = "domain lengths, to the power"
"""The unit of an error on [0, 1] whose power stands in its row."""

POWERS = {1.0: "|y-x|", 2.0: "(y-x)^2"}
"""The errors, by their power."""

EPSILONS = np.round(np.linspace(0.1, 8.0, 80), 12)
"""Where curves over epsilon are computed."""

BOUND_EPSILONS = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
_FULL_EPSILONS = (0.1, *(0.25 * i for i in range(1, 21)), 6.0, 7.0, 8.0)

INTERVAL = Interval(0.0, 1.0)


class Pieces(NamedTuple):
    """A density of three pieces for each of n inputs: edges, shape (n, 4), and levels, shape (3,)."""

    edges: FloatArray
    levels: FloatArray


def _three(reach: tuple[float, float], left: FloatArray, window: float, epsilon: float) -> Pieces:
    """Return e^epsilon times as much density on the windows from `left` on as elsewhere within the reach."""
    low, high = reach
    same = np.ones_like(left)
    edges = np.stack([low * same, left, left + window, high * same], axis=-1)
    level = 1.0 / (high - low + np.expm1(epsilon) * window)
    return Pieces(edges, level * np.array([1.0, np.exp(epsilon), 1.0]))


def optimal_pieces(x: FloatArray, epsilon: float, power: float) -> Pieces:
    """Return OPM's density on [0, 1]: the window centred on x, pushed inside at the ends."""
    c = optimal_levels(epsilon, power).half_window
    return _three((0.0, 1.0), np.clip(x - c, 0.0, 1.0 - 2.0 * c), 2.0 * c, epsilon)


def piecewise_pieces(x: FloatArray, epsilon: float, member: PiecewiseMember = "pm") -> Pieces:
    """Return PM's density for inputs in [0, 1]: its outputs reach from (1-A)/2 to (1+A)/2.

    The member "pm-opt" is PTT's of least worst-case variance.
    """
    s = piecewise_parameter(epsilon, member)
    length = least_half_range(epsilon, s)
    low, window = (1.0 - length) / 2.0, length / (s + 1.0)
    return _three((low, low + length), low + (length - window) * x, window, epsilon)


def square_wave_pieces(x: FloatArray, epsilon: float) -> Pieces:
    """Return SW's density for inputs in [0, 1]: the window from x - b to x + b, outputs from -b to 1 + b."""
    b = square_wave_half_window(epsilon)
    return _three((-b, 1.0 + b), x - b, 2.0 * b, epsilon)


class Line(NamedTuple):
    """One mechanism of a figure: its name in the legend, its error, and the number of its look.

    `error` maps (x, epsilon, power) to ``E|y - x|^power``, in the shape of x.
    """

    name: str
    error: Callable[[FloatArray, float, float], FloatArray]
    number: int

    @property
    def style(self) -> dict[str, Any]:
        """Colour and dashes as `Axes.plot` takes them, the same in every figure."""
        return family_look(self.number)

    def worst(self, x: FloatArray, power: float) -> FloatArray:
        """Return the largest error over the inputs x at each of `EPSILONS`."""
        return np.array([self.error(x, epsilon, power).max() for epsilon in EPSILONS])


LINES = (
    Line("OPM", lambda x, e, k: interval_error(x, *optimal_pieces(x, e, k), k), 0),
    Line("PM, truncated", lambda x, e, k: interval_error(x, *piecewise_pieces(x, e), k), 1),
    Line("SW, truncated", lambda x, e, k: interval_error(x, *square_wave_pieces(x, e), k), 2),
    Line("Laplace, truncated", lambda x, e, k: truncated_noise_error(x, Laplace(e), k), 3),
    Line("Laplace, bounded", lambda x, e, k: bounded_noise_error(x, Laplace(e), k), 4),
    Line(
        "staircase, truncated", lambda x, e, k: truncated_noise_error(x, Staircase.optimal(e, power=k), k), 5
    ),
    Line("PTT, truncated", lambda x, e, k: interval_error(x, *piecewise_pieces(x, e, "pm-opt"), k), 6),
)
"""OPM for the power in question, and what it is compared with."""


def below(curve: FloatArray, other: FloatArray) -> str:
    """Return the ranges of `EPSILONS` on which one curve lies below another, in words; "" for none."""
    inside = np.concatenate([[False], curve < other, [False]])
    starts, ends = np.flatnonzero(inside[1:] & ~inside[:-1]), np.flatnonzero(inside[:-1] & ~inside[1:]) - 1
    spans = [(EPSILONS[start], EPSILONS[end]) for start, end in zip(starts, ends, strict=True)]
    return " and ".join(f"{a:g} to {b:g}" if a < b else f"{a:g}" for a, b in spans)


def window_check(epsilon: float, x: float, error: Callable[..., FloatArray], length: float) -> Check:
    """Return the printed half window beside the one found by minimising the error of an input x directly.

    `error` is `interval_error` or `circular_error`; `length` is that of the source's domain.
    """

    def of_half_window(c: float) -> float:
        q = 1.0 / (1.0 + 2.0 * c * math.expm1(epsilon))
        edges, levels = (0.0, max(x - c, 0.0), max(x + c, 2.0 * c), 1.0), (q, q * math.exp(epsilon), q)
        return float(error(x, edges, levels, 1.0))

    printed = length * math.expm1(epsilon / 2) / (2.0 * math.expm1(epsilon))
    found = minimize_scalar(of_half_window, bounds=(1e-6, 0.5), method="bounded", options={"xatol": 1e-12})
    what = f"half window C at epsilon {epsilon:g} (printed formula, against direct minimisation)"
    return formula(what, printed, length * float(found.x), 1e-6)


def bound_epsilons(full: bool) -> tuple[float, ...]:
    """Return where the bound is computed."""
    return _FULL_EPSILONS if full else BOUND_EPSILONS


@cache
def least_error(epsilon: float, power: float, full: bool) -> float:
    """Return what the worst-case ``E|y-x|^power`` of no mechanism on [0, 1] is below.

    Unless in full from 33 inputs, which is quicker and lower: by 1.3 % at epsilon 5, 0.4 % up to 4. Above 5
    the distance, whose windows are narrower, takes 65, and above 7 it takes 97: 129 raise it by 1.6 % at 7.
    """
    few = 33 if epsilon <= 5.0 or power == 2.0 else 65 if epsilon <= 7.0 else 97
    return lower_bound(INTERVAL, epsilon, "value", power=power, inputs=None if full else few)


@cache
def designed_error(epsilon: float, power: float) -> float:
    """Return the worst-case ``E|y-x|^power`` of the table that linear programming finds, over all inputs."""
    mechanism = minimax(INTERVAL, epsilon, goal="value", power=power)
    return worst_case(mechanism, goal="value", power=power)
