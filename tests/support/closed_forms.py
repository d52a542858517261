"""Errors of continuous mechanisms on [0, 1] that only tests need, for inputs of any shape."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammainc

from arcwise.mechanisms.closed_forms.piecewise import square_wave_half_window

if TYPE_CHECKING:
    from arcwise.typing import FloatArray


def square_wave_mean(x: FloatArray | float, epsilon: float) -> FloatArray:
    """Return ``E[y|x]`` of SW's output."""
    b = square_wave_half_window(epsilon)
    return np.asarray((2 * b * math.expm1(epsilon) * x + 0.5 + b) / (2 * b * math.exp(epsilon) + 1))


def clamped_laplace_error(x: FloatArray, epsilon: float) -> FloatArray:
    """Return ``E|y - x|`` of Laplace noise clamped into [0, 1]."""
    return np.asarray(-(np.expm1(-epsilon * x) + np.expm1(-epsilon * (1 - x))) / (2 * epsilon))


def bounded_laplace_error(x: FloatArray, epsilon: float) -> FloatArray:
    """Return ``E|y - x|`` of Laplace noise drawn until the output lies in [0, 1]."""
    inside = gammainc(2.0, epsilon * x) + gammainc(2.0, epsilon * (1 - x))
    return np.asarray(inside / (2 * epsilon**2 * clamped_laplace_error(x, epsilon)))
