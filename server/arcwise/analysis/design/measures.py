"""Measures of designs: the worst case of a mechanism, and a lower bound for every mechanism."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from arcwise.analysis.design.bound import interval_bound
from arcwise.analysis.design.circle import CircularLoss, circle_bound, circle_worst
from arcwise.analysis.design.request import check_goal
from arcwise.analysis.design.worst import (
    mixture_maximum,
    node_losses,
    row_curves,
    row_pieces,
    variance_peaks,
)
from arcwise.analysis.threads import one_thread
from arcwise.errors import ParameterError
from arcwise.kernels.certificate import check_epsilon

if TYPE_CHECKING:
    from arcwise.domains import Domain
    from arcwise.mechanisms.base import Mechanism

_LARGEST = 12.0


@one_thread()
def worst_case(mechanism: Mechanism, *, goal: str | None = None, power: float | None = None) -> float:
    """Return the largest expected loss of a table or circulant mechanism over *all* inputs of its domain.

    The loss is computed from the integer rows, and includes stochastic rounding between nodes. If the domain
    has a step and its values need no rounding, the inputs are these values. The default goal is "mean" on an
    interval and "direction" on a circle; `goal` and `power` are as for `minimax`.

    For "mean" the result is in the squared unit of the domain, and for "value" in this unit to the given
    power. For "direction" it is 1 - rho_1.
    """
    domain = mechanism.domain
    chosen = goal if goal is not None else "direction" if domain.circular else "mean"
    exponent = check_goal(domain, chosen, power)
    if mechanism.kind not in ("table", "circulant"):
        raise ParameterError(f"mechanism must have a table or a turned row, got the kind {mechanism.kind!r}")
    if domain.circular:
        row = mechanism.kernel.probabilities([0])[0]
        worst = circle_worst(row, CircularLoss(exponent), rounds=mechanism.rounds)
        return worst * _unit(domain.length, exponent or 0.0)
    if chosen == "mean" and not mechanism.unbiased:
        raise ParameterError('mechanism must be unbiased for the goal "mean", got a biased one')
    rows = mechanism.kernel.matrix()
    outputs = 2.0 * mechanism.code_units() - 1.0
    loss = exponent or 1.0
    if not mechanism.rounds:
        worst = float(node_losses(rows, outputs, loss).max())
    elif chosen == "mean":
        worst = float(variance_peaks(rows @ outputs**2).value.max())
    else:
        pieces = row_pieces(len(rows), outputs, loss, len(rows) - 1)
        worst = mixture_maximum(row_curves(rows, outputs, loss), *pieces)
    return worst * _unit(domain.length / 2.0, loss)


@one_thread()
def lower_bound(
    domain: Domain,
    epsilon: float,
    goal: str = "mean",
    *,
    power: float | None = None,
    inputs: int | None = None,
) -> float:
    """Return a lower bound on the worst case of *every* epsilon-LDP mechanism for a goal, as for `minimax`.

    On an interval, the bound is the least worst case at finitely many inputs, with outputs anywhere. It comes
    from a dual certificate (`arcwise.analysis.design.bound`), which is valid regardless of the solver's
    answer. With more inputs, the bound rises towards the least worst case. On an interval with a step, the
    inputs are its values, and the bound is the least worst case up to the solver's tolerance. On a circle,
    the bound is the least worst case itself.

    On an interval, epsilon is at most 12; at a larger epsilon, the certificate's numbers span more than the
    solver can distinguish. `inputs` is odd and at least 5. The default is 65 above epsilon 5 (for "value"
    from epsilon 3 on), and 33 otherwise. Leave `inputs` out if the domain has a step. The interval must then
    have an odd number of values. No bound is available for a circle with a step. The result is in the unit of
    `worst_case`.
    """
    number = check_epsilon(epsilon)
    exponent = check_goal(domain, goal, power)
    if domain.discrete:
        if domain.circular or domain.rounding == "stochastic":
            raise ParameterError(
                f"domain must be an Interval with other rounding for a bound, got {domain!r}"
            )
        if inputs is not None:
            raise ParameterError(f"inputs must be left out if the domain has a step, got {inputs!r}")
        inputs = domain.size or 0
        if inputs < 5 or inputs % 2 == 0:
            raise ParameterError(
                f"domain must have an odd number of values, at least 5, for a bound, got {inputs}"
            )
    if domain.circular:
        return circle_bound(number, CircularLoss(exponent)) * _unit(domain.length, exponent or 0.0)
    if number > _LARGEST:
        raise ParameterError(f"epsilon must be at most {_LARGEST:g} for a bound on Interval, got {number!r}")
    if inputs is None:
        inputs = 65 if number > 5 or (goal == "value" and number >= 3) else 33
    if type(inputs) is not int or inputs < 5 or inputs % 2 == 0:
        raise ParameterError(f"inputs must be an odd integer of at least 5, got {inputs!r}")
    loss = exponent or 1.0
    return interval_bound(number, loss, inputs, unbiased=goal == "mean") * _unit(domain.length / 2.0, loss)


def _unit(length: float, exponent: float) -> float:
    """Return ``length ** exponent``, the unit of a loss; infinite if it is too large for a float."""
    try:
        return float(length**exponent)
    except OverflowError:
        return math.inf
