"""What the additive mechanisms share: rows from the distribution of the noise, and their certificates."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from arcwise.errors import CertificateError
from arcwise.kernels.certificate import UNIT, exact_epsilon
from arcwise.kernels.rounding import integer_rows, nearest_rows
from arcwise.mechanisms.additive.grid import additive_rows, code_positions, fit_grid
from arcwise.mechanisms.table import TableMechanism
from arcwise.mechanisms.window import check_interval, lattice_nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.domains import Interval
    from arcwise.mechanisms.additive.grid import Tail
    from arcwise.noise import Noise


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
        nodes = lattice_nodes(check_interval(domain, type(self).__name__), nodes, otherwise=None)
        fitted, steps, margin = fit_grid(noise, nodes, reach, pure=True)
        rows = integer_rows(additive_rows(fitted.sf, steps, margin), epsilon)
        self._init(domain, epsilon, rows, code_positions(steps, margin))


class ApproximateAdditive(TableMechanism):
    """Additive noise that spends a delta: the certificate is the exact delta of the integers.

    A subclass has a constructor that builds the noise and calls `_spend`.
    """

    __slots__ = ()

    approximate: ClassVar[bool] = True

    def _spend(
        self, domain: Interval, epsilon: float, delta: float, build: Callable[[float], tuple[Tail, int, int]]
    ) -> None:
        """Fill the table with the noise that `build` gives for a delta, so that the integers keep `delta`.

        Errors of floats and of rounding to integers come to some 1e-13, and to more at large epsilon, where
        they count e^epsilon times. What was too much is taken off, and the noise is built again.
        """
        inner = delta * (1.0 - 1e-9) - 2.0**-40
        for _ in range(_TRIES):
            if inner <= 0.0:
                break
            tail, steps, margin = build(inner)
            rows = nearest_rows(additive_rows(tail, steps, margin))
            self._init(domain, epsilon, rows, code_positions(steps, margin))
            # A float such as 0.1 is a little more than the decimal: as with epsilon, the smaller one counts.
            excess = Fraction(self.certificate().delta, UNIT) - exact_epsilon(delta)
            if excess <= 0:
                return
            inner -= 2.0 * float(excess)
        raise CertificateError(
            f"no table of integers keeps delta = {delta!r} at epsilon = {epsilon!r}: the errors of rounding "
            "to integers are of that size; give a larger delta or fewer nodes (on a lattice a larger step)"
        )


_TRIES = 4


def inner_epsilon(epsilon: float) -> float:
    """Return the epsilon at which noise is built so that its integer weights keep `epsilon`.

    Rounding a weight of at least 2**31 down moves its logarithm by less than 2**-31.
    """
    return epsilon - 1e-9
