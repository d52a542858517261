"""Staircase noise as local mechanisms on a grid: the continuous staircase and the one on the integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from arcwise.kernels.certificate import check_epsilon
from arcwise.mechanisms.additive.base import PureAdditive, inner_epsilon

if TYPE_CHECKING:
    from arcwise.domains import Interval


class StaircaseMechanism(PureAdditive):
    """The staircase mechanism, rounded to a grid and clamped.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    power
        The staircase is the one with the least ``E|noise|^power``, positive.
    nodes, reach
        As of `LaplaceMechanism`.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or the reach would make a weight smaller than 2**31.

    Notes
    -----
    The rows are integrals of `arcwise.noise.Staircase` with the sensitivity N-1 over the cells of the grid
    (Geng and Viswanath, arXiv 1212.1186, Theorem 3): of all noise that is added to a value without a look at
    it, the best. Clamping into the end codes keeps epsilon and ends unbiasedness. A step that ends inside a
    cell is blurred over it; `DiscreteStaircaseMechanism` has its steps between the cells.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = StaircaseMechanism(Interval(0, 100), epsilon=1.0)
    >>> round(mechanism.variance(50) ** 0.5, 1)  # the standard deviation of one report
    138.5
    """

    __slots__ = ()

    name: ClassVar[str] = "staircase"
    version: ClassVar[int] = 1

    def __init__(
        self,
        domain: Interval,
        epsilon: float,
        *,
        power: float = 1.0,
        nodes: int | None = None,
        reach: float | None = None,
    ) -> None:
        from arcwise.noise import Staircase, optimal_gamma

        epsilon = check_epsilon(epsilon)
        inner = inner_epsilon(epsilon)
        gamma = optimal_gamma(inner, power)
        self._add(domain, epsilon, lambda steps: Staircase(inner, steps, gamma), nodes=nodes, reach=reach)


class DiscreteStaircaseMechanism(PureAdditive):
    """The staircase mechanism on the integers of the grid, clamped.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    power
        The length r of the first step is the one with the least ``E|noise|^power``, positive.
    nodes, reach
        As of `LaplaceMechanism`.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or the reach would make a weight smaller than 2**31.

    Notes
    -----
    `arcwise.noise.DiscreteStaircase` with the sensitivity N-1 (Geng and Viswanath, arXiv 1212.1186,
    section VI): the best of all noise on the integers that is added without a look at the value. Clamping
    into the end codes keeps epsilon and ends unbiasedness.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = DiscreteStaircaseMechanism(Interval(0, 100), epsilon=1.0)
    >>> round(mechanism.variance(50) ** 0.5, 1)  # the standard deviation of one report
    138.5
    """

    __slots__ = ()

    name: ClassVar[str] = "discrete-staircase"
    version: ClassVar[int] = 1

    def __init__(
        self,
        domain: Interval,
        epsilon: float,
        *,
        power: float = 1.0,
        nodes: int | None = None,
        reach: float | None = None,
    ) -> None:
        from arcwise.noise import DiscreteStaircase

        epsilon = check_epsilon(epsilon)
        inner = inner_epsilon(epsilon)
        self._add(
            domain,
            epsilon,
            lambda steps: DiscreteStaircase.optimal(inner, steps, power=power),
            nodes=nodes,
            reach=reach,
        )
