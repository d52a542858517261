"""Mechanisms on an interval that sample from a table of rows, with an output value for each code."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

from arcwise.checks import real_or_nan
from arcwise.errors import ParameterError
from arcwise.kernels.certificate import EPSILON_MIN, check_epsilon
from arcwise.kernels.table import TableKernel
from arcwise.mechanisms.window import IntervalMechanism, check_interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from arcwise.domains import Domain
    from arcwise.typing import FloatArray

_UNBIASED = 1e-9
"""The largest bias, on the unit interval, of a mechanism that counts as unbiased."""


class TableMechanism(IntervalMechanism):
    """A mechanism on an `Interval` with N equally spaced nodes, K codes and K output values.

    A subclass has a constructor that computes integer rows (`arcwise.kernels.rounding`) and output values,
    and calls `_init`.
    """

    __slots__ = ("_unbiased", "_units")

    kind: ClassVar[str] = "table"

    kernel: TableKernel
    _units: tuple[float, ...]
    _unbiased: bool | None

    def _init(
        self, domain: Domain, epsilon: float, rows: Sequence[Sequence[int]], units: Iterable[float]
    ) -> None:
        domain = check_interval(domain, type(self).__name__)
        try:
            kernel, values = TableKernel(tuple(tuple(row) for row in rows)), tuple(units)
        except TypeError:
            raise ParameterError(
                "rows must be sequences of integers and units a sequence of numbers, "
                f"got {type(rows).__name__} and {type(units).__name__}"
            ) from None
        if len(values) != kernel.codes or not all(math.isfinite(real_or_nan(value)) for value in values):
            raise ParameterError(f"units must be {kernel.codes} finite numbers, one for each code")
        values = tuple(map(float, values))
        self._set(
            domain=domain,
            epsilon=epsilon,
            kernel=kernel,
            _scale=kernel.nodes - 1.0,
            _shift=0.0,
            _units=values,
            _unbiased=None,
        )

    def kernel_fields(self) -> list[Any]:
        """Return ``[K, N, rows, output values on the unit interval]``."""
        kernel = self.kernel
        return [kernel.codes, kernel.nodes, [list(row) for row in kernel.rows], list(self._units)]

    @classmethod
    def from_fields(cls, domain: Domain, epsilon: float, placement: str, fields: list[Any]) -> TableMechanism:
        """Return the mechanism that samples from the kernel ``[K, N, rows, output values]``."""
        if placement != "inset":
            raise ParameterError(f'placement of a table must be "inset", got {placement!r}')
        codes, nodes, rows, units = fields
        if not isinstance(rows, list) or not isinstance(units, list):
            raise ParameterError("rows and units must be lists")
        mechanism = cls.__new__(cls)
        epsilon = check_epsilon(epsilon, least=0.0 if cls.approximate else EPSILON_MIN)
        mechanism._init(domain, epsilon, rows, units)
        kernel = mechanism.kernel
        if (type(codes), type(nodes), codes, nodes) != (int, int, kernel.codes, kernel.nodes):
            raise ParameterError(
                f"codes and nodes must be those of the rows, {kernel.codes} and {kernel.nodes}; "
                f"got {codes!r} and {nodes!r}"
            )
        return mechanism

    @property
    def placement(self) -> str:
        """Always "inset": node s is at s/(N-1)."""
        return "inset"

    @property
    def default_goal(self) -> str:
        """The goal "mean" if decoded reports are unbiased, else "distribution"."""
        return "mean" if self.unbiased else "distribution"

    @property
    def unbiased(self) -> bool:
        """Whether the mean of a decoded report is the input, to within 1e-9 of the range, at every node.

        Between two nodes the bias is no larger, because the distribution is a mixture of the two rows.
        """
        if self._unbiased is None:
            import numpy as np

            nodes = np.arange(self.kernel.nodes)
            bias = self.kernel.probabilities(nodes) @ self.code_units() - nodes / (self.kernel.nodes - 1)
            object.__setattr__(self, "_unbiased", bool(np.abs(bias).max() <= _UNBIASED))
        return bool(self._unbiased)

    def node_units(self, nodes: FloatArray) -> FloatArray:
        """Return the positions of nodes: ``s / (N-1)``."""
        return nodes / (self.kernel.nodes - 1)

    def code_units(self) -> FloatArray:
        """Return the output value of each code on the unit interval; it may lie outside [0, 1]."""
        import numpy as np

        return np.array(self._units)
