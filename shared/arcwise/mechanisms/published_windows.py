"""Published mechanisms that sample from a window: PM and its family, SW, randomised response and Duchi's."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from arcwise.kernels.certificate import check_epsilon
from arcwise.mechanisms.closed_forms.finite import randomized_response_nodes
from arcwise.mechanisms.closed_forms.piecewise import (
    PiecewiseMember,
    piecewise_parameter,
    square_wave_half_window,
)
from arcwise.mechanisms.grids import fitted_nodes
from arcwise.mechanisms.window import WindowMechanism, check_interval

if TYPE_CHECKING:
    from arcwise.domains import Interval
    from arcwise.typing import FloatArray


class Piecewise(WindowMechanism):
    """The Piecewise Mechanism (PM) of Wang et al. (ICDE 2019): unbiased, for means and distributions.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    nodes
        The number N of nodes, from 2 to 32,768. The default is a number near 128 at which the window is close
        to a whole number of codes. This keeps the worst-case variance within 1 % of that of the continuous
        mechanism up to epsilon 8.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    The kernel is an inset window with the share 1/(s+1) of the codes, s = e^(epsilon/2)
    (`closed_forms.piecewise`). The integers are those of `OptimalPiecewise` with the inset placement and the
    same nodes, since the two mechanisms differ by an affine map of their output. `PiecewiseOpt` needs fewer
    reports for the same error.

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
    """The member of the family of PM."""

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


class SquareWave(WindowMechanism):
    """The Square Wave mechanism (SW) of Li et al. (SIGMOD 2020), designed for distributions.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    nodes
        The number N of nodes, from 2 to 32,768. The default is a number, at least about 85, at which the
        window is close to a whole number of codes. This keeps the squared error within 1 % of that of the
        continuous mechanism up to epsilon 8.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    The kernel is an inset window with the share 2b/(1+2b) of the codes (`closed_forms.piecewise`). `decode`
    returns the output of the paper's mechanism, a number in [-b, 1+b] of the unit interval around the value.
    Averages of this output are biased; `unbiased_units` corrects the bias.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = SquareWave(Interval(0, 100), epsilon=1.0)
    >>> round(mechanism.expected_error(50), 1), mechanism.unbiased
    (28.6, False)
    """

    __slots__ = ()

    name: ClassVar[str] = "square-wave"
    version: ClassVar[int] = 1

    def __init__(self, domain: Interval, epsilon: float, *, nodes: int | None = None) -> None:
        domain, epsilon = check_interval(domain, type(self).__name__), check_epsilon(epsilon)
        b = square_wave_half_window(epsilon)
        share = 2 * b / (1 + 2 * b)
        self._fit(domain, epsilon, share, nodes=nodes, otherwise=fitted_nodes(share))

    @property
    def unbiased(self) -> bool:
        """False: `decode` returns the output itself."""
        return False

    def code_units(self) -> FloatArray:
        """Return the centres of the cells of [-b, 1+b] on the unit interval.

        The window of node s covers the codes s to s+W-1 and its centre is the node's place s/(N-1). So code j
        is at ``(j + 1/2 - W/2) / (N-1)``, and the grid's b is W/2 steps.
        """
        import numpy as np

        kernel = self.kernel
        units: FloatArray = (np.arange(kernel.codes) + 0.5 - kernel.window / 2) / (kernel.nodes - 1)
        return units


class _OneCode(WindowMechanism):
    """A mechanism with a window of one code."""

    __slots__ = ()

    @property
    def default_goal(self) -> str:
        """The goal "mean"."""
        return "mean"


class RandomizedResponse(_OneCode):
    """k-ary (generalised) randomised response on k nodes (Kairouz, Oh and Viswanath, JMLR 2016).

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    nodes
        The number k of nodes, from 2 to 32,768. The default is the k with the least worst-case variance over
        all inputs, including the rounding to nodes. It is 2 up to epsilon 1 (then the mechanism is `Duchi`),
        3 at epsilon 2, 5 at epsilon 4, and 17 at epsilon 8.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    The kernel is a window of one code. A value is rounded stochastically to one of the k nodes, and `decode`
    is affine, so means are exactly unbiased. `closed_forms.finite` has the variance.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = RandomizedResponse(Interval(0, 100), epsilon=1.0)
    >>> round(mechanism.variance(50) ** 0.5, 1)  # the standard deviation of one report
    108.2
    """

    __slots__ = ()

    name: ClassVar[str] = "randomized-response"
    version: ClassVar[int] = 1

    def __init__(self, domain: Interval, epsilon: float, *, nodes: int | None = None) -> None:
        domain, epsilon = check_interval(domain, type(self).__name__), check_epsilon(epsilon)
        self._fit(domain, epsilon, 0.0, nodes=nodes, otherwise=randomized_response_nodes(epsilon))


class Duchi(_OneCode):
    """One bit with a probability that is affine in the value (Duchi, Jordan and Wainwright, JASA 2018).

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    This is randomised response on the two ends. The value is first rounded to one end so that the mean is
    preserved. Stochastic rounding between two nodes is the mechanism's own formula, so the kernel is exact,
    without a grid error. The reports reveal the mean of a distribution and nothing else. Up to epsilon 0.6 no
    other published mechanism has a smaller worst-case variance (`closed_forms.published.best_mixture`).

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = Duchi(Interval(0, 100), epsilon=1.0)
    >>> round(mechanism.variance(50) ** 0.5, 1)  # the standard deviation of one report
    108.2
    """

    __slots__ = ()

    name: ClassVar[str] = "duchi"
    version: ClassVar[int] = 1

    def __init__(self, domain: Interval, epsilon: float) -> None:
        domain, epsilon = check_interval(domain, type(self).__name__), check_epsilon(epsilon)
        self._fit(domain, epsilon, 0.0, nodes=2)
