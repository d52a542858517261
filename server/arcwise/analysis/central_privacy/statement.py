"""The central certificate: the information revealed to a reader of releases computed from counts alone.

For several releases, the Renyi divergences of a dominating pair are added. Several reports of one device are
treated as a group.

The largest delta over all pairs, as a function of E = e^epsilon, is convex and falling. So it is the curve of
a single pair of laws that dominates all pairs (Zhu, Dong and Wang, 2022, proposition 8), and dominating pairs
compose. The curve is the same in both directions, and the Renyi divergence R of the order alpha is given by

    e^((alpha - 1) R) = 1 + alpha (alpha - 1) I,
    I = integral from 1 to infinity of (E^(alpha - 2) + E^(-alpha - 1)) delta(E) dE.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq

from arcwise.analysis.central_privacy.blanket import blanket_of
from arcwise.analysis.central_privacy.inversion import ROUNDOFF, log_chernoff
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
"""Relative precision of a computed epsilon, by which it is rounded up."""

_TRIES = 16
"""How many pairs of nodes are examined if the dominating pair may be worse than every real pair."""

_ORDERS = np.unique(np.concatenate((1 + 2.0 ** np.arange(-4, 1, 0.25), np.geomspace(2, 2e6, 320))))
"""The orders at which divergences are added; the best order for a delta gives the epsilon."""

_POINTS, _POINTS_OF_PAIRS = 160, 80
"""Points of the curve, with chords between them; there are fewer if pairs of nodes are examined for each."""

_POINTS_APART = 0.01
_LEAST_LOG_DELTA = -120.0
_FEW_TRIES = 4
"""Number of pairs of nodes that are examined for a point of the curve, if the kernel has few pairs."""


@dataclass(frozen=True)
class CentralPrivacy:
    """The information that counts reveal: (epsilon, delta) and the assumptions. `str` puts it in words.

    Attributes
    ----------
    epsilon, delta
        An upper bound: the released counts are (epsilon, delta)-indistinguishable when one device's value is
        replaced by another.
    n
        The number of all reports in a release, honest or not.
    honest
        The share of these reports that an adversary neither sent nor knows.
    reports_each
        The most reports of one device in a release.
    releases
        The most releases with reports of one device, each randomised afresh.
    local
        The epsilon of one report against any reader; infinite if some weight of the kernel is 0.
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
            f"Reading only the counts of {releases}, each of at least {self.n:,} reports{honest} and "
            f"{each} per device: epsilon = {rounded_up(self.epsilon, 3)}, "
            f"delta = {rounded_up(self.delta, 3)}. "
            f"Reading single reports: epsilon = {rounded_up(self.local, 4)} for each."
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
    """Return an upper bound of the information that the counts of `n` reports reveal about one device.

    The bound holds against anyone who sees no single report, but only counts and anything computed from them.
    Against an attacker who sees single reports, or the server's store, only the local epsilon holds.

    Parameters
    ----------
    task
        A task, or a kernel.
    n
        The least number of reports in each release, from 1 to 10^12. More reports reveal less.
    delta
        The delta at which to bound epsilon, from 1e-200 to below 1. Either this or `epsilon` must be given.
    epsilon
        The epsilon at which to bound delta, at least 0.
    honest
        The share of the n reports that the attacker neither sent nor knows, above 0 and at most 1. It cannot
        be verified.
    reports_each
        The most reports that one device sends in a release.
    releases
        The most releases with reports of one device; each report must be randomised afresh.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or not exactly one of `delta` and `epsilon` is given.

    Notes
    -----
    The bound is that of the privacy blanket (Balle, Bell, Gascon and Nissim, 2019), with sums that do not get
    longer with n. Several releases are composed by Renyi divergences, and several reports of one device are
    treated as a group. The result never exceeds the sum of the device's local charges.

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
        """Return how much log delta grows from one report of a device to all its reports in a release."""
        if reports_each == 1:
            return 0.0
        if size == 0:
            return math.log(reports_each)
        return reports_each * size + math.log(math.expm1(-reports_each * size) / math.expm1(-size)) - size

    if (delta is None) == (epsilon is None):
        raise ParameterError("give either delta or epsilon: the other one is computed")
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
    """Return a lower bound of the information in one release of the counts of `n` reports, from a data set.

    In the data set all other devices have the same value, far from both values of device 1, and all reports
    are randomised afresh. The certificate lies above this bound; the gap between the two shows how much of
    the certificate is caution.

    Parameters
    ----------
    task, n, delta, epsilon
        As in `central`.

    Returns
    -------
    float
        The epsilon at this delta, or the delta at this epsilon; 0 if the data set shows nothing.

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
        raise ParameterError("give either delta or epsilon: the other one is computed")
    if epsilon is not None:
        return math.exp(blanket.log_delta_below(checked_real("epsilon", epsilon, least=0), n))
    target = math.log(checked_real("delta", delta, least=LEAST_DELTA, below=1))
    local = _local(task)
    most = local if math.isfinite(local) else EPSILON_MAX
    low, _ = _root(lambda size: blanket.log_delta_below(size, n) - target, most)
    return low


class _Curve:
    """The logarithm of delta by the value of epsilon, for all releases; a device has a report in each."""

    def __init__(self, blanket: Blanket, n: int, local: float, releases: int) -> None:
        self._blanket = blanket
        self._n = n
        self._local = local
        self._releases = releases
        self._divergences: FloatArray | None = None

    def log_delta(self, epsilon: float) -> float:
        """Return an upper bound at this epsilon."""
        added = self._single(epsilon / self._releases) + math.log(self._releases)
        return min(added, self._composed(epsilon))

    def epsilon(self, target: float, group: Callable[[float], float]) -> float:
        """Return the least epsilon, up to rounding, at which ``log_delta + group`` is at most `target`."""
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
        """Return the bound for one release."""
        if epsilon >= self._local:
            return -math.inf
        return self._blanket.log_delta(epsilon, self._n, _TRIES)

    def _composed(self, epsilon: float) -> float:
        if self._releases == 1 or math.isinf(self._local):
            return math.inf
        if self._divergences is None:
            self._divergences = _renyi_divergences(self._blanket, self._n, self._local)
        return _log_delta_of_renyi(self._releases * self._divergences, epsilon)


def _renyi_divergences(blanket: Blanket, n: int, local: float) -> FloatArray:
    """Return upper bounds of the Renyi divergences of one release, one for each of `_ORDERS`.

    `n` is the number of reports on which the bounds may rely. `local` is an epsilon from which on delta is 0;
    the kernel must not have a delta of its own.
    """
    tries = _FEW_TRIES if blanket.small() else 0
    low, high = 0.0, local
    while high - low > _POINTS_APART * high:  # the curve is negligible here, so further points are useless
        middle = (low + high) / 2
        if log_chernoff(*blanket.dominating(math.exp(middle)), n) - math.log(n) < _LEAST_LOG_DELTA:
            high = middle
        else:
            low = middle
    epsilons = np.linspace(0, high, _POINTS_OF_PAIRS if tries else _POINTS)
    curve = np.exp([min(0.0, blanket.log_delta(epsilon, n, tries)) for epsilon in epsilons.tolist()])
    curve = np.minimum.accumulate(curve)
    divergences = np.full(_ORDERS.size, np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        for place, order in enumerate(_ORDERS.tolist()):
            grown = _integral(epsilons, curve, order - 1) + _integral(epsilons, curve, -order)
            grown += curve[-1] * (_power(order - 1, high, local) + _power(-order, high, local))
            total = order * (order - 1) * grown
            if math.isfinite(total):
                divergences[place] = math.log1p(total) / (order - 1)
    bounded: FloatArray = np.minimum(divergences, local)
    return bounded


def _power(exponent: float, low: float, high: float) -> float:
    """Return the integral of ``e^(exponent x)`` over [low, high]."""
    if high <= low:
        return 0.0
    return float(np.exp(exponent * low) * np.expm1(exponent * (high - low)) / exponent)


def _integral(epsilons: FloatArray, curve: FloatArray, power: float) -> float:
    """Return an upper bound of the integral of ``e^(power x) delta(e^x)``, from chords of delta."""
    width = float(epsilons[1] - epsilons[0])
    span = math.expm1(width)
    # Integrals over a cell that begins at 0: of e^(power x), and of its product with the falling part of the
    # chord
    whole = np.expm1(power * width) / power
    more = np.expm1((power + 1) * width) / (power + 1) if power != -1 else width
    falling = (math.exp(width) * whole - more) / span
    cells = np.exp(power * epsilons[:-1])
    total = float(cells @ (curve[1:] * whole + (curve[:-1] - curve[1:]) * falling))
    return total * (1 + 64 * ROUNDOFF / width)


def _log_delta_of_renyi(divergences: FloatArray, epsilon: float) -> float:
    """Return the logarithm of the delta from these divergences (Canonne, Kamath and Steinke, 2020)."""
    found = (_ORDERS - 1) * (divergences - epsilon + np.log1p(-1 / _ORDERS)) - np.log(_ORDERS)
    return float(np.min(found[np.isfinite(found)], initial=0.0))


def _root(excess: Callable[[float], float], most: float) -> tuple[float, float]:
    """Return two sizes between which a falling function crosses 0; it is at most 0 at the second size.

    The second size is `most` if the function is positive at all smaller sizes.
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
    """Return the epsilon of one report, rounded up, infinite if some weight is 0."""
    ratio = _kernel_of(task).ratio()
    if ratio is None:
        return math.inf
    spent = math.log1p(float(ratio - 1)) * (1 + 1e-15)  # the difference of two logarithms loses small ones
    return min(spent, task.epsilon) if isinstance(task, Task) else spent
