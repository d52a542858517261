"""Goals of tasks, the best mechanism for each goal, and a check that the mechanism's grid is fine enough.

`warn_if_coarse` is for tasks made in Python, and needs only modules that a device has. The commands and
`plan` check every mechanism that has a closed form (`arcwise.analysis`).
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Final

from arcwise.digits import rounded_up
from arcwise.domains import Circle, Interval
from arcwise.errors import CertificateError, CoarseGridWarning, ParameterError, TaskError
from arcwise.kernels.window import WindowKernel

if TYPE_CHECKING:
    from typing import Literal

    from arcwise.domains import Domain
    from arcwise.mechanisms.base import Mechanism

_GOALS: Final = {Interval: ("distribution", "mean", "value"), Circle: ("direction", "distribution")}
_FINE_EPSILON: Final = 3.0
"""From this epsilon on, 10^4 reports (the number assumed by default) can use all codes of one byte."""

_BYTE: Final = 256
"""The number of codes that fit in one byte."""

_RESOLVED: Final = ((140.0, 256), (310.0, 512), (1500.0, 1024))
"""Pairs: a number of places, and the nodes to use if the reports distinguish at least this many places.
"""

_MOST_NODES: Final = 512
"""The largest number of nodes on an interval; with more, quantiles would take most of an estimate's time."""

_WIDE: Final = 9
"""For windows of at least this many codes, the grid's effect on the error is ignored. With a window of W
codes the grid adds about the share power / (3 W^2), less than 1 %; power is the power of the loss.
"""


def checked_goal(goal: str | None, domain: Domain, mechanism: Mechanism | None) -> str:
    """Return the given goal, or the default of the mechanism or the domain."""
    goals = _GOALS[type(domain)]
    if goal is None:
        return goals[0] if mechanism is None else mechanism.default_goal
    if goal not in goals:
        known = ", ".join(f'"{known}"' for known in goals)
        raise TaskError(f"goal on {type(domain).__name__} must be one of {known}; got {goal!r}")
    return goal


def mechanism_for(
    goal: str,
    domain: Domain,
    epsilon: float,
    expected_reports: int | None = None,
    *,
    nodes: int | None = None,
    power: float | None = None,
) -> Mechanism:
    """Return the mechanism that serves the goal of a task.

    `nodes` replaces the number of nodes that the goal selects. `power` is the power of the loss that the
    mechanism minimises, by default 1, for the goals "value" and "direction". Raises `TaskError` if only a
    solver can design the mechanism, or if a power is given for the goal "distribution", which does not
    minimise the loss of a single report.
    """
    if goal == "mean":
        raise TaskError(
            'goal "mean" needs a mechanism designed by a solver: make the task with '
            "`arcwise task new --goal mean`, or give it mechanism=arcwise.analysis.design.minimax(domain, "
            'epsilon); the default goal "distribution" gives an unbiased mean too'
        )
    if goal == "distribution" and power is not None:
        raise TaskError(
            f'power must be left out for the goal "distribution", got {power!r}: it is for the error of a '
            "single report"
        )
    # Imported here, because a task that is loaded names its mechanism and does not need these modules.
    from arcwise.mechanisms.closed_forms.optimal import distribution_width
    from arcwise.mechanisms.optimal import OptimalCircular, OptimalPiecewise

    # None means the mechanism's default, or a node for each value.
    if nodes is None and goal == "distribution" and not domain.discrete:
        nodes = _nodes(domain.circular, epsilon, expected_reports)
    power = 1.0 if power is None else power
    if domain.circular:
        width = distribution_width(epsilon) if goal == "distribution" else None
        return OptimalCircular(domain, epsilon, nodes=nodes, power=power, width=width)
    placement: Literal["clamp", "inset"] = "clamp" if goal == "value" else "inset"
    return OptimalPiecewise(domain, epsilon, placement=placement, nodes=nodes, power=power)


def _nodes(circular: bool, epsilon: float, expected_reports: int | None) -> int | None:
    """Return the number of nodes of a task for a distribution on a continuous domain; None means 128."""
    usual = None
    if epsilon >= _FINE_EPSILON:
        # As many nodes as one byte allows. An interval with N nodes and a window of W codes has N + W - 1
        # codes, and W is e^(-epsilon/2) times the N - 1 gaps between nodes, rounded.
        usual = _BYTE if circular else 1 + int((_BYTE - 1) / (1.0 + math.exp(-epsilon / 2)))
    if expected_reports is None:
        return usual
    resolved = places_resolved(epsilon, expected_reports)
    wanted = max((nodes for least, nodes in _RESOLVED if resolved >= least), default=0)
    if wanted <= _BYTE and usual is not None:
        return usual
    return (wanted if circular else min(wanted, _MOST_NODES)) or None


def places_resolved(epsilon: float, reports: float) -> float:
    """Return the number of places that reports for a distribution can distinguish.

    The number is 1 divided by the Wasserstein-1 distance between the estimated and the true distribution, on
    a sufficiently fine grid. The formula was fitted to measurements.
    """
    return 1.18 * math.exp(0.4 * epsilon) * math.pow(reports, 0.4)


def warn_if_coarse(mechanism: Mechanism, *, stacklevel: int) -> None:
    """Warn if OPM's worst error for a single value is more than 1.02 times its closed form.

    Only `OptimalCircular` and the clamped `OptimalPiecewise` without a lattice are checked. `stacklevel` is
    as for `warnings.warn`, counted from the caller.
    """
    kernel = mechanism.kernel
    if mechanism.lattice is not None or not isinstance(kernel, WindowKernel) or kernel.window >= _WIDE:
        return
    for power in (1.0, 2.0):
        closed = _closed_error(mechanism, power)
        if closed is not None:
            break
    else:
        return
    from arcwise.mechanisms.moments import TOO_COARSE, worst_error

    ratio = worst_error(mechanism, power) / closed
    if ratio > TOO_COARSE:
        warnings.warn(
            f"the grid of {kernel.nodes:,} nodes is coarse for epsilon {rounded_up(mechanism.epsilon)}: the "
            f"worst error is {ratio:.3g} times that of the mechanism without a grid; "
            "leave nodes out, or take more",
            CoarseGridWarning,
            stacklevel=stacklevel + 1,
        )


def _closed_error(mechanism: Mechanism, power: float) -> float | None:
    """Return OPM's error without a grid for this power; None if the mechanism is not OPM."""
    from arcwise.mechanisms.closed_forms.optimal import circle_expected_error, interval_expected_error
    from arcwise.mechanisms.optimal import OptimalCircular, OptimalPiecewise

    epsilon, nodes = mechanism.epsilon, mechanism.kernel.nodes
    same: Mechanism
    try:
        if isinstance(mechanism, OptimalCircular):
            same = OptimalCircular(mechanism.domain, epsilon, nodes=nodes, power=power)
            closed = circle_expected_error(epsilon, power)
        elif isinstance(mechanism, OptimalPiecewise) and mechanism.end_zones:
            same = OptimalPiecewise(mechanism.domain, epsilon, placement="clamp", nodes=nodes, power=power)
            closed = interval_expected_error(0.0, epsilon, power)
        else:
            return None
    except (ParameterError, CertificateError):  # the window for this power has no room on the grid
        return None
    return closed if same.kernel == mechanism.kernel else None
