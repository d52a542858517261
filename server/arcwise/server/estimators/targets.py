"""Whom an estimate speaks about: the population that devices were drawn from, or these devices alone.

Reports vary because devices differ and because each of them is random. An interval for the population has to
hold both; one for the values behind these very reports only the second, so it is narrower. The difference is
``Var(x)/n`` for a mean of x: little at a small epsilon, most of the interval at a large one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from arcwise.errors import ParameterError
from arcwise.server.estimators.rows import node_means

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arcwise.kernels.base import Kernel

    FloatArray: TypeAlias = NDArray[np.float64]

__all__ = ["TARGETS", "Target", "check_target", "device_variance", "whose"]

Target: TypeAlias = Literal["population", "users"]

TARGETS = {
    "population": "the population that the reporting devices were drawn from",
    "users": (
        "the values behind these reports, not the population they were drawn from; intervals of the "
        "distribution, quantiles, shares and mode are the population's"
    ),
}
"""In words, by name."""


def check_target(target: str) -> None:
    """Raise `ParameterError` unless the target is a name in `TARGETS`."""
    if target not in TARGETS:
        known = " or ".join(f'"{name}"' for name in TARGETS)
        raise ParameterError(f"target must be {known}, got {target!r}")


def whose(users: FloatArray | None) -> str:
    """Return the note on whom an interval is for."""
    if users is None:
        return "of the population, not only of the devices that reported"
    return "of the devices that reported, not of the population they were drawn from"


def device_variance(kernel: Kernel, values: FloatArray, users: FloatArray) -> float:
    """Return the variance of a number per code that the randomness of the devices makes, averaged over users.

    Parameters
    ----------
    kernel
        On an interval.
    values
        The number per code, shape (K,).
    users
        The fitted node distribution, shape (N,). It only weights the rows' variances, so what its smoothing
        does to the result is small.

    Notes
    -----
    Of an input at a node it is the variance of its row. In between, rounding up or down by chance adds
    ``t (1-t)`` times the squared difference of the two rows' means: a quarter of it at most, which is added.
    """
    centred = values - values.mean()  # a large common part would cancel below, and leave its rounding error
    means = node_means(kernel, centred)
    variances = node_means(kernel, centred**2) - means**2
    steps = np.diff(means) ** 2
    rounding = np.maximum(np.append(steps, 0.0), np.append(0.0, steps)) / 4
    return float(users @ (np.maximum(variances, 0.0) + rounding))
