"""Randomised response on a grid: the value's node with more probability than any other.

On two nodes it is the mechanism of Duchi, Jordan and Wainwright: one bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from arcwise.kernels.certificate import check_epsilon
from arcwise.mechanisms.closed_forms.finite import randomized_response_nodes
from arcwise.mechanisms.window import WindowMechanism, check_interval

if TYPE_CHECKING:
    from arcwise.domains import Interval


class _OneCode(WindowMechanism):
    """A mechanism whose window is one code."""

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
        k, from 2 to 32,768. None (default): the k with the least worst-case variance over all inputs, the
        rounding to nodes included; 2, which is `Duchi`, up to epsilon 1, 3 at 2, 5 at 4, 17 at 8.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    A window of one code. A value is rounded stochastically to one of the k nodes, and `decode` is affine, so
    means are exactly unbiased; `closed_forms.finite` has the variance.

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
    """One bit whose probability is affine in the value (Duchi, Jordan and Wainwright, JASA 2018).

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
    Randomised response on the two ends, to which the value is rounded so that its mean stays: stochastic
    rounding between two nodes is the mechanism's own formula, so the kernel is exact, without a grid error.
    It tells a mean and nothing else of a distribution. Up to epsilon 0.6 no other published mechanism has a
    smaller worst-case variance (`closed_forms.best_mixture`).

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
