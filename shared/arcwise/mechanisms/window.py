"""Two base classes: one for mechanisms on an interval, one for those of them that sample from a window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from arcwise.checks import checked_integer
from arcwise.domains import Interval
from arcwise.errors import ParameterError
from arcwise.kernels.base import MAX_CODES
from arcwise.kernels.certificate import UNIT, check_epsilon
from arcwise.kernels.window import WindowKernel
from arcwise.mechanisms.base import Mechanism

if TYPE_CHECKING:
    from arcwise.domains import Domain
    from arcwise.typing import FloatArray

T = TypeVar("T")

DEFAULT_NODES = 128
"""The default number of nodes: codes fit into one byte for windows of up to half of the codes."""


class IntervalMechanism(Mechanism):
    """A mechanism on an `Interval` with equally spaced nodes."""

    __slots__ = ("_scale", "_shift")

    domain_type: ClassVar[type[Interval]] = Interval

    domain: Interval
    # position = min(max(scale * unit - shift, 0), N - 1); for "inset" neither bound is ever active.
    _scale: float
    _shift: float

    def position(self, unit: float) -> float:
        """Return the real-valued node of a position in [0, 1]."""
        if self.lattice is not None:
            return self.place_node(float(self.lattice.unit_place(unit)))
        t, top = self._scale * unit - self._shift, self.kernel.nodes - 1.0
        if t < 0.0:
            return 0.0
        return t if t < top else top

    def positions(self, unit: FloatArray) -> FloatArray:
        """Return the real-valued nodes of positions in [0, 1], any shape."""
        if self.lattice is not None:
            return self.place_nodes(self.lattice.unit_place(unit))
        import numpy as np

        t = np.asarray(self._scale * unit)
        if self.end_zones:
            t -= self._shift
            np.clip(t, 0.0, self.kernel.nodes - 1.0, out=t)
        return t


class WindowMechanism(IntervalMechanism):
    """A mechanism on an `Interval` with rows of a background and one window.

    A subclass has a constructor that chooses the window's share of the codes, and calls `_fit`. Subclasses
    differ only in that share, the placement, and the decoded value of a code.
    """

    __slots__ = ("_placement",)

    kind: ClassVar[str] = "window"
    placements: ClassVar[tuple[str, ...]] = ("inset",)
    """The supported placements."""

    kernel: WindowKernel
    _placement: str

    def _fit(
        self,
        domain: Interval,
        epsilon: float,
        share: float,
        *,
        placement: str = "inset",
        nodes: int | None,
        otherwise: int = DEFAULT_NODES,
    ) -> None:
        """Choose the integers for a window with the share W/K of the codes.

        Without `nodes`, there is one node for each value of a lattice, or `otherwise` nodes on a continuous
        domain.
        """
        if placement == "clamp" and domain.discrete:
            self._fit_lattice(domain, epsilon, share, nodes)
            return
        nodes = lattice_nodes(domain, nodes, otherwise=otherwise)
        nodes = check_nodes(nodes, MAX_CODES // 2)
        window = max(1, round((nodes - 1) * share / (1.0 - share)))
        if nodes + window - 1 > MAX_CODES:
            raise ParameterError(
                f"nodes must leave room for a window of {window} codes within {MAX_CODES}, got {nodes!r}"
            )
        kernel = WindowKernel.fit(nodes=nodes, window=window, epsilon=epsilon, circular=False)
        self._init(domain, epsilon, placement, kernel)

    def _fit_lattice(self, domain: Interval, epsilon: float, share: float, nodes: int | None) -> None:
        """Choose the integers for a window on a lattice, centred on the value, with one code for each value.

        The window has an odd number of codes, so that the value is in its middle.
        """
        codes = lattice_nodes(domain, None, otherwise=0)
        window = min(2 * round((share * codes - 1) / 2) + 1, codes - 1 - codes % 2)
        kernel = WindowKernel.fit(nodes=codes - window + 1, window=window, epsilon=epsilon, circular=False)
        if nodes is not None and nodes != kernel.nodes:
            raise ParameterError(f"nodes must be left out on a lattice, or {kernel.nodes}; got {nodes!r}")
        self._init(domain, epsilon, "clamp", kernel)

    def kernel_fields(self) -> list[Any]:
        """Return ``[K, N, W, b, g]``."""
        return window_to_fields(self.kernel)

    @classmethod
    def from_fields(
        cls, domain: Domain, epsilon: float, placement: str, fields: list[Any]
    ) -> WindowMechanism:
        """Return the mechanism that samples from the kernel ``[K, N, W, b, g]``."""
        mechanism = cls.__new__(cls)
        codes, nodes, window, background, extra = fields
        kernel = WindowKernel(codes, nodes, window, background, extra, circular=False)
        mechanism._init(check_interval(domain, cls.__name__), check_epsilon(epsilon), placement, kernel)
        return mechanism

    def _init(self, domain: Interval, epsilon: float, placement: str, kernel: WindowKernel) -> None:
        if placement not in self.placements:
            known = " or ".join(f'"{known}"' for known in self.placements)
            raise ParameterError(f"placement must be {known}, got {placement!r}")
        inset = placement == "inset"
        self._set(
            domain=domain,
            epsilon=epsilon,
            kernel=kernel,
            _centre=0 if inset else kernel.window // 2,
            _placement=placement,
            _scale=float(kernel.nodes - 1 if inset else kernel.codes),
            _shift=0.0 if inset else kernel.window / 2,
        )

    @property
    def placement(self) -> str:
        """The placement of the window: "inset" or "clamp"."""
        return self._placement

    @property
    def default_goal(self) -> str:
        """The goal "distribution" for inset, "value" for clamp."""
        return "value" if self.end_zones else "distribution"

    @property
    def unbiased(self) -> bool:
        """True for inset."""
        return not self.end_zones

    def node_units(self, nodes: FloatArray) -> FloatArray:
        """Return the positions of nodes.

        This is ``s / (N-1)`` for inset, and the window's centre ``(s + W/2) / K`` for clamp.

        For clamp on a lattice of K values, the position is that of a value, ``(s + W // 2) / (K-1)``.
        """
        if not self.end_zones:
            return nodes / (self.kernel.nodes - 1)
        if self.lattice is not None:
            return (nodes + self._centre) / (self.kernel.codes - 1)
        return (nodes + self.kernel.window / 2) / self.kernel.codes

    def code_units(self) -> FloatArray:
        """Return the decoded codes on the unit interval: `unbiased_units` for inset, cell centres for clamp.

        For clamp on a lattice, the decoded codes are the lattice's values.
        """
        import numpy as np

        if self.lattice is not None and self.end_zones:
            return np.arange(self.kernel.codes) / (self.kernel.codes - 1)
        if self.end_zones:
            return (np.arange(self.kernel.codes) + 0.5) / self.kernel.codes
        return self.unbiased_units()

    def unbiased_units(self) -> FloatArray:
        """Return the decoded codes for inset. At node s, their mean is the node's position s/(N-1).

        The mean code of node s is ``a + m s`` (`mean_code`), so ``(code - a) / (m (N-1))`` has mean s/(N-1).
        """
        import numpy as np

        kernel = self.kernel
        intercept, slope = mean_code(kernel)
        step = slope * (kernel.nodes - 1)
        units: FloatArray = (np.arange(float(kernel.codes)) - intercept) / step
        return units


def window_to_fields(kernel: WindowKernel) -> list[int]:
    """Return ``[K, N, W, b, g]``."""
    return [kernel.codes, kernel.nodes, kernel.window, kernel.background, kernel.extra]


def mean_code(kernel: WindowKernel) -> tuple[float, float]:
    """Return a and m: the mean code of node s of a kernel on a line is ``a + m s``.

    ``m = g W / 2**64`` and ``a = (b K (K-1) + g W (W-1) + L (L-1)) / 2**65``, each rounded once. L is the
    kernel's `leftover`.
    """
    k, w, leftover = kernel.codes, kernel.window, kernel.leftover
    twice = kernel.background * k * (k - 1) + kernel.extra * w * (w - 1) + leftover * (leftover - 1)
    return twice / (2 * UNIT), kernel.extra * w / UNIT


def check_interval(domain: object, name: str) -> Interval:
    """Return the domain; raise `ParameterError` if it is not an `Interval`."""
    if not isinstance(domain, Interval):
        raise ParameterError(f"domain must be an Interval, got {domain!r}: {name} supports no other domain")
    return domain


def lattice_nodes(domain: Domain, nodes: int | None, *, otherwise: T) -> int | T:
    """Return the number of nodes: as given, else the number of a lattice's values, else `otherwise`."""
    if nodes is not None:
        return nodes
    return domain.lattice.size if domain.lattice is not None and domain.discrete else otherwise


def check_nodes(nodes: object, most: int, *, least: int = 2) -> int:
    """Return the number of nodes; raise `ParameterError` if it is not an integer in the bounds."""
    return checked_integer("nodes", nodes, least, most, advice="; on a lattice it is the number of values")
