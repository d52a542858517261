"""Whether the grid of a task's optimal piecewise mechanism is too coarse for its epsilon.

The commands and `plan` say so of every mechanism that has a closed form, and how many nodes are enough
(`arcwise.analysis`). This is for tasks that are made in Python, and needs no more than a device has.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from arcwise.digits import rounded_up
from arcwise.errors import CertificateError, CoarseGridWarning, ParameterError
from arcwise.kernels.window import WindowKernel

if TYPE_CHECKING:
    from arcwise.mechanisms.base import Mechanism

_WIDE = 9
"""Codes of a window from which on the grid adds less than 1 %, about power / (3 W^2): nothing is computed."""


def warn_if_coarse(mechanism: Mechanism, *, stacklevel: int) -> None:
    """Warn if the worst error of OPM for a single value is more than 1.02 times that of its closed form.

    Only `OptimalCircular` and the clamped `OptimalPiecewise`, without a lattice, are checked. `stacklevel` is
    that of `warnings.warn`, counted from the caller.
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
    """Return the error without a grid of OPM for this power; None where the mechanism is not that."""
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
