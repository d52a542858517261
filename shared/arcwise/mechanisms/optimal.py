"""The optimal 3-piece mechanism on an interval and on a circle (OPM), as integer window kernels.

Only the constructors need the closed forms, so a device that gets its integers with a task does not load
them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from arcwise.checks import checked_real
from arcwise.errors import ParameterError
from arcwise.kernels.base import MAX_CODES
from arcwise.kernels.certificate import UNIT, check_epsilon
from arcwise.kernels.window import WindowKernel
from arcwise.mechanisms.circular import CircularMechanism, check_circle
from arcwise.mechanisms.window import (
    DEFAULT_NODES,
    WindowMechanism,
    check_interval,
    check_nodes,
    lattice_nodes,
    window_to_fields,
)

if TYPE_CHECKING:
    from arcwise.domains import Circle, Domain, Interval
    from arcwise.typing import FloatArray


class OptimalPiecewise(WindowMechanism):
    """The 3-piece mechanism on an interval: the Piecewise Mechanism (default), or the clamped optimum.

    "inset" is the Piecewise Mechanism of Wang et al. (ICDE 2019). "clamp" is the optimum of Zheng, Mishra and
    Hu (PETS 2025), which has the least error of a single report among piecewise densities.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    placement
        "inset" (default): the window's start moves from the first code to the last possible one as the value
        moves from low to high, so every value has its own distribution and `decode` is unbiased. "clamp": the
        window is centred on the value and pushed inside at the ends. This has the least worst-case error of a
        single report among the paper's densities, which are those on the domain that vary by at most a factor
        e^epsilon. (Other mechanisms, such as designed tables, have a smaller error: see `arcwise compare`.)
        It makes all values within C of an end indistinguishable, so no estimator can recover a mean or a
        distribution there.
    nodes
        The number N of nodes, from 2 to 32,768. The default is 128 for "inset", and `grids.optimal_nodes` for
        "clamp". For `power` 1, the latter is 128 up to epsilon 6.2. At a larger epsilon, it is the number of
        nodes that keeps the error within 2 % of the closed form, at most 16,384. On a lattice there is one
        node for each value (for "clamp", one code for each value), and no other number is accepted.
    power
        The exponent, at least 1, of the loss ``|y-x|^power`` for which the window is optimal.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    ``W = max(1, round((N-1) * 2C / (1-2C)))`` and ``K = N + W - 1``, with C of `optimal_levels`. For power 1,
    ``2C / (1-2C) = e^(-epsilon/2)``, W < N and K < 2N. With W/K = 2C the inset placement is the Piecewise
    Mechanism of Wang et al. (ICDE 2019).

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = OptimalPiecewise(Interval(0, 100), epsilon=1.0)
    >>> code = mechanism.randomize(42.0)
    >>> 0 <= code < mechanism.kernel.codes
    True
    """

    __slots__ = ()

    name: ClassVar[str] = "optimal-piecewise"
    version: ClassVar[int] = 1
    placements: ClassVar[tuple[str, ...]] = ("inset", "clamp")

    def __init__(
        self,
        domain: Interval,
        epsilon: float,
        *,
        placement: Literal["inset", "clamp"] = "inset",
        nodes: int | None = None,
        power: float = 1.0,
    ) -> None:
        from arcwise.mechanisms.closed_forms.optimal import optimal_levels
        from arcwise.mechanisms.grids import optimal_nodes

        domain, epsilon = check_interval(domain, type(self).__name__), check_epsilon(epsilon)
        share = 2.0 * optimal_levels(epsilon, power).half_window
        usual = optimal_nodes(share, power, circular=False) if placement == "clamp" else DEFAULT_NODES
        self._fit(domain, epsilon, share, placement=placement, nodes=nodes, otherwise=usual)


class OptimalCircular(CircularMechanism):
    """The optimal 3-piece mechanism on a circle, with a window centred on the value, modulo the period.

    Parameters
    ----------
    domain
        The `Circle` of the values.
    epsilon
        From 0.01 to 20.
    nodes
        The number of nodes and of codes (N = K), from 2 to 65,536. The default is `grids.optimal_nodes`, or
        128 with a `width`. For `power` 1, `grids.optimal_nodes` is 128 up to epsilon 6.2. At a larger
        epsilon, it is the number that keeps the error within 2 % of the closed form, which is possible up to
        epsilon 19.4. On a lattice there is one node for each value, and no other number is accepted.
    power
        The exponent, at least 1, of the loss ``d(y, x)^power`` for which the window is optimal.
    width
        The width of the window, as a share of the circle, between 0 and 1; by default the optimal one, 2 C. A
        task for a distribution uses `closed_forms.optimal.distribution_width`.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    ``W = max(1, round(width K))``, where the optimal width is 2 C with C of `optimal_levels`. The real-valued
    node of a position x is ``(K x - W/2) mod K``; code j is the cell from j/K to (j+1)/K of the circle. On a
    lattice of K values the node of the value k is ``(k - W // 2) mod K``. On a lattice, W is a number close
    to ``width K`` that is coprime to K. Otherwise the rows would be linearly dependent, and some
    distributions would be indistinguishable.

    Examples
    --------
    >>> from arcwise.domains import Circle
    >>> mechanism = OptimalCircular(Circle(360), epsilon=1.0)
    >>> code = mechanism.randomize(350.5)
    >>> 0 <= float(mechanism.decode(code)) < 360
    True
    >>> round(mechanism.attenuation(), 3)  # the resultant length of reports of one value
    0.307
    """

    __slots__ = ()

    name: ClassVar[str] = "optimal-circular"
    version: ClassVar[int] = 1
    kind: ClassVar[str] = "window"

    kernel: WindowKernel

    def __init__(
        self,
        domain: Circle,
        epsilon: float,
        *,
        nodes: int | None = None,
        power: float = 1.0,
        width: float | None = None,
    ) -> None:
        from arcwise.mechanisms.closed_forms.optimal import optimal_levels
        from arcwise.mechanisms.grids import optimal_nodes

        domain, epsilon = check_circle(domain, type(self).__name__), check_epsilon(epsilon)
        usual = DEFAULT_NODES
        if width is None:
            width = 2 * optimal_levels(epsilon, power).half_window
            usual = optimal_nodes(width, power, circular=True)
        else:
            width = checked_real("width", width, above=0, below=1, advice=", as a share of the circle")
        nodes = check_nodes(lattice_nodes(domain, nodes, otherwise=usual), MAX_CODES)
        best = width * nodes
        window = min(nodes - 1, max(1, round(best)))
        if domain.discrete:
            window = _coprime_window(nodes, best, epsilon, power)
        kernel = WindowKernel.fit(nodes=nodes, window=window, epsilon=epsilon, circular=True)
        self._init(domain, epsilon, kernel)

    def kernel_fields(self) -> list[Any]:
        """Return ``[K, N, W, b, g]``."""
        return window_to_fields(self.kernel)

    @classmethod
    def from_fields(
        cls, domain: Domain, epsilon: float, placement: str, fields: list[Any]
    ) -> OptimalCircular:
        """Return the mechanism that samples from the kernel ``[K, N, W, b, g]``."""
        if placement != "wrap":
            raise ParameterError(f'placement must be "wrap" on a Circle, got {placement!r}')
        mechanism = cls.__new__(cls)
        codes, nodes, window, background, extra = fields
        domain, epsilon = check_circle(domain, cls.__name__), check_epsilon(epsilon)
        mechanism._init(domain, epsilon, WindowKernel(codes, nodes, window, background, extra, circular=True))
        return mechanism

    def _init(self, domain: Circle, epsilon: float, kernel: WindowKernel) -> None:
        window = kernel.window
        self._set(domain=domain, epsilon=epsilon, kernel=kernel, _centre=window // 2, _shift=window / 2)

    def node_units(self, nodes: FloatArray) -> FloatArray:
        """Return the positions of nodes: ``(s + W/2) / K``, the centre of the window, not taken modulo 1.

        On a lattice ``(s + W // 2) / K``, a value.
        """
        if self.lattice is not None:
            return (nodes + self._centre) / self.kernel.codes
        return (nodes + self._shift) / self.kernel.codes

    def code_units(self) -> FloatArray:
        """Return the centres of the K cells on the circle of circumference 1.

        On a lattice, the codes are the values if W is odd, and the midpoints between values if W is even. The
        centre of a window is then the value of its node.
        """
        import numpy as np

        shift = 0.5 - self.kernel.window % 2 / 2 if self.lattice is not None else 0.5
        return (np.arange(self.kernel.codes) + shift) / self.kernel.codes

    def attenuation(self, order: int = 1) -> float:
        """Return rho_k of the integer rows, by which ``E exp(2 pi i k code/K)`` shrinks.

        ``rho_k = g sin(pi k W/K) / sin(pi k/K) / 2**64``. If k is a multiple of K, every cell has the same
        phase. Then the factor is 1, and the moment carries no information.
        """
        kernel = self.kernel
        if order % kernel.codes == 0:
            return 1.0
        ratio = math.sin(math.pi * order * kernel.window / kernel.codes) / math.sin(
            math.pi * order / kernel.codes
        )
        return kernel.extra / UNIT * ratio


def _coprime_window(codes: int, best: float, epsilon: float, power: float) -> int:
    """Return the better of the two numbers closest to `best` that are coprime to K."""
    coprime = [window for window in range(1, codes) if math.gcd(window, codes) == 1]
    near = [
        max((w for w in coprime if w <= best), default=1),
        min((w for w in coprime if w >= best), default=1),
    ]
    gain = math.expm1(epsilon)

    def error(window: int) -> float:
        """Return the mean of ``d^power``; d is a report's distance in codes from its window's centre."""
        centre = (window - 1) / 2
        far: list[float] = [min(abs(j - centre), codes - abs(j - centre)) ** power for j in range(codes)]
        return (sum(far) + gain * sum(far[:window])) / (codes + gain * window)

    return min(near, key=error)
