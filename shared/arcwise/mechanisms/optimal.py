"""The optimal 3-piece mechanism on an interval and on a circle (OPM), as integer window kernels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Literal

from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.kernels.certificate import UNIT, check_epsilon
from arcwise.kernels.window import MAX_CODES, WindowKernel
from arcwise.mechanisms.base import Mechanism
from arcwise.mechanisms.closed_forms import half_window

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["DEFAULT_NODES", "OptimalCircular", "OptimalPiecewise", "mean_code"]

DEFAULT_NODES = 128
"""One-byte codes at every epsilon."""


class OptimalPiecewise(Mechanism):
    """The optimal 3-piece mechanism on an interval.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    placement
        "inset" (default): the window's start moves from the first code to the last possible one as the value
        moves from low to high, so every value has its own law and `decode` is unbiased. "clamp": the window
        is centred on the value and pushed inside at the ends, which has the least worst-case error of a
        single report, and makes all values within C of an end indistinguishable: no estimator can recover
        a mean or a distribution there.
    nodes
        N, from 2 to 32,768. The default gives one-byte codes at every epsilon.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    ``W = max(1, round((N-1) * 2C / (1-2C)))`` and ``K = N + W - 1``, with C = `half_window`; as
    ``2C / (1-2C) = e^(-epsilon/2)``, W < N and K < 2N. With W/K = 2C the inset placement is the Piecewise
    Mechanism of Wang et al. (ICDE 2019).

    Examples
    --------
    >>> mechanism = OptimalPiecewise(Interval(0, 100), epsilon=1.0)
    >>> code = mechanism.randomize(42.0)
    >>> 0 <= code < mechanism.kernel.codes
    True
    """

    __slots__ = ("_placement", "_scale", "_shift", "_top")

    name: ClassVar[str] = "optimal-piecewise"
    version: ClassVar[int] = 1

    domain: Interval
    _placement: str
    _scale: float
    _shift: float
    _top: float

    def __init__(
        self,
        domain: Interval,
        epsilon: float,
        *,
        placement: Literal["inset", "clamp"] = "inset",
        nodes: int = DEFAULT_NODES,
    ) -> None:
        epsilon = check_epsilon(epsilon)
        _check_nodes(nodes, MAX_CODES // 2)
        c = half_window(epsilon)
        window = max(1, round((nodes - 1) * 2 * c / (1 - 2 * c)))
        kernel = WindowKernel.fit(nodes=nodes, window=window, epsilon=epsilon, circular=False)
        self._init(domain, epsilon, placement, kernel)

    @classmethod
    def from_kernel(
        cls, domain: Interval, epsilon: float, placement: str, kernel: WindowKernel
    ) -> OptimalPiecewise:
        """Return the mechanism that samples from this very kernel, as a task carries it."""
        mechanism = cls.__new__(cls)
        mechanism._init(domain, check_epsilon(epsilon), placement, kernel)
        return mechanism

    def _init(self, domain: Interval, epsilon: float, placement: str, kernel: WindowKernel) -> None:
        if not isinstance(domain, Interval):
            raise ParameterError(
                f"domain must be an Interval, got {domain!r}; for a Circle use OptimalCircular"
            )
        if placement not in ("inset", "clamp"):
            raise ParameterError(f'placement must be "inset" or "clamp", got {placement!r}')
        if kernel.circular:
            raise ParameterError("kernel must not be circular on an Interval")
        # position = min(max(scale * unit - shift, 0), top); for "inset" neither bound is ever active.
        inset = placement == "inset"
        self._set(
            domain=domain,
            epsilon=epsilon,
            kernel=kernel,
            _placement=placement,
            _scale=float(kernel.nodes - 1 if inset else kernel.codes),
            _shift=0.0 if inset else kernel.window / 2,
            _top=float(kernel.nodes - 1),
        )

    @property
    def placement(self) -> str:
        """Where the window may stand: "inset" or "clamp"."""
        return self._placement

    @property
    def default_goal(self) -> str:
        """The goal "distribution" for inset, "value" for clamp."""
        return "distribution" if self._placement == "inset" else "value"

    @property
    def unbiased(self) -> bool:
        """True for inset."""
        return self._placement == "inset"

    def position(self, unit: float) -> float:
        """Return the real-valued node of a position in [0, 1]."""
        t = self._scale * unit - self._shift
        if t < 0.0:
            return 0.0
        return t if t < self._top else self._top

    def positions(self, unit: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the real-valued nodes of positions in [0, 1], any shape."""
        import numpy as np

        t = np.asarray(self._scale * unit)
        if self._placement == "clamp":
            t -= self._shift
            np.clip(t, 0.0, self._top, out=t)
        return t

    def code_units(self) -> NDArray[np.float64]:
        """Return what each code decodes to on the unit interval: unbiased for inset, else cell centres.

        Inset: the mean code of node s is ``a + m s`` (`mean_code`), so ``(code - a) / (m (N-1))`` has mean
        s/(N-1).
        """
        import numpy as np

        kernel = self.kernel
        codes = np.arange(kernel.codes, dtype=np.float64)
        if self._placement == "clamp":
            return (codes + 0.5) / kernel.codes
        intercept, slope = mean_code(kernel)
        units: NDArray[np.float64] = (codes - intercept) / (slope * (kernel.nodes - 1))
        return units


class OptimalCircular(Mechanism):
    """The optimal 3-piece mechanism on a circle: the window is centred on the value, modulo the period.

    Parameters
    ----------
    domain
        The `Circle` of the values.
    epsilon
        From 0.01 to 20.
    nodes
        N = K, from 2 to 65,536.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    ``W = max(1, round(2 C K))`` with C = `half_window`. The real-valued node of a position x is
    ``(K x - W/2) mod K``; code j is the cell from j/K to (j+1)/K of the circle.
    """

    __slots__ = ()

    name: ClassVar[str] = "optimal-circular"
    version: ClassVar[int] = 1

    domain: Circle

    def __init__(self, domain: Circle, epsilon: float, *, nodes: int = DEFAULT_NODES) -> None:
        epsilon = check_epsilon(epsilon)
        _check_nodes(nodes, MAX_CODES)
        window = max(1, round(2 * half_window(epsilon) * nodes))
        kernel = WindowKernel.fit(nodes=nodes, window=window, epsilon=epsilon, circular=True)
        self._init(domain, epsilon, kernel)

    @classmethod
    def from_kernel(
        cls, domain: Circle, epsilon: float, placement: str, kernel: WindowKernel
    ) -> OptimalCircular:
        """Return the mechanism that samples from this very kernel, as a task carries it."""
        if placement != "wrap":
            raise ParameterError(f'placement must be "wrap" on a Circle, got {placement!r}')
        mechanism = cls.__new__(cls)
        mechanism._init(domain, check_epsilon(epsilon), kernel)
        return mechanism

    def _init(self, domain: Circle, epsilon: float, kernel: WindowKernel) -> None:
        if not isinstance(domain, Circle):
            raise ParameterError(
                f"domain must be a Circle, got {domain!r}; for an Interval use OptimalPiecewise"
            )
        if not kernel.circular:
            raise ParameterError("kernel must be circular on a Circle")
        self._set(domain=domain, epsilon=epsilon, kernel=kernel)

    @property
    def placement(self) -> str:
        """Always "wrap"."""
        return "wrap"

    @property
    def default_goal(self) -> str:
        """The goal "direction"."""
        return "direction"

    @property
    def unbiased(self) -> bool:
        """False: on a circle a single report has no unbiased decoding; moments are corrected instead."""
        return False

    def position(self, unit: float) -> float:
        """Return the real-valued node of a position in [0, 1), in [0, K)."""
        codes = self.kernel.codes
        t = (codes * unit - self.kernel.window / 2) % codes
        return t if t < codes else 0.0

    def positions(self, unit: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the real-valued nodes of positions in [0, 1), any shape, in [0, K)."""
        import numpy as np

        codes = self.kernel.codes
        t = np.asarray(codes * unit - self.kernel.window / 2)
        t[t < 0.0] += codes
        t[t >= codes] = 0.0  # a tiny negative number plus K rounds to K
        return t

    def code_units(self) -> NDArray[np.float64]:
        """Return the centres of the K cells on the circle of circumference 1."""
        import numpy as np

        return (np.arange(self.kernel.codes) + 0.5) / self.kernel.codes

    def attenuation(self, order: int = 1) -> float:
        """Return rho_k of the integer rows, by which ``E exp(2 pi i k code/K)`` shrinks.

        ``rho_k = g sin(pi k W/K) / sin(pi k/K) / 2**64``. At multiples of K every cell has the same phase:
        there the factor is 1, and the moment tells nothing.
        """
        kernel = self.kernel
        if order % kernel.codes == 0:
            return 1.0
        ratio = math.sin(math.pi * order * kernel.window / kernel.codes) / math.sin(
            math.pi * order / kernel.codes
        )
        return kernel.extra / UNIT * ratio

    def _unit_distance(self, unit: float) -> NDArray[np.float64]:
        import numpy as np

        distance = super()._unit_distance(unit)
        return np.minimum(distance, 1.0 - distance)


def mean_code(kernel: WindowKernel) -> tuple[float, float]:
    """Return a and m: the mean code of node s of a kernel on a line is ``a + m s``.

    ``m = g W / 2**64`` and ``a = (b K (K-1) + g W (W-1) + L (L-1)) / 2**65``, each rounded once.
    """
    k, w, leftover = kernel.codes, kernel.window, kernel.leftover
    twice = kernel.background * k * (k - 1) + kernel.extra * w * (w - 1) + leftover * (leftover - 1)
    return twice / (2 * UNIT), kernel.extra * w / UNIT


def _check_nodes(nodes: int, most: int) -> None:
    if isinstance(nodes, bool) or not isinstance(nodes, int) or not 2 <= nodes <= most:
        raise ParameterError(f"nodes must be an integer from 2 to {most}, got {nodes!r}")
