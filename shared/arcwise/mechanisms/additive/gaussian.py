"""Gaussian noise as a local mechanism on a grid: the least sigma whose table keeps (epsilon, delta)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from arcwise.kernels.certificate import check_epsilon
from arcwise.mechanisms.additive.base import ApproximateAdditive
from arcwise.mechanisms.additive.grid import fit_grid, most_margin
from arcwise.mechanisms.window import check_interval, lattice_nodes

if TYPE_CHECKING:
    from arcwise.domains import Interval
    from arcwise.mechanisms.additive.grid import Tail


class GaussianMechanism(ApproximateAdditive):
    """The Gaussian mechanism on a grid, clamped, with the analytic calibration; (epsilon, delta)-LDP.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0 to 20.
    delta
        More than 0, less than 1; what `certificate` shows is at most this, and close to it.
    nodes
        N, from 2 to 330. The default is the largest of 65, 33, 17, 9, 5, 3, 2 whose table takes less than
        200 kB in a task.
    reach
        How far the codes extend beyond either end of the interval, in its lengths, rounded to grid steps.
        The default covers the noise up to a tail of 1e-4, and no more than weights of 2**31 allow. The rest
        is clamped into the end codes, which ends unbiasedness; a small reach allows a smaller sigma.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or the table would be too large.
    CertificateError
        When the integers do not keep delta.

    Notes
    -----
    Balle and Wang (ICML 2018, Theorem 8): delta is the largest of
    ``P(noise <= x) - e^epsilon P(noise <= x - sensitivity)`` over all x. A table has only as many x as there
    are boundaries between codes: the largest over those is its delta, by the same proof. (The ratio of two
    rows is monotone in the code, for the continuous noise and so after rounding and clamping, so the codes
    that count are all codes up to some one; and moving the inputs apart only raises the difference.) Sigma
    is the root for this delta, a little less than without a grid.

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
        from arcwise.noise.checks import checked_delta

        epsilon, delta = check_epsilon(epsilon, least=0.0), checked_delta(delta, 1.0)
        nodes = lattice_nodes(check_interval(domain, type(self).__name__), nodes, otherwise=None)

        def build(inner: float) -> tuple[Tail, int, int]:
            noise, steps, margin = fit_grid(
                lambda steps: AnalyticGaussian(epsilon, inner, steps), nodes, reach, pure=False
            )
            while True:
                tail = _tail(_calibrated(epsilon, inner, steps, margin, enough=noise.sigma))
                allowed = max(0, most_margin(tail, steps, margin))
                if reach is not None or allowed == margin:
                    return tail, steps, margin
                margin = allowed  # fewer codes can only lower delta, and sigma with it

        self._spend(domain, epsilon, delta, build)


def _tail(sigma: float) -> Tail:
    import numpy as np
    from scipy import special

    return lambda x: np.asarray(special.ndtr(x / -sigma))


def _calibrated(epsilon: float, delta: float, steps: int, margin: int, *, enough: float) -> float:
    """Return a sigma in grid steps, hardly above `enough`, with which the table's delta is at most `delta`.

    `enough` is the sigma without a grid: no boundaries between codes can ask for more.
    """
    import numpy as np
    from scipy import optimize, special

    boundary = np.arange(-margin, steps + margin) + 0.5
    growth = math.exp(epsilon)

    def excess(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)
        gap = special.ndtr(boundary / sigma) - growth * special.ndtr((boundary - steps) / sigma)
        return float(gap.max()) - delta

    # A difference of two of ndtr is less precise than `enough`: a delta of 1e-12 has only four digits.
    high, step = math.log(enough) + 1e-6, 1e-6
    while excess(high) > 0.0:
        step *= 2.0
        high += step
    low = high - 1.0
    while excess(low) <= 0.0:
        low -= 1.0
    root = float(optimize.brentq(excess, low, high, xtol=1e-14, rtol=1e-14))
    step = 1e-14
    while excess(root) > 0.0:  # end on the private side
        root += step
        step *= 2.0
    return math.exp(root)
