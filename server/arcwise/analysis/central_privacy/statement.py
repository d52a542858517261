"""The central certificate: what somebody learns who sees what was released and computed from counts alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy.optimize import brentq

from arcwise.analysis.central_privacy.blanket import blanket_of
from arcwise.analysis.central_privacy.composition import log_delta_of_renyi, renyi_divergences
from arcwise.analysis.threads import one_thread
from arcwise.checks import checked_integer, checked_real, explained
from arcwise.digits import rounded_up
from arcwise.errors import ParameterError
from arcwise.kernels.base import Kernel
from arcwise.kernels.certificate import EPSILON_MAX
from arcwise.tasks.central import LEAST_DELTA, MOST_RELEASES, MOST_REPORTS
from arcwise.tasks.task import Task

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.analysis.central_privacy.blanket import Blanket
    from arcwise.typing import FloatArray

_STEP = 1e-5
"""An epsilon is found to so many parts of itself, and rounded up by them."""

_TRIES = 16
"""Pairs of nodes that are looked at where the pair that dominates all may be beyond the worst one."""


@dataclass(frozen=True)
class CentralPrivacy:
    """What counts reveal: (epsilon, delta), and what was assumed. `str` says it in words.

    Attributes
    ----------
    epsilon, delta
        An upper bound: the released counts are (epsilon, delta)-indistinguishable when one device's value is
        replaced by another.
    n
        Reports in a release, honest ones and others.
    honest
        The share of them that an adversary neither sent nor knows.
    reports_each
        At most so many of a release are one device's.
    releases
        At most so many releases hold reports of one device, each of them randomised afresh.
    local
        The epsilon of one report against everybody, infinite where some weight is 0.
    """

    epsilon: float
    delta: float
    n: int
    honest: float
    reports_each: int
    releases: int
    local: float

    def __str__(self) -> str:
        releases = "one release" if self.releases == 1 else f"{self.releases:,} releases together"
        each = "one report" if self.reports_each == 1 else f"at most {self.reports_each} reports"
        honest = "" if self.honest == 1 else f", {self.honest:.4g} of them from others than the reader"
        return (
            f"Who sees the counts of {releases} alone, each of at least {self.n:,} reports{honest} and "
            f"{each} of a device: epsilon = {rounded_up(self.epsilon, 3)}, "
            f"delta = {rounded_up(self.delta, 3)}. "
            f"Who sees a report: epsilon = {rounded_up(self.local, 4)} for each."
        )


@one_thread()
@explained
def central(
    task: Task | Kernel,
    n: int,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    honest: float = 1.0,
    reports_each: int = 1,
    releases: int = 1,
) -> CentralPrivacy:
    """Return what the counts of `n` reports reveal about one device, as an upper bound.

    It holds against whoever sees counts, and anything computed from them, but no single report: for an
    attacker who sees reports, or the server's store, only the local epsilon holds.

    Parameters
    ----------
    task
        A task, or a kernel.
    n
        Reports in each release, at least; from 1 to 10^12. More reports reveal less.
    delta
        The delta at which to bound epsilon, from 1e-200 to below 1. Either this or `epsilon` must be given.
    epsilon
        The epsilon at which to bound delta, at least 0.
    honest
        The share of the n reports that the attacker neither sent nor knows, above 0 and at most 1. Nobody can
        check it.
    reports_each
        How many reports of a release one device sends at most.
    releases
        How many releases hold reports of one device, at most; each report must be randomised afresh.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or not exactly one of `delta` and `epsilon` is given.

    Notes
    -----
    The privacy blanket (Balle, Bell, Gascon and Nissim, 2019), with sums that do not grow with n; several
    releases by Renyi divergences; several reports of one device as a group. Never more than the sum of the
    device's local charges.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> task = Task("age", Interval(0, 100), 1.0)
    >>> found = central(task, 10_000, delta=1e-8)
    >>> round(found.epsilon, 3), found.local <= 1.0
    (0.052, True)
    >>> central(task, 10_000, epsilon=0.1).delta < 1e-20
    True
    """
    kernel = _kernel_of(task)
    n = checked_integer("n", n, 1, MOST_REPORTS)
    honest = checked_real("honest", honest, above=0, most=1)
    reports_each = checked_integer("reports_each", reports_each, 1, n)
    releases = checked_integer("releases", releases, 1, MOST_RELEASES)
    local = _local(task)
    counted = max(1, math.floor(n * honest))
    spent = local * reports_each * releases
    curve = _Curve(blanket_of(kernel), counted, local, releases)

    def group(size: float) -> float:
        """Return by how much the logarithm of delta grows from one report of a device to all of a release."""
        if reports_each == 1:
            return 0.0
        if size == 0:
            return math.log(reports_each)
        return reports_each * size + math.log(math.expm1(-reports_each * size) / math.expm1(-size)) - size

    if (delta is None) == (epsilon is None):
        raise ParameterError("give either delta or epsilon: the other one is what is found")
    if epsilon is not None:
        epsilon = checked_real("epsilon", epsilon, least=0)
        each = epsilon / reports_each
        found = math.exp(min(0.0, curve.log_delta(each) + group(each))) if epsilon < spent else 0.0
        return CentralPrivacy(epsilon, found, n, honest, reports_each, releases, local)
    delta = checked_real("delta", delta, least=LEAST_DELTA, below=1)
    each = curve.epsilon(math.log(delta), group)
    return CentralPrivacy(min(reports_each * each, spent), delta, n, honest, reports_each, releases, local)


@one_thread()
@explained
def central_witness(
    task: Task | Kernel, n: int, *, delta: float | None = None, epsilon: float | None = None
) -> float:
    """Return a lower bound of what one release of the counts of `n` reports reveals, from a data set.

    All other devices have one value, far from both values of device 1, and their reports are fresh. What the
    certificate gives lies above it; how far says how much of it is caution.

    Parameters
    ----------
    task, n, delta, epsilon
        As of `central`.

    Returns
    -------
    float
        The epsilon at this delta, or the delta at this epsilon; 0 where the data set shows nothing.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or not exactly one of `delta` and `epsilon` is given.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> task = Task("age", Interval(0, 100), 1.0)
    >>> below, above = central_witness(task, 10_000, delta=1e-8), central(task, 10_000, delta=1e-8).epsilon
    >>> below <= above <= 1.01 * below
    True
    """
    kernel = _kernel_of(task)
    n = checked_integer("n", n, 1, MOST_REPORTS)
    blanket = blanket_of(kernel)
    if (delta is None) == (epsilon is None):
        raise ParameterError("give either delta or epsilon: the other one is what is found")
    if epsilon is not None:
        return math.exp(blanket.log_delta_below(checked_real("epsilon", epsilon, least=0), n))
    target = math.log(checked_real("delta", delta, least=LEAST_DELTA, below=1))
    local = _local(task)
    most = local if math.isfinite(local) else EPSILON_MAX
    low, _ = _root(lambda size: blanket.log_delta_below(size, n) - target, most)
    return low


class _Curve:
    """The logarithm of delta by epsilon, of all releases together, for one report of a device in each."""

    def __init__(self, blanket: Blanket, n: int, local: float, releases: int) -> None:
        self._blanket = blanket
        self._n = n
        self._local = local
        self._releases = releases
        self._divergences: FloatArray | None = None

    def log_delta(self, epsilon: float) -> float:
        """Return an upper bound."""
        added = self._single(epsilon / self._releases) + math.log(self._releases)
        return min(added, self._composed(epsilon))

    def epsilon(self, target: float, group: Callable[[float], float]) -> float:
        """Return the least epsilon, but for rounding, at which ``log_delta + group`` is at most `target`."""
        most = self._local if math.isfinite(self._local) else EPSILON_MAX
        releases = self._releases

        def excess(size: float) -> float:
            return self._single(size) + math.log(releases) + group(releases * size) - target

        def composed_excess(size: float) -> float:
            return self._composed(size) + group(size) - target

        added = releases * _root(excess, most)[1]
        if math.isinf(self._local) and excess(most) > 0:
            added = math.inf
        if releases == 1 or added == 0:
            return added
        return min(added, _root(composed_excess, releases * most)[1])

    def _single(self, epsilon: float) -> float:
        """Return that of one release."""
        if epsilon >= self._local:
            return -math.inf
        return self._blanket.log_delta(epsilon, self._n, _TRIES)

    def _composed(self, epsilon: float) -> float:
        if self._releases == 1 or math.isinf(self._local):
            return math.inf
        if self._divergences is None:
            self._divergences = renyi_divergences(self._blanket, self._n, self._local)
        return log_delta_of_renyi(self._releases * self._divergences, epsilon)


def _root(excess: Callable[[float], float], most: float) -> tuple[float, float]:
    """Return two sizes between which a falling function crosses 0; it is at most 0 at the second one.

    The second one is `most` where there is none below.
    """
    if excess(0.0) <= 0:
        return 0.0, 0.0

    def bounded(size: float) -> float:
        return max(excess(size), -1e6)

    if bounded(most * (1 - _STEP)) > 0:
        return most * (1 - _STEP), most
    found = float(brentq(bounded, 0.0, most, xtol=1e-12, rtol=_STEP / 4))
    low, high, step = found, found, _STEP
    while excess(low) <= 0:
        low, step = low * (1 - step), 2 * step
    step = _STEP
    while high < most and excess(high) > 0:
        high, step = high * (1 + step), 2 * step
    return max(low, 0.0), min(high, most)


def _kernel_of(task: Task | Kernel) -> Kernel:
    if isinstance(task, Kernel):
        return task
    if isinstance(task, Task):
        return task.mechanism.kernel
    raise ParameterError(f"task must be a Task or a Kernel, got {type(task).__name__}")


def _local(task: Task | Kernel) -> float:
    """Return the epsilon of one report, rounded up, infinite where some weight is 0."""
    ratio = _kernel_of(task).ratio()
    if ratio is None:
        return math.inf
    spent = math.log1p(float(ratio - 1)) * (1 + 1e-15)  # the difference of two logarithms loses small ones
    return min(spent, task.epsilon) if isinstance(task, Task) else spent
