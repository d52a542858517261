"""Additive local mechanisms without a delta, on a grid and clamped, and bounded Laplace noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from arcwise.errors import ParameterError
from arcwise.kernels.certificate import check_epsilon
from arcwise.kernels.rounding import integer_rows
from arcwise.mechanisms.additive.base import LEAST, MOST_NODES, PureAdditive, code_positions, inner_epsilon
from arcwise.mechanisms.table import TableMechanism
from arcwise.mechanisms.window import check_interval, check_nodes, lattice_nodes

if TYPE_CHECKING:
    from arcwise.domains import Interval


class LaplaceMechanism(PureAdditive):
    """The Laplace mechanism on a grid, clamped.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    nodes
        The number N of nodes, from 2 to 330. The default is the largest of 65, 33, 17, 9, 5, 3, 2 for which
        the table takes less than 200 kB in a task.
    reach
        The distance by which the codes extend beyond either end of the interval, as a multiple of the
        interval's length. It is rounded to grid steps. With a reach of 0 ("Laplace + truncation") every
        report lies in the domain. The default covers the noise up to a tail of 1e-4 on either side. From
        epsilon 9 on it is smaller, so that no weight falls below 2**31.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or the reach would make a weight smaller than 2**31.

    Notes
    -----
    The rows are integrals of the Laplace density over the cells of the grid; its scale is ``(N-1) / epsilon``
    grid steps. This is the continuous mechanism (Dwork, McSherry, Nissim and Smith, TCC 2006), rounded to the
    grid. The tails are clamped into the end codes, which keeps epsilon but not unbiasedness. Near the ends of
    the interval the mean of a report is off by up to ``tail / (2 epsilon)`` of the interval's length, where
    ``tail`` is the tail probability at `reach`.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = LaplaceMechanism(Interval(0, 100), epsilon=1.0)
    >>> round(mechanism.variance(50) ** 0.5, 1)  # the standard deviation of one report
    141.4
    """

    __slots__ = ()

    name: ClassVar[str] = "laplace"
    version: ClassVar[int] = 1
    _noise: ClassVar[str] = "Laplace"


class GeometricMechanism(PureAdditive):
    """The geometric mechanism, clamped: at each grid step the mass falls by ``e^(-epsilon / (N-1))``.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    nodes, reach
        As in `LaplaceMechanism`.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or the reach would make a weight smaller than 2**31.

    Notes
    -----
    Noise of d grid steps has the probability ``P(d) = (1 - a) / (1 + a) a^|d|`` with
    ``a = e^(-epsilon / (N-1))`` (Ghosh, Roughgarden and Sundararajan, STOC 2009). Noise beyond the codes is
    clamped into the end codes. This is post-processing, so it keeps epsilon, but reports are biased: see
    `LaplaceMechanism`. With ``reach=0`` it is the truncated geometric mechanism of that paper.

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
    _noise: ClassVar[str] = "Geometric"


class _Optimal(PureAdditive):
    """The member of a family with the least ``E|noise|^power``."""

    __slots__ = ()

    def __init__(
        self,
        domain: Interval,
        epsilon: float,
        *,
        power: float = 1.0,
        nodes: int | None = None,
        reach: float | None = None,
    ) -> None:
        self._add(domain, epsilon, nodes, reach, power=power)


class StaircaseMechanism(_Optimal):
    """The staircase mechanism, rounded to a grid and clamped.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    power
        Positive; the staircase minimises ``E|noise|^power``.
    nodes, reach
        As in `LaplaceMechanism`.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or the reach would make a weight smaller than 2**31.

    Notes
    -----
    The rows are integrals of `arcwise.noise.Staircase` with the sensitivity N-1 over the cells of the grid
    (Geng and Viswanath, arXiv 1212.1186, Theorem 3). Staircase noise is the best of all noise that does not
    depend on the value. Clamping into the end codes keeps epsilon but not unbiasedness. If a step of the
    density ends inside a cell, the cell mixes two heights. The steps of `DiscreteStaircaseMechanism` end
    between cells.

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
    _noise: ClassVar[str] = "Staircase"


class DiscreteStaircaseMechanism(_Optimal):
    """The staircase mechanism on the integers of the grid, clamped.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    power
        Positive; the length r of the first step minimises ``E|noise|^power``.
    nodes, reach
        As in `LaplaceMechanism`.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or the reach would make a weight smaller than 2**31.

    Notes
    -----
    The noise is `arcwise.noise.DiscreteStaircase` with the sensitivity N-1 (Geng and Viswanath, arXiv
    1212.1186, section VI). It is the best of all noise on the integers that does not depend on the value.
    Clamping into the end codes keeps epsilon but not unbiasedness.

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
    _noise: ClassVar[str] = "DiscreteStaircase"


class BoundedLaplaceMechanism(TableMechanism):
    """Laplace noise conditioned on the report lying in the interval ("bounded Laplace"), on a grid.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    nodes
        The number of nodes and of codes (N = K), from 2 to 330. The default is 65, or on a lattice one node
        for each value. With 2 nodes the mechanism is randomised response between the ends.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or some weight would be smaller than 2**31.

    Notes
    -----
    For the input x, let the output y have the density ``e^(-theta |y - x|) / Z(x)`` on [0, 1], where Z(x)
    makes the mass 1. This is theta-LDP. At y = 0 the logarithm of the density falls with x at the rate
    ``theta + Z'/Z >= 0``. Since Z(0) = Z(1), it falls by theta from x = 0 to x = 1; at other y it changes by
    less. So renormalising costs no epsilon if the inputs span the whole interval, as in the local model.
    (Renormalising costs epsilon if the sensitivity is less than the length of the interval: Holohan,
    Antonatos, Braghin and Mac Aonghusa, "The bounded Laplace mechanism in differential privacy", 2018.)

    Here the density is integrated over the cells of the grid; the two end cells are half as wide. Integration
    lowers the ratio of an end code's probabilities for the inputs 0 and 1 to
    ``e^(theta (1 - 1 / (2 (N-1))))``, so ``theta = epsilon / (1 - 1 / (2 (N-1)))`` spends all of epsilon.
    Reports are biased towards the middle.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = BoundedLaplaceMechanism(Interval(0, 100), epsilon=1.0)
    >>> round(mechanism.expected_error(0), 1), round(mechanism.mean(0), 1)  # no report lies outside
    (41.7, 41.7)
    """

    __slots__ = ()

    name: ClassVar[str] = "bounded-laplace"
    version: ClassVar[int] = 1

    def __init__(self, domain: Interval, epsilon: float, *, nodes: int | None = None) -> None:
        import numpy as np

        nodes = lattice_nodes(check_interval(domain, type(self).__name__), nodes, otherwise=65)
        epsilon, steps = check_epsilon(epsilon), check_nodes(nodes, MOST_NODES) - 1
        rate = inner_epsilon(epsilon) / (steps - 0.5)
        node, code = np.arange(steps + 1)[:, None], np.arange(steps + 1)
        distance = np.abs(code - node)
        # In units of the peak's half cell, 1 - e^(-rate/2), which avoids differences of close numbers.
        half = np.exp(-rate * distance)  # the half cell on the far side of the code
        near = np.where(distance > 0, np.exp(-rate * (distance - 0.5)), 1.0)  # the half towards the node
        whole = half + near
        ends = (code == 0) | (code == steps)
        rows = np.where(ends, np.where(distance > 0, near, half), whole)
        rows /= rows.sum(axis=1, keepdims=True)
        if rows.min() < LEAST:
            raise ParameterError(
                f"nodes must be fewer at epsilon = {epsilon!r}, so that every weight is at least 2**31; "
                f"got {nodes!r}"
            )
        self._init(domain, epsilon, integer_rows(rows, epsilon), code_positions(steps, 0))
