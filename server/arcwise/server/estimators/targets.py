"""Whom an estimate speaks about: the population that devices were drawn from, or these devices alone.

Reports vary because devices differ and because each of them is random. An interval for the population has to
hold both; one for the values behind these very reports only the second, so it is narrower. The difference is
``Var(x)/n`` for a mean of x: little at a small epsilon, most of the interval at a large one.

Where devices draw k of the d tasks of a group, "users" are all devices of the group, and those who report a
task are a simple random sample of them, of the share s = k/d. The part of the values is ``(1-s) Var(x)/n``,
by the finite population correction: a variance is a mixture of the other two, s for that of these reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from arcwise.errors import ParameterError
from arcwise.server.estimators.rows import node_means
from arcwise.tasks.caps import real_or_nan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arcwise.kernels.base import Kernel

    FloatArray: TypeAlias = NDArray[np.float64]

__all__ = [
    "TARGETS",
    "Target",
    "Users",
    "check_sampled",
    "check_target",
    "device_variance",
    "source_of_error",
    "target_words",
    "whose",
]

T = TypeVar("T", float, "FloatArray")

Target: TypeAlias = Literal["population", "users"]

_NOT_THEIRS = (
    "not the population they were drawn from; intervals of the distribution, quantiles, shares and mode are "
    "the population's"
)
TARGETS = {
    "population": "the population that the reporting devices were drawn from",
    "users": f"the values behind these reports, {_NOT_THEIRS}",
}
"""In words, by name."""


def check_target(target: str) -> None:
    """Raise `ParameterError` unless the target is a name in `TARGETS`."""
    if target not in TARGETS:
        known = " or ".join(f'"{name}"' for name in TARGETS)
        raise ParameterError(f"target must be {known}, got {target!r}")


def check_sampled(sampled: object) -> float:
    """Return the share of the devices that was drawn, or raise `ParameterError`."""
    share = real_or_nan(sampled)
    if not 0 < share <= 1:
        raise ParameterError(f"sampled must be a share above 0 and up to 1, got {sampled!r}")
    return share


def target_words(target: Target, sampled: float = 1.0) -> str:
    """Return in words whom an estimate speaks about, where a share of the devices was drawn to report."""
    if target == "population" or sampled == 1.0:
        return TARGETS[target]
    return f"the values of all devices of the group, of which {sampled:.4g} drew this task, {_NOT_THEIRS}"


class Users(NamedTuple):
    """The users whom an interval is for, instead of the population that they were drawn from.

    Attributes
    ----------
    law
        Their fitted node distribution, shape (N,). It only weights the rows' variances.
    sampled
        The share of them that was drawn to report: 1 where all did.
    """

    law: FloatArray
    sampled: float = 1.0

    def mixed(self, devices: T, reports: T) -> T:
        """Return an average's variance, given that of the devices' randomness and that of the reports."""
        return self.sampled * devices + (1.0 - self.sampled) * reports


def whose(users: Users | None) -> str:
    """Return the note on whom an interval is for."""
    if users is None:
        return "of the population, not only of the devices that reported"
    if users.sampled < 1.0:
        return "of the group's devices, also those that drew other tasks, not of their population"
    return "of the devices that reported, not of the population they were drawn from"


def source_of_error(users: Users | None) -> str:
    """Return the name of the variance behind an interval, for the method of a result."""
    if users is None:
        return "reports' variance"
    return (
        "devices' randomness" if users.sampled == 1.0 else "devices' randomness and the sampling of devices"
    )


def device_variance(kernel: Kernel, values: FloatArray, law: FloatArray) -> float:
    """Return the variance of a number per code that the randomness of the devices makes, averaged over users.

    Parameters
    ----------
    kernel
        On an interval.
    values
        The number per code, shape (K,).
    law
        The fitted node distribution of the users, shape (N,). It only weights the rows' variances, so what
        its smoothing does to the result is small.

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
    return float(law @ (np.maximum(variances, 0.0) + rounding))
