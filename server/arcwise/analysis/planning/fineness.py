"""The error that a grid adds to a mechanism with a closed form, and the number of nodes that is enough.

The integers sample a mechanism on N nodes; the closed form describes the same mechanism on the real line. At
a large epsilon, the window of the closed form is narrower than a code of a usual grid.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from arcwise.analysis.likelihood.linear_maps import node_means
from arcwise.analysis.planning.mean import worst_variance
from arcwise.errors import CertificateError, ParameterError
from arcwise.kernels.base import MAX_CODES
from arcwise.mechanisms import (
    OptimalCircular,
    OptimalPiecewise,
    Piecewise,
    PiecewiseTransformation,
    Purkayastha,
    SquareWave,
    UnbiasedOptimalPiecewise,
    VonMises,
)
from arcwise.mechanisms.closed_forms.directional import purkayastha, von_mises
from arcwise.mechanisms.closed_forms.optimal import (
    circle_expected_error,
    distribution_width,
    interval_expected_error,
    optimal_levels,
)
from arcwise.mechanisms.closed_forms.piecewise import (
    piecewise_parameter,
    piecewise_worst_variance,
    square_wave_expected_error,
    square_wave_half_window,
    transformation_worst_variance,
    unbiased_optimal_worst_variance,
)
from arcwise.mechanisms.moments import TOO_COARSE, worst_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from arcwise.kernels.base import Kernel
    from arcwise.mechanisms import Mechanism

_POWERS = (1.0, 2.0)
"""Exponents of the loss to try for a window, if the caller does not give the exponent."""

_WIDER, _DOUBLINGS = 8, 6
"""Numbers of finer grids to try: windows with up to 8 more codes, or up to 6 doublings of the nodes."""

_MOST_OF_A_TABLE = 1024
_VARIANCE = "the worst variance of a report"


class Fineness(NamedTuple):
    """The worst error of one report on a grid and of the closed form, on the unit domain."""

    what: str
    """The name of the error, in words."""
    nodes: int
    grid: float
    """The largest error over all inputs."""
    closed: float
    """The same error without a grid."""
    enough: int | None
    """The fewest nodes found with at most 1.02 times the error of the closed form.

    None if the grid itself meets this bound, or if no such number was found.
    """

    @property
    def ratio(self) -> float:
        """The grid's error divided by the error of the closed form."""
        return self.grid / self.closed

    def warning(self) -> str:
        """Return a warning for users; it is empty if the ratio is at most 1.02."""
        if self.ratio <= TOO_COARSE:
            return ""
        advice = f"; {self.enough:,} nodes are enough: --nodes {self.enough}" if self.enough else ""
        return (
            f"the grid of {self.nodes:,} nodes is coarse for this epsilon: {self.what} is {self.ratio:.3g} "
            f"times that of the mechanism without a grid{advice}"
        )


class _Form(NamedTuple):
    """A mechanism with a closed form: its error, how to measure it on a grid, its grids, its window."""

    what: str
    closed: Callable[[], float]
    measure: Callable[[Mechanism], float]
    make: Callable[..., Mechanism]
    share: float | None = None
    """Width of the window without a grid, as a share of the codes; None for a table."""


def fineness(mechanism: Mechanism, *, power: float | None = None) -> Fineness | None:
    """Return the worst errors of a mechanism on its grid and without one, or None if it has no closed form.

    The closed form must give the mechanism's integers on the same number of nodes. `power` is the exponent of
    the loss for which the window is optimal. If it is None, 1 and 2 are tried. If the domain has a step, the
    result is None, because the values themselves are the grid.
    """
    if mechanism.lattice is not None:
        return None
    nodes = mechanism.kernel.nodes
    for form in _forms(mechanism, power):
        try:
            same = form.make(nodes=nodes).kernel == mechanism.kernel
        except (ParameterError, CertificateError):
            continue
        if same:
            closed, grid = form.closed(), form.measure(mechanism)
            coarse = grid > TOO_COARSE * closed
            return Fineness(
                form.what, nodes, grid, closed, _enough(mechanism, form, closed) if coarse else None
            )
    return None


def worst_unit_variance(mechanism: Mechanism) -> float:
    """Return the largest variance of a decoded report at any value, for an interval of length 1.

    The mechanism must be unbiased.
    """
    numbers = mechanism.code_units() - 0.5
    first, second = node_means(mechanism.kernel, numbers), node_means(mechanism.kernel, numbers**2)
    return worst_variance(first, second, "users", rounds=mechanism.rounds)


def _forms(mechanism: Mechanism, power: float | None) -> Iterator[_Form]:
    """Yield the closed forms that a mechanism may have, each with the grids that sample it."""
    epsilon, cls = mechanism.epsilon, cast("Any", type(mechanism))
    make = partial(cls, mechanism.domain, epsilon)
    powers = _POWERS if power is None else (power,)

    def window(k: float) -> float:
        return 2.0 * optimal_levels(epsilon, k).half_window

    if isinstance(mechanism, OptimalCircular):
        for k in powers:
            closed = partial(circle_expected_error, epsilon, k)
            yield _of_error(f"the error {_loss('d(y, x)', k)}", closed, partial(make, power=k), window(k), k)
        width = distribution_width(epsilon)
        closed = partial(_error_of_width, width, epsilon)
        yield _of_error("the error d(y, x)", closed, partial(make, width=width), width)
    elif isinstance(mechanism, OptimalPiecewise) and mechanism.end_zones:
        for k in powers:
            closed = partial(interval_expected_error, 0.0, epsilon, k)
            clamped = partial(make, placement="clamp", power=k)
            yield _of_error(f"the worst error {_loss('|y - x|', k)}", closed, clamped, window(k), k)
    elif isinstance(mechanism, OptimalPiecewise):
        for k in powers:
            yield _of_window(window(k), epsilon, partial(make, power=k))
    elif isinstance(mechanism, Piecewise):
        yield _of_window(1.0 / (piecewise_parameter(epsilon, mechanism.member) + 1.0), epsilon, make)
    elif isinstance(mechanism, UnbiasedOptimalPiecewise):  # also true for a PiecewiseTransformation
        closed = partial(unbiased_optimal_worst_variance, epsilon)
        yield _Form(_VARIANCE, closed, worst_unit_variance, make)
    elif isinstance(mechanism, PiecewiseTransformation):
        closed = partial(transformation_worst_variance, epsilon)
        yield _Form(_VARIANCE, closed, worst_unit_variance, make)
    elif isinstance(mechanism, SquareWave):
        b = square_wave_half_window(epsilon)
        share = 2.0 * b / (1.0 + 2.0 * b)
        worst = partial(square_wave_expected_error, 0.0, epsilon)
        yield _of_error("the worst error |y - x|", lambda: float(worst()), make, share)
    elif isinstance(mechanism, VonMises):
        moments = purkayastha if isinstance(mechanism, Purkayastha) else von_mises
        yield _of_error("the error d(y, x)", lambda: moments(epsilon).abs_angle / (2.0 * math.pi), make)


def _of_error(
    what: str,
    closed: Callable[[], float],
    make: Callable[..., Mechanism],
    share: float | None = None,
    power: float = 1.0,
) -> _Form:
    return _Form(what, closed, partial(worst_error, power=power), make, share)


def _of_window(share: float, epsilon: float, make: Callable[..., Mechanism]) -> _Form:
    """Return the form of an inset window: the closed form of its worst-case variance, and its grids."""
    closed = partial(piecewise_worst_variance, epsilon, s=1.0 / share - 1.0)
    return _Form(_VARIANCE, closed, worst_unit_variance, make, share)


def _loss(distance: str, power: float) -> str:
    return distance if power == 1.0 else f"{distance}^{power:g}"


def _error_of_width(width: float, epsilon: float) -> float:
    """Return ``E d(y, x)`` of a window of any width around the value, on a circle of circumference 1."""
    growth = math.expm1(epsilon)
    q = 1.0 / (1.0 + width * growth)
    return q * (1.0 + growth * width**2) / 4.0


def _enough(mechanism: Mechanism, form: _Form, closed: float) -> int | None:
    """Return the fewest nodes, among some finer grids, with an error near that of the closed form."""
    for nodes in _finer(mechanism.kernel, form.share):
        try:
            finer = form.make(nodes=nodes)
        except (ParameterError, CertificateError):
            return None
        if form.measure(finer) <= TOO_COARSE * closed:
            return nodes
    return None


def _finer(kernel: Kernel, share: float | None) -> Iterator[int]:
    """Yield increasing numbers of nodes; for a window, only those at which it has whole codes."""
    if share is None:
        yield from (n for k in range(1, _DOUBLINGS) if (n := kernel.nodes * 2**k) <= _MOST_OF_A_TABLE)
        return
    first = max(1, math.ceil(share * kernel.codes))
    for window in range(first, first + _WIDER):
        codes = round(window / share)
        nodes = codes if kernel.circular else codes - window + 1
        if nodes > kernel.nodes and codes <= MAX_CODES:
            yield nodes
