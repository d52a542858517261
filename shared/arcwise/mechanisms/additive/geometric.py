"""Geometric noise as a local mechanism on a grid."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from arcwise.kernels.certificate import check_epsilon
from arcwise.mechanisms.additive.base import PureAdditive, inner_epsilon

if TYPE_CHECKING:
    from arcwise.domains import Interval


class GeometricMechanism(PureAdditive):
    """The geometric mechanism, clamped: at each grid step the mass falls by ``e^(-epsilon / (N-1))``.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    nodes, reach
        As of `LaplaceMechanism`.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or the reach would make a weight smaller than 2**31.

    Notes
    -----
    ``P(d) = (1 - a) / (1 + a) a^|d|`` with ``a = e^(-epsilon / (N-1))`` (Ghosh, Roughgarden and
    Sundararajan, STOC 2009). Clamped into the end codes, which keeps epsilon and ends unbiasedness: as a
    post-processing, see `LaplaceMechanism`. With ``reach=0`` it is the truncated geometric mechanism of that
    paper.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = GeometricMechanism(Interval(0, 100), epsilon=1.0)
    >>> round(mechanism.variance(50) ** 0.5, 1)  # the standard deviation of one report
    141.4
    """

    __slots__ = ()

    name: ClassVar[str] = "geometric"
    version: ClassVar[int] = 1

    def __init__(
        self, domain: Interval, epsilon: float, *, nodes: int | None = None, reach: float | None = None
    ) -> None:
        from arcwise.noise import Geometric

        epsilon = check_epsilon(epsilon)
        inner = inner_epsilon(epsilon)
        self._add(domain, epsilon, lambda steps: Geometric(inner, steps), nodes=nodes, reach=reach)
