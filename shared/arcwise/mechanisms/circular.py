"""The base class of mechanisms on a circle, for all their kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from arcwise.domains import Circle
from arcwise.errors import ParameterError
from arcwise.mechanisms.base import Mechanism

if TYPE_CHECKING:
    from arcwise.typing import FloatArray


class CircularMechanism(Mechanism):
    """A mechanism on a `Circle` that treats all directions alike, with K nodes and K codes.

    Turning the input turns the distribution of the code. Trigonometric moments only shrink.
    """

    __slots__ = ("_shift",)

    domain_type: ClassVar[type[Circle]] = Circle

    domain: Circle
    _shift: float
    """Without a lattice: the distance from the first code of a node to the node's value, in codes."""

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
        """False: on a circle no decoding of a single report is unbiased; moments are corrected instead."""
        return False

    def position(self, unit: float) -> float:
        """Return the real-valued node, in [0, K), of a position in [0, 1)."""
        if self.lattice is not None:
            return self.place_node(float(self.lattice.unit_place(unit)))
        codes = self.kernel.codes
        t = (codes * unit - self._shift) % codes
        return t if t < codes else 0.0

    def positions(self, unit: FloatArray) -> FloatArray:
        """Return the real-valued nodes, in [0, K), of positions in [0, 1), any shape."""
        if self.lattice is not None:
            return self.place_nodes(self.lattice.unit_place(unit))
        import numpy as np

        codes = self.kernel.codes
        t = codes * unit - self._shift
        t = np.where(t < 0.0, t + codes, t)
        return np.where(t >= codes, 0.0, t)  # a tiny negative number plus K rounds to K

    def attenuation(self, order: int = 1) -> float:
        """Return rho_k of the integer rows, by which reports shrink ``E exp(2 pi i k x)``; k is `order`."""
        raise NotImplementedError


def check_circle(domain: object, name: str) -> Circle:
    """Return the domain; raise `ParameterError` if it is not a `Circle`."""
    if not isinstance(domain, Circle):
        raise ParameterError(f"domain must be a Circle, got {domain!r}: {name} supports no other domain")
    return domain
