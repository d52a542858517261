"""Additive local mechanisms with a delta, on a grid: Gaussian noise and two kinds of bounded noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, TypeVar

from arcwise.kernels.certificate import check_epsilon
from arcwise.mechanisms.additive.base import LEAST, ApproximateAdditive, inner_epsilon, most_margin

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.domains import Interval
    from arcwise.mechanisms.additive.base import Tail
    from arcwise.noise import AnalyticGaussian, TruncatedLaplace, UniformAtom

_Bounded = TypeVar("_Bounded", "TruncatedLaplace", "UniformAtom")


class GaussianMechanism(ApproximateAdditive):
    """The Gaussian mechanism on a grid, clamped, with the analytic calibration; it is (epsilon, delta)-LDP.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0 to 20.
    delta
        More than 0, less than 1. The delta of `certificate` is at most this, and close to it.
    nodes
        The number N of nodes, from 2 to 330. The default is the largest of 65, 33, 17, 9, 5, 3, 2 for which
        the table takes less than 200 kB in a task.
    reach
        The distance by which the codes extend beyond either end of the interval, as a multiple of the
        interval's length. It is rounded to grid steps. The default covers the noise up to a tail of 1e-4 on
        either side. It is smaller if a weight would otherwise fall below 2**31. Noise beyond the codes is
        clamped into the end codes, so reports are biased. A small reach allows a smaller sigma.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or the table would be too large.
    CertificateError
        When the exact delta of the integers exceeds `delta`.

    Notes
    -----
    Balle and Wang (ICML 2018, Theorem 8): delta is the largest of
    ``P(noise <= x) - e^epsilon P(noise <= x - sensitivity)`` over all x. In a table, x can only be a boundary
    between codes. By the same proof, the delta of the table is the largest value over these boundaries. (The
    ratio of two rows is monotone in the code for the continuous noise, and therefore also after rounding and
    clamping. So the worst set of codes consists of all codes up to some code. Moving the inputs farther apart
    can only raise delta.) Sigma is the value at which this delta is the requested one. It is slightly less
    than without a grid.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = GaussianMechanism(Interval(0, 100), epsilon=1.0, delta=1e-6)
    >>> round(mechanism.variance(50) ** 0.5, 1)  # the standard deviation of one report
    417.4
    """

    __slots__ = ()

    name: ClassVar[str] = "gaussian"
    version: ClassVar[int] = 1

    def __init__(
        self,
        domain: Interval,
        epsilon: float,
        delta: float,
        *,
        nodes: int | None = None,
        reach: float | None = None,
    ) -> None:
        from arcwise.noise import AnalyticGaussian
        from arcwise.noise.base import checked_delta

        epsilon, delta = check_epsilon(epsilon, least=0.0), checked_delta(delta, 1.0)

        def calibrated(noise: AnalyticGaussian, steps: int, margin: int) -> tuple[Tail, int]:
            while True:
                tail = _tail(_calibrated(noise, steps, margin))
                allowed = max(0, most_margin(tail, steps, margin))
                if reach is not None or allowed == margin:
                    return tail, margin
                margin = allowed  # fewer codes can only lower delta, and therefore sigma

        def noise(inner: float, steps: int) -> AnalyticGaussian:
            return AnalyticGaussian(epsilon, inner, steps)

        self._spend(domain, epsilon, delta, noise, nodes=nodes, reach=reach, calibrated=calibrated)


def _tail(sigma: float) -> Tail:
    import numpy as np
    from scipy import special

    return lambda x: np.asarray(special.ndtr(x / -sigma))


def _calibrated(noise: AnalyticGaussian, steps: int, margin: int) -> float:
    """Return a sigma, in grid steps, with which the table keeps its delta.

    It is at most slightly above the noise's own sigma.

    Without a grid the noise's own sigma is enough. With a grid, x is limited to the boundaries between codes,
    which cannot require a larger sigma.
    """
    import numpy as np
    from scipy import optimize, special

    boundary = np.arange(-margin, steps + margin) + 0.5
    growth = math.exp(noise.epsilon)

    def excess(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)
        gap = special.ndtr(boundary / sigma) - growth * special.ndtr((boundary - steps) / sigma)
        return float(gap.max()) - noise.delta

    # A difference of two values of ndtr is less precise than `sigma`: a delta of 1e-12 has only four digits.
    high, step = math.log(noise.sigma) + 1e-6, 1e-6
    while excess(high) > 0.0:
        step *= 2.0
        high += step
    low = high - 1.0
    while excess(low) <= 0.0:
        low -= 1.0
    root = float(optimize.brentq(excess, low, high, xtol=1e-14, rtol=1e-14))
    step = 1e-14
    while excess(root) > 0.0:  # end on the private side of the root
        root += step
        step *= 2.0
    return math.exp(root)


class TruncatedLaplaceMechanism(ApproximateAdditive):
    """The truncated Laplacian mechanism on a grid; it is (epsilon, delta)-LDP.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    delta
        More than 0, at most 1/2. The delta of `certificate` is at most this, and close to it.
    nodes
        The number N of nodes, from 2 to 330. The default is the largest of 65, 33, 17, 9, 5, 3, 2 for which
        the table takes less than 200 kB in a task.
    reach
        The distance by which the codes extend beyond either end of the interval, as a multiple of the
        interval's length. It is rounded to grid steps. By default the codes cover all of the noise: nothing
        is clamped, and a decoded report is unbiased. With a smaller reach, noise beyond the codes is clamped
        into the end codes. This keeps delta, but reports are then biased.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or the table would be too large.
    CertificateError
        When the exact delta of the integers exceeds `delta`.

    Notes
    -----
    The rows are integrals of `arcwise.noise.TruncatedLaplace` with the sensitivity N-1 over the cells of the
    grid (Geng, Ding, Guo and Kumar, arXiv 1810.00877, Theorem 1). Rounding to the grid does not change delta.
    Take two inputs at the largest distance, N-1 steps. For one input, the mass of a cell exceeds e^epsilon
    times its mass for the other input only in the last N-1 steps of the first input's noise. These steps have
    the mass delta, regardless of how they are divided into cells.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = TruncatedLaplaceMechanism(Interval(0, 100), epsilon=1.0, delta=1e-6)
    >>> round(mechanism.variance(50) ** 0.5, 1)  # the standard deviation of one report
    141.4
    """

    __slots__ = ()

    name: ClassVar[str] = "truncated-laplace"
    version: ClassVar[int] = 1

    def __init__(
        self,
        domain: Interval,
        epsilon: float,
        delta: float,
        *,
        nodes: int | None = None,
        reach: float | None = None,
    ) -> None:
        from arcwise.noise import TruncatedLaplace
        from arcwise.noise.base import checked_delta

        epsilon, delta = check_epsilon(epsilon), checked_delta(delta, 0.5)
        own = inner_epsilon(epsilon)  # so that rounding lets only the last cells exceed e^epsilon

        def lengthened(noise: TruncatedLaplace, last: float) -> TruncatedLaplace:
            # With end = e^(-A / scale): sf(last) = (start - end) / (1 - end) / 2.
            start = math.exp(-last / noise.scale)
            end = (start - 2.0 * LEAST) / (1.0 - 2.0 * LEAST)
            if end < start * math.exp(-1.0 / noise.scale):  # even a whole end cell weighs less than 2**31
                return noise
            # And delta = (e^epsilon - 1) / (1 / end - 1) / 2.
            return TruncatedLaplace(own, math.expm1(own) / 2.0 * (end / (1.0 - end)), noise.sensitivity)

        def noise(inner: float, steps: int) -> TruncatedLaplace:
            return _whole_cells(TruncatedLaplace(own, inner, steps), lengthened)

        self._spend(domain, epsilon, delta, noise, nodes=nodes, reach=reach)


class UniformAtomMechanism(ApproximateAdditive):
    """The optimal (0, delta)-LDP additive mechanism on a grid, with epsilon 0.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    delta
        More than 0, less than 1. The delta of `certificate` is at most this, and close to it.
    power
        Positive; the atom minimises ``E|noise|^power``.
    nodes
        The number N of nodes, from 2 to 330. The default is the largest of 65, 33, 17, 9, 5, 3, 2 for which
        the table takes less than 200 kB in a task.
    reach
        The distance by which the codes extend beyond either end of the interval, as a multiple of the
        interval's length. It is rounded to grid steps. By default the codes cover all of the noise: nothing
        is clamped, and a decoded report is unbiased. Without an atom, the codes then extend ``1 / (2 delta)``
        lengths beyond either end. With a smaller reach, noise beyond the codes is clamped into the end codes.
        This keeps delta, but reports are then biased.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or the table would be too large. Without a `reach`, a delta
        below 1.4e-4 needs ``nodes=2``. A delta below 2.8e-5 needs a `reach`.
    CertificateError
        When the exact delta of the integers exceeds `delta`.

    Notes
    -----
    The rows are integrals of `arcwise.noise.UniformAtom` with the sensitivity N-1 over the cells of the grid
    (Geng, Ding, Guo and Kumar, arXiv 1809.10224, Theorem 3). The rows of two inputs at the largest distance
    differ by the mass of N-1 cells around the middle. This mass is delta, so rounding to the grid does not
    change delta.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = UniformAtomMechanism(Interval(0, 100), delta=0.1)
    >>> print(mechanism.certificate())
    epsilon = 0, delta = 0.1: exactly 1844674405509549640 / 2**64, rounded up (checked in rational arithmetic)
    """

    __slots__ = ()

    name: ClassVar[str] = "uniform-atom"
    version: ClassVar[int] = 1

    def __init__(
        self,
        domain: Interval,
        delta: float,
        *,
        power: float = 1.0,
        nodes: int | None = None,
        reach: float | None = None,
    ) -> None:
        from arcwise.noise import UniformAtom
        from arcwise.noise.base import checked_delta

        def lengthened(noise: UniformAtom, last: float) -> UniformAtom:
            # sf(last) = (1 - alpha) (h - last) / (2 h), and delta = alpha + (1 - alpha) steps / (2 h).
            alpha, steps = noise.alpha, noise.sensitivity
            half = (1.0 - alpha) * last / (1.0 - alpha - 2.0 * LEAST)
            return UniformAtom(alpha + (1.0 - alpha) * steps / (2.0 * half), steps, alpha)

        def noise(inner: float, steps: int) -> UniformAtom:
            return _whole_cells(UniformAtom.optimal(inner, steps, power=power), lengthened)

        self._spend(domain, 0.0, checked_delta(delta, 1.0), noise, nodes=nodes, reach=reach)


def _whole_cells(noise: _Bounded, lengthened: Callable[[_Bounded, float], _Bounded]) -> _Bounded:
    """Return noise with the same delta, or slightly less, and enough weight in the last cell at either end.

    If the last cell would have a weight below 2**31, `lengthened` returns noise in which the last cell has
    the weight 2**31. The second argument of `lengthened` is the position where the last cell begins.
    """
    last = math.ceil(noise.half_support - 0.5) - 0.5
    return noise if noise.sf(last) >= LEAST else lengthened(noise, last)
