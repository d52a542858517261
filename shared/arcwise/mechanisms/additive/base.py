"""What the additive mechanisms share: rows from the distribution of the noise, and their certificates."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from arcwise.errors import CertificateError, ParameterError
from arcwise.kernels.certificate import UNIT, exact_epsilon
from arcwise.kernels.rounding import integer_rows, nearest_rows
from arcwise.mechanisms.additive.grid import additive_rows, code_positions, fit_grid
from arcwise.mechanisms.table import TableMechanism

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.domains import Interval
    from arcwise.mechanisms.additive.grid import Tail
    from arcwise.noise import Noise

__all__ = ["ApproximateAdditive", "PureAdditive", "inner_delta", "inner_epsilon"]


class PureAdditive(TableMechanism):
    """Additive noise that is epsilon-LDP without a delta.

    A subclass has a constructor that names the noise and calls `_add`.
    """

    __slots__ = ()

    def _add(
        self,
        domain: Interval,
        epsilon: float,
        noise: Callable[[int], Noise],
        *,
        nodes: int | None,
        reach: float | None,
    ) -> None:
        """Fill the table with `noise` of a sensitivity in grid steps, which is built at `inner_epsilon`."""
        fitted, steps, margin = fit_grid(noise, nodes, reach, pure=True)
        rows = integer_rows(additive_rows(fitted.sf, steps, margin), epsilon)
        self._init(domain, epsilon, rows, code_positions(steps, margin))


class ApproximateAdditive(TableMechanism):
    """Additive noise that spends a delta: the certificate is the exact delta of the integers."""

    __slots__ = ()

    approximate: ClassVar[bool] = True

    def _fill(
        self, domain: Interval, epsilon: float, delta: float, tail: Tail, *, steps: int, margin: int
    ) -> None:
        """Fill the table with noise that was built at `inner_delta`, and check the delta that was asked."""
        rows = nearest_rows(additive_rows(tail, steps, margin))
        self._init(domain, epsilon, rows, code_positions(steps, margin))
        certified = self.certificate().delta
        # A float such as 0.1 is a little more than the decimal: as with epsilon, the smaller one counts.
        if certified > exact_epsilon(delta) * UNIT:
            raise CertificateError(
                f"the table's exact delta is {certified / UNIT!r}, more than delta = {delta!r}: "
                "give a larger delta or other nodes"
            )


def inner_epsilon(epsilon: float) -> float:
    """Return the epsilon at which noise is built so that its integer weights keep `epsilon`.

    Rounding a weight of at least 2**31 down moves its logarithm by less than 2**-31.
    """
    return epsilon - 1e-9


def inner_delta(delta: float) -> float:
    """Return the delta at which noise is built so that its integer weights keep `delta`.

    The absolute part is for the errors of a row's floats: some 10,000 cells, each with an error of 2**-54.

    Raises
    ------
    ParameterError
        When delta is not more than 1e-12: nothing is left.
    """
    if delta <= 1e-12:
        raise ParameterError(f"delta must be more than 1e-12, got {delta!r}")
    return delta * (1.0 - 1e-9) - 2.0**-40
