"""The Piecewise Mechanism and two members of its family with another window: PM, PM-SUB, PM-OPT."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from arcwise.kernels.certificate import check_epsilon
from arcwise.mechanisms.closed_forms.piecewise import PiecewiseMember, piecewise_parameter
from arcwise.mechanisms.grids import fitted_nodes
from arcwise.mechanisms.window import WindowMechanism, check_interval

if TYPE_CHECKING:
    from arcwise.domains import Interval


class Piecewise(WindowMechanism):
    """The Piecewise Mechanism (PM) of Wang et al. (ICDE 2019): unbiased, for means and distributions.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    nodes
        N, from 2 to 32,768. None (default): near 128, such that the window is a whole number of codes, which
        keeps the worst-case variance within 1 % of the continuous mechanism's up to epsilon 8.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    An inset window with the share 1/(s+1) of the codes, s = e^(epsilon/2) (`closed_forms.piecewise`). These
    are the integers of `OptimalPiecewise` with the inset placement and the same nodes: the two mechanisms
    differ by an affine map of their output. `PiecewiseOpt` needs fewer reports for the same error.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = Piecewise(Interval(0, 100), epsilon=1.0)
    >>> round(mechanism.variance(50) ** 0.5, 1)  # the standard deviation of one report
    95.9
    """

    __slots__ = ()

    name: ClassVar[str] = "piecewise"
    version: ClassVar[int] = 1
    member: ClassVar[PiecewiseMember] = "pm"
    """Which member of the family it is."""

    def __init__(self, domain: Interval, epsilon: float, *, nodes: int | None = None) -> None:
        domain, epsilon = check_interval(domain, type(self).__name__), check_epsilon(epsilon)
        share = 1 / (piecewise_parameter(epsilon, self.member) + 1)
        self._fit(domain, epsilon, share, nodes=nodes, otherwise=fitted_nodes(share))


class PiecewiseSub(Piecewise):
    """PM-SUB of Zhao et al. (IEEE IoT Journal 2020): `Piecewise` with s = e^(epsilon/3).

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = PiecewiseSub(Interval(0, 100), epsilon=1.0)
    >>> round(mechanism.variance(50) ** 0.5, 1)  # the standard deviation of one report
    96.0
    """

    __slots__ = ()

    name: ClassVar[str] = "piecewise-sub"
    member: ClassVar[PiecewiseMember] = "pm-sub"


class PiecewiseOpt(Piecewise):
    """PM-OPT of Zhao et al. (IEEE IoT Journal 2020): `Piecewise` with the s of least worst-case variance.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = PiecewiseOpt(Interval(0, 100), epsilon=1.0)
    >>> round(mechanism.variance(50) ** 0.5, 1)  # the standard deviation of one report
    96.6
    """

    __slots__ = ()

    name: ClassVar[str] = "piecewise-opt"
    member: ClassVar[PiecewiseMember] = "pm-opt"
