"""Moments of one report at given inputs, summed over the integer rows. No sampling, no closed forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from arcwise.checks import checked_real

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.domains import Domain
    from arcwise.kernels.base import Kernel
    from arcwise.typing import FloatArray

TOO_COARSE = 1.02
"""Users are warned if a grid's error is more than this many times the error of the closed form."""

_BLOCK = 1 << 21
"""The most probabilities that are held in memory together."""


class _Sampled(Protocol):
    """The parts of a `Mechanism` that moments need; a protocol, because `Mechanism` imports this module."""

    @property
    def domain(self) -> Domain: ...
    @property
    def kernel(self) -> Kernel: ...
    def positions(self, units: FloatArray) -> FloatArray: ...
    def node_units(self, nodes: FloatArray) -> FloatArray: ...
    def code_units(self) -> FloatArray: ...


def laws(mechanism: _Sampled, units: FloatArray) -> FloatArray:
    """Return the distribution of the code for each position on the unit domain, shape (n,) to (n, K).

    A real input has a mixture of the rows of the two nodes around it.
    """
    kernel = mechanism.kernel
    position = mechanism.positions(np.array(units, dtype=np.float64))
    below = position.astype(np.int64)
    share = (position - below)[:, None]
    above = (below + 1) % kernel.nodes if kernel.circular else np.minimum(below + 1, kernel.nodes - 1)
    mixed = kernel.probabilities(below % kernel.nodes)
    mixed *= 1.0 - share
    mixed += share * kernel.probabilities(above)
    return mixed


def expected_errors(mechanism: _Sampled, units: FloatArray, power: float = 1.0) -> FloatArray:
    """Return ``E|decode - x|^power`` on the unit domain for each position, in the shape of `units`.

    Infinite beyond the range of a float. Raises `ParameterError` for a power that is not positive and finite.
    """
    power = checked_real("power", power, above=0)

    def error(part: FloatArray, law: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.asarray(np.einsum("ij,ij->i", law, _distance(mechanism, part) ** power))

    return _of_laws(error, mechanism, units)


def worst_error(mechanism: _Sampled, power: float) -> float:
    """Return the largest ``E|y - x|^power`` of a report on the unit domain.

    On a circle, all steps between nodes are alike. On an interval, the error of the background falls from the
    ends to the middle, and the error of the window is the same in all steps except the first ones. So it is
    enough to evaluate the ends, the quarters of the first steps, and a few inputs in other steps.
    """
    if mechanism.domain.circular:
        units = np.linspace(0.0, 1.0, 17) / mechanism.kernel.nodes
    else:
        near = mechanism.node_units(np.arange(33.0) / 4.0)
        units = np.concatenate([near, 1.0 - near, np.linspace(0.0, 1.0, 33)]).clip(0.0, 1.0)
    return float(expected_errors(mechanism, units, power).max())


def means(mechanism: _Sampled, units: FloatArray) -> FloatArray:
    """Return the mean of the decoded report on the unit domain for each position.

    On a circle, it is the mean direction, in [0, 1), or the input itself if the first moment vanishes.
    """
    return _of_laws(lambda part, law: _mean(mechanism, part, law), mechanism, units)


def _mean(mechanism: _Sampled, units: FloatArray, law: FloatArray) -> FloatArray:
    decoded = mechanism.code_units()
    if not mechanism.domain.circular:
        return np.asarray(law @ decoded)
    moment = law @ np.exp(2j * np.pi * decoded)
    direction = np.angle(moment) / (2 * np.pi) % 1.0
    direction[direction >= 1.0] = 0.0
    return np.where(np.abs(moment) > 1e-12, direction, units)


def variances(mechanism: _Sampled, units: FloatArray) -> FloatArray:
    """Return the mean squared distance of the decoded report from its mean, on the unit domain.

    Infinite beyond the range of a float.
    """

    def variance(part: FloatArray, law: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            squares = _distance(mechanism, _mean(mechanism, part, law)) ** 2
            return np.asarray(np.einsum("ij,ij->i", law, squares))

    return _of_laws(variance, mechanism, units)


def _distance(mechanism: _Sampled, units: FloatArray) -> FloatArray:
    distance: FloatArray = np.abs(mechanism.code_units() - units[:, None])
    if mechanism.domain.circular:
        distance %= 1.0
        distance = np.minimum(distance, 1.0 - distance)
    return distance


def _of_laws(
    function: Callable[[FloatArray, FloatArray], FloatArray], mechanism: _Sampled, units: FloatArray
) -> FloatArray:
    """Apply a function to positions, shape (n,), and their distributions; restore the shape of `units`."""
    flat = np.ravel(units)
    size = max(1, _BLOCK // mechanism.kernel.codes)
    blocks = [flat[start : start + size] for start in range(0, flat.size, size)] or [np.empty(0)]
    found = np.concatenate([function(block, laws(mechanism, block)) for block in blocks])
    return found.reshape(np.shape(units))
