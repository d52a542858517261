"""What a share of lying devices can do to estimates without being seen, by bounds; nothing is fitted here.

A liar can claim another input, and then randomise as everybody does: the reports are those of a population
that could exist, and no test can object. Or it can send codes of its choice: then there is a test, and what
stays below its threshold is bounded by a linear program.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy.optimize import linprog

from arcwise.errors import ParameterError
from arcwise.mechanisms.circular import CircularMechanism
from arcwise.server.estimators.direction import row_attenuation
from arcwise.server.estimators.refit import largest_probabilities
from arcwise.server.estimators.unbiasing import mean_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arcwise.kernels.base import Kernel
    from arcwise.mechanisms.base import Mechanism

    FloatArray: TypeAlias = NDArray[np.float64]

__all__ = ["Damage", "damage", "largest_shift"]

_LARGEST = 1 << 18
"""Weights up to which the linear program is worth its seconds."""

_DIRECTIONS = 12
"""Directions in which the moment of a circle is pushed; what lies between is bounded by the neighbours."""

_LEAST_ATTENUATION = 1e-9


@dataclass(frozen=True)
class Damage:
    """How far a share of liars among the reporting devices can move estimates.

    Attributes
    ----------
    share
        Of the reports that come from liars.
    estimate
        "mean", in the unit of the domain; or "moment": the first trigonometric moment, a number in the plane,
        whose length is the resultant length.
    lying
        The largest shift by lying about the input: attained, and seen by no test.
    sending
        A bound on the shift by sending codes whose expected residuals are all below the test's threshold; at
        least `lying`. None where the mechanism does not tell the estimate, or the kernel is too large.
    turn
        On a circle, how far the direction turns at most by lying, in the unit of the domain: half the period
        when liars can point it anywhere. None on an interval.
    """

    share: float
    estimate: str
    lying: float
    sending: float | None
    turn: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object with the attributes."""
        return asdict(self)

    def __str__(self) -> str:
        text = f"liars with {100 * self.share:.3g} % of the reports can move the {self.estimate} by "
        text += f"{self.lying:.4g}"
        if self.turn is not None:
            text += f", and the direction by {self.turn:.4g}"
        text += " by lying about their inputs"
        if self.sending is not None:
            text += f"; by no more than {self.sending:.4g} by sending codes below the threshold"
        return text


def damage(
    mechanism: Mechanism, nodes: FloatArray, share: float, *, reports: float, critical: float
) -> Damage:
    """Return what a share of liars can do to the mean, or on a circle to the first trigonometric moment.

    Parameters
    ----------
    mechanism
        On any domain.
    nodes
        Shape (N,): the distribution of the honest devices' nodes.
    share
        Of liars, more than 0 and less than 1.
    reports
        How many there are; the threshold in units of a share falls with their number.
    critical
        The largest standardised residual that the test lets pass.

    Raises
    ------
    ParameterError
        When `share` is out of its bounds.

    Notes
    -----
    With the share k an honest mean m becomes ``(1-k) m + k x``: it moves by ``k |x - m|``, never by more than
    k times the range. On a circle the moment moves by ``k |e^(ix) - Z| <= k (1 + R)``, with equality for the
    point opposite to Z, and turns by at most ``asin(k / ((1-k) R))``.
    """
    if not 0 < share < 1:
        raise ParameterError(f"share must lie between 0 and 1, got {share!r}")
    kernel = mechanism.kernel
    positions = mechanism.node_units(np.arange(kernel.nodes, dtype=np.float64))
    solvable = kernel.nodes * kernel.codes <= _LARGEST
    if isinstance(mechanism, CircularMechanism):
        period = mechanism.domain.period
        moment = complex(nodes @ np.exp(2j * math.pi * positions))
        length = min(abs(moment), 1.0)
        lying = share * (1.0 + length)
        pull = share / ((1 - share) * length) if length else math.inf
        turn = math.asin(pull) / (2 * math.pi) * period if pull < 1 else period / 2
        factor = row_attenuation(mechanism)
        if not solvable or kernel.codes < 3 or abs(factor) < _LEAST_ATTENUATION:
            return Damage(share, "moment", lying, None, turn)
        turns = np.exp(2j * math.pi * mechanism.code_units()) / factor
        angles = 2 * math.pi * np.arange(_DIRECTIONS) / _DIRECTIONS
        values = (turns * np.exp(-1j * angles)[:, None]).real
        shifts = [largest_shift(kernel, nodes, row, share, reports, critical) for row in values]
        # Any shift lies within half the spacing of one of the directions.
        sending = max(shifts) / math.cos(math.pi / _DIRECTIONS)
        return Damage(share, "moment", lying, max(sending, lying), turn)
    mean, length = float(nodes @ positions), mechanism.domain.length
    lying = share * max(mean, 1.0 - mean)
    if not solvable or mechanism.placement == "clamp":
        return Damage(share, "mean", lying * length, None)
    numbers = mean_numbers(mechanism, reports)
    sending = max(
        largest_shift(kernel, nodes, sign * numbers.values, share, reports, critical) for sign in (1.0, -1.0)
    )
    return Damage(share, "mean", lying * length, max(sending, lying) * length)


def largest_shift(  # noqa: PLR0917
    kernel: Kernel, nodes: FloatArray, values: FloatArray, share: float, reports: float, critical: float
) -> float:
    """Return a bound on how far liars can raise the average of `values` over the reports, and not be caught.

    Notes
    -----
    Honest reports have the distribution ``q = nodes P``. With liars all reports have some ``r >= (1-k) q``.
    The test lets r pass only if a population f exists whose residuals are at most z: ``n r_j <= n (f P)_j + z
    sqrt(n (f P)_j (1 - (f P)_j))``. The root is at most ``sqrt(p_j)``, p_j the code's largest probability, so
    the linear program

        maximise  values . (r - q)   over   r >= (1-k) q,  sum r = 1,  f on the simplex,
                                            r_j <= (f P)_j + z sqrt(p_j / n)

    bounds what is possible, whatever the liars send. With z = 0 it is exact for any number of reports: it is
    what is possible with reports whose law is that of a population.
    """
    rows = kernel.matrix()
    n, k = rows.shape
    law = nodes @ rows
    law = law / law.sum()
    slack = max(critical, 0.0) * np.sqrt(largest_probabilities(kernel) / reports)
    # The unknowns are the liars' codes l = r - (1-k) q and f. Scaled by the share, so that tolerances of the
    # solver are small beside the answer.
    scale = np.abs(values).max()
    solved = linprog(
        np.concatenate([-values / scale, np.zeros(n)]),
        A_ub=np.hstack([share * np.eye(k), -rows.T]),
        b_ub=slack - (1.0 - share) * law,
        A_eq=np.concatenate(
            [np.repeat([[1.0], [0.0]], k, axis=1), np.repeat([[0.0], [1.0]], n, axis=1)], axis=1
        ),
        b_eq=[1.0, 1.0],
        method="highs",
    )
    if solved.status != 0:
        raise ArithmeticError(f"the linear program of the liars was not solved: {solved.message}")
    return share * float(-solved.fun * scale - values @ law)
