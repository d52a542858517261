"""Mechanisms that the paper on optimal piecewise mechanisms compares on [0, 1], as functions of the input.

Epsilon and the power of the error are parameters too. Every law here is continuous and its error an exact
integral (`exact`). "Truncated" outputs are moved to the nearer end of [0, 1], as the source does with PM, SW,
Laplace and staircase.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcwise.analysis.charts.look import COLOURS
from arcwise.mechanisms.closed_forms.optimal import optimal_levels
from arcwise.mechanisms.closed_forms.piecewise import least_half_range, piecewise_parameter
from arcwise.mechanisms.closed_forms.square_wave import square_wave_half_window
from arcwise.noise import Laplace, Staircase
from arcwise.papers.exact import bounded_noise_error, interval_error, truncated_noise_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.mechanisms.closed_forms.piecewise import PiecewiseMember
    from arcwise.typing import FloatArray


SOURCE = "Zheng, Mishra, Hu, slides"

UNIT = "(domain lengths, to the power)"
"""The unit of an error on [0, 1] whose power stands in its row."""

EPSILONS = np.round(np.linspace(0.1, 8.0, 80), 12)
"""Where curves over epsilon are computed."""


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
    """One line of a figure, with the colour and the dash that it has in every figure.

    `name` is its name in the legend, and `error` maps (x, epsilon, power) to ``E|y - x|^power``, in the shape
    of x.
    """

    name: str
    error: Callable[[FloatArray, float, float], FloatArray]
    colour: str
    dash: Any

    @property
    def style(self) -> dict[str, Any]:
        """Colour and dashes as `Axes.plot` takes them."""
        return {"color": self.colour, "linestyle": self.dash}


def _optimal(x: FloatArray, epsilon: float, power: float) -> FloatArray:
    return interval_error(x, *optimal_pieces(x, epsilon, power), power)


def _piecewise(x: FloatArray, epsilon: float, power: float) -> FloatArray:
    return interval_error(x, *piecewise_pieces(x, epsilon), power)


def _transformation(x: FloatArray, epsilon: float, power: float) -> FloatArray:
    return interval_error(x, *piecewise_pieces(x, epsilon, "pm-opt"), power)


def _square_wave(x: FloatArray, epsilon: float, power: float) -> FloatArray:
    return interval_error(x, *square_wave_pieces(x, epsilon), power)


def _laplace(x: FloatArray, epsilon: float, power: float) -> FloatArray:
    return truncated_noise_error(x, Laplace(epsilon), power)


def _bounded_laplace(x: FloatArray, epsilon: float, power: float) -> FloatArray:
    return bounded_noise_error(x, Laplace(epsilon), power)


def _staircase(x: FloatArray, epsilon: float, power: float) -> FloatArray:
    return truncated_noise_error(x, Staircase.optimal(epsilon, power=power), power)


LINES = (
    Line("OPM", _optimal, COLOURS[0], "-"),
    Line("PM, truncated", _piecewise, COLOURS[1], (0, (6, 2))),
    Line("SW, truncated", _square_wave, COLOURS[2], (0, (4, 1.5, 1, 1.5))),
    Line("Laplace, truncated", _laplace, COLOURS[3], (0, (1, 1.2))),
    Line("Laplace, bounded", _bounded_laplace, COLOURS[4], (0, (3, 1, 1, 1, 1, 1))),
    Line("staircase, truncated", _staircase, COLOURS[5], (0, (2, 1))),
    Line("PTT, truncated", _transformation, COLOURS[6], (0, (1, 3))),
)
"""OPM for the power in question, and what it is compared with."""


def worst_errors(line: Line, power: float) -> FloatArray:
    """Return the largest error over all inputs at each of `EPSILONS`.

    Every law is symmetric about 1/2. The grid holds the end and the middle, where the largest errors of most
    of them are; in between it is fine enough for five digits.
    """
    x = np.linspace(0.0, 0.5, 201)
    return np.array([line.error(x, epsilon, power).max() for epsilon in EPSILONS])


def below(curve: FloatArray, other: FloatArray) -> str:
    """Return the ranges of `EPSILONS` on which one curve lies below another, in words; "" for none."""
    inside = np.concatenate([[False], curve < other, [False]])
    starts, ends = np.flatnonzero(inside[1:] & ~inside[:-1]), np.flatnonzero(inside[:-1] & ~inside[1:]) - 1
    spans = [(EPSILONS[start], EPSILONS[end]) for start, end in zip(starts, ends, strict=True)]
    return " and ".join(f"{a:g} to {b:g}" if a < b else f"{a:g}" for a, b in spans)
