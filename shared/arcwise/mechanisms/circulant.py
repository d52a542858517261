"""Mechanisms on a circle that sample from one row of integer weights, which turns with the input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from arcwise.errors import ParameterError
from arcwise.kernels.certificate import UNIT, check_epsilon
from arcwise.kernels.circulant import CirculantKernel
from arcwise.mechanisms.circular import CircularMechanism, check_circle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.domains import Domain
    from arcwise.typing import FloatArray


class CirculantMechanism(CircularMechanism):
    """A mechanism on a circle with one row of weights, which turns with the input.

    Node s is at s/K of the circle, and code j at j/K.

    A subclass has a constructor that computes the row of node 0 and calls `_init`.
    """

    __slots__ = ()

    kind: ClassVar[str] = "circulant"

    kernel: CirculantKernel

    def _init(self, domain: Domain, epsilon: float, weights: Sequence[int]) -> None:
        domain = check_circle(domain, type(self).__name__)
        try:
            kernel = CirculantKernel(tuple(weights))
        except TypeError:
            raise ParameterError(
                f"weights must be a sequence of integers, got {type(weights).__name__}"
            ) from None
        self._set(domain=domain, epsilon=epsilon, kernel=kernel, _shift=0.0)

    def kernel_fields(self) -> list[Any]:
        """Return ``[K, weights of node 0]``."""
        return [self.kernel.codes, list(self.kernel.weights)]

    @classmethod
    def from_fields(
        cls, domain: Domain, epsilon: float, placement: str, fields: list[Any]
    ) -> CirculantMechanism:
        """Return the mechanism that samples from the kernel ``[K, weights of node 0]``."""
        if placement != "wrap":
            raise ParameterError(f'placement must be "wrap" on a Circle, got {placement!r}')
        codes, weights = fields
        if not isinstance(weights, list) or type(codes) is not int or codes != len(weights):
            raise ParameterError(f"weights must be a list of {codes!r} integers, one for each code")
        mechanism = cls.__new__(cls)
        mechanism._init(domain, check_epsilon(epsilon), weights)
        return mechanism

    def node_units(self, nodes: FloatArray) -> FloatArray:
        """Return the positions of nodes: ``s / K``."""
        return nodes / self.kernel.codes

    def code_units(self) -> FloatArray:
        """Return the positions of the codes on the circle of circumference 1: ``j / K``."""
        import numpy as np

        return np.arange(self.kernel.codes) / self.kernel.codes

    def attenuation(self, order: int = 1) -> float:
        """Return rho_k, the shrinkage of the k-th moment: ``sum_j weights[j] cos(2 pi k j / K) / 2**64``.

        The row of every named mechanism is symmetric up to rounding to integers: the sine part is below
        2**-50. A `DesignedCircular` with an asymmetric row also turns its reports, which this number does not
        show.
        """
        import numpy as np

        row = np.array([weight / UNIT for weight in self.kernel.weights])
        return float(row @ np.cos(2 * np.pi * order * self.code_units()))
