"""The three-outputs mechanism: -K, 0 or K."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from arcwise.kernels.certificate import check_epsilon
from arcwise.kernels.rounding import integer_rows
from arcwise.mechanisms.closed_forms.finite import three_outputs_levels
from arcwise.mechanisms.table import TableMechanism
from arcwise.mechanisms.window import check_interval

if TYPE_CHECKING:
    from arcwise.domains import Interval

_NOTHING = 2.0**-33
"""A probability whose integer weight is below 2**31 is left out."""


class ThreeOutputs(TableMechanism):
    """The three-outputs mechanism of Zhao et al. (IEEE IoT Journal 2020), of least worst-case variance.

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
    Nodes at the ends and in the middle; the probabilities are affine between them by the mechanism's own
    formula, so the kernel is exact, without a grid error. Up to epsilon = log 2 the best probability of the
    middle output is 0 and it is left out: what remains is `Duchi`. Above log((3 + sqrt(65))/2) it is
    randomised response on three nodes.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = ThreeOutputs(Interval(0, 100), epsilon=1.0)
    >>> round(mechanism.variance(50) ** 0.5, 1)  # the standard deviation of one report
    102.2
    """

    __slots__ = ()

    name: ClassVar[str] = "three-outputs"
    version: ClassVar[int] = 1

    def __init__(self, domain: Interval, epsilon: float) -> None:
        domain, epsilon = check_interval(domain, type(self).__name__), check_epsilon(epsilon)
        a, outer, reach = three_outputs_levels(epsilon)
        at_end = a * math.exp(-epsilon)
        if at_end < _NOTHING:
            a, outer, at_end, reach = 0.0, 1.0, 0.0, 1 / math.tanh(epsilon / 2)
        # At an end the two outer outputs share 1 - a/E in the proportion of E to 1.
        near = (1 - at_end) / (1 + math.exp(-epsilon))
        far = (1 - at_end) / (1 + math.exp(epsilon))
        rows = [[near, at_end, far], [outer / 2, a, outer / 2], [far, at_end, near]]
        units = [(1 - reach) / 2, 0.5, (1 + reach) / 2]
        if not a:
            rows, units = [[row[0], row[2]] for row in rows], [units[0], units[2]]
        self._init(domain, epsilon, integer_rows(rows, epsilon), units)
