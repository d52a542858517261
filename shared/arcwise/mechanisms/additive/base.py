"""The shared part of the additive mechanisms: noise on an integer grid, its table of rows, and constructors.

The N nodes are at 0, 1, ..., N-1 and the codes at -M, ..., N-1+M, in grid steps of 1/(N-1) of the interval. A
report is ``node + noise``, rounded to the nearest grid position. A report beyond the codes is moved to the
nearer end code. In the local model any two inputs are neighbours, so the noise has the sensitivity N-1.

Rounding and clamping change only the report, so the table has the same (epsilon, delta) as the noise.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeVar

from arcwise.checks import checked_real
from arcwise.errors import CertificateError, ParameterError
from arcwise.kernels.base import MAX_CODES
from arcwise.kernels.certificate import UNIT, check_epsilon, exact_epsilon
from arcwise.kernels.rounding import integer_rows, nearest_rows
from arcwise.mechanisms.table import TableMechanism
from arcwise.mechanisms.window import check_interval, check_nodes, lattice_nodes

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from arcwise.domains import Interval
    from arcwise.noise import Noise
    from arcwise.typing import FloatArray

    Tail: TypeAlias = Callable[[FloatArray], FloatArray]

_TAIL = 1e-4
"""By default, a report from any node lies beyond the codes on one side with at most this probability."""

LEAST = 2.0**-33 * (1.0 + 1e-6)
"""The least probability of a code: its weight is then 2**31 or more, and its relative rounding error below
2**-31."""

_MOST_WEIGHTS = 110_000
"""The most numbers in a table. A task has at most 2**20 bytes, and each weight or output takes nine."""

MOST_NODES = 330  # without a margin the table is square

_DEFAULT_NODES = (65, 33, 17, 9, 5, 3, 2)
_DEFAULT_WEIGHTS = 22_000
"""By default N is the largest of these nodes whose table has at most this many numbers: 200 kB in a task."""

_TRIES = 4
_Noise = TypeVar("_Noise", bound="Noise")


class PureAdditive(TableMechanism):
    """Additive noise that is epsilon-LDP without a delta; a subclass names the noise."""

    __slots__ = ()

    _noise: ClassVar[str]
    """The name of the noise's class in `arcwise.noise`."""

    def __init__(
        self, domain: Interval, epsilon: float, *, nodes: int | None = None, reach: float | None = None
    ) -> None:
        self._add(domain, epsilon, nodes, reach)

    def _add(
        self, domain: Interval, epsilon: float, nodes: int | None, reach: float | None, **optimal_for: float
    ) -> None:
        """Fill the table with the noise, or with the member of its family that is optimal for a power."""
        from arcwise import noise

        epsilon = check_epsilon(epsilon)
        family = getattr(noise, self._noise)
        make = partial(family.optimal if optimal_for else family, inner_epsilon(epsilon), **optimal_for)
        nodes = lattice_nodes(check_interval(domain, type(self).__name__), nodes, otherwise=None)
        fitted, steps, margin = _fit_grid(make, nodes, reach, pure=True)
        rows = integer_rows(_additive_rows(fitted.sf, steps, margin), epsilon)
        self._init(domain, epsilon, rows, code_positions(steps, margin))


class ApproximateAdditive(TableMechanism):
    """Additive noise that spends a delta; the certificate gives the exact delta of the integers.

    A subclass has a constructor that calls `_spend`.
    """

    __slots__ = ()

    approximate: ClassVar[bool] = True

    def _spend(
        self,
        domain: Interval,
        epsilon: float,
        delta: float,
        noise: Callable[[float, int], _Noise],
        *,
        nodes: int | None,
        reach: float | None,
        calibrated: Callable[[_Noise, int, int], tuple[Tail, int]] | None = None,
    ) -> None:
        """Fill the table with noise such that the integers keep `delta`.

        `noise` returns the noise for a delta and a sensitivity.

        `calibrated` takes the noise, the sensitivity and the margin of the codes. It returns a tail function
        that replaces that of the noise, and the margin.

        In delta, the errors of floats and of rounding to integers are about 1e-13. At a large epsilon they
        are larger, because they are multiplied by e^epsilon. If the certificate exceeds `delta`, twice the
        excess is subtracted and the noise is built again.
        """
        nodes = lattice_nodes(check_interval(domain, type(self).__name__), nodes, otherwise=None)
        inner = delta * (1.0 - 1e-9) - 2.0**-40
        for _ in range(_TRIES):
            if inner <= 0.0:
                break
            fitted, steps, margin = _fit_grid(partial(noise, inner), nodes, reach, pure=False)
            tail: Tail = fitted.sf
            if calibrated is not None:
                tail, margin = calibrated(fitted, steps, margin)
            rows = nearest_rows(_additive_rows(tail, steps, margin))
            self._init(domain, epsilon, rows, code_positions(steps, margin))
            # A float such as 0.1 is slightly more than the decimal. As with epsilon, the smaller number is
            # the limit.
            excess = Fraction(self.certificate().delta, UNIT) - exact_epsilon(delta)
            if excess <= 0:
                return
            inner -= 2.0 * float(excess)
        raise CertificateError(
            f"no table of integers keeps delta = {delta!r} at epsilon = {epsilon!r}: the errors of rounding "
            "to integers are of that size; give a larger delta or fewer nodes (on a lattice a larger step)"
        )


def inner_epsilon(epsilon: float) -> float:
    """Return the epsilon for building noise so that its integer weights keep `epsilon`.

    Rounding a weight of at least 2**31 down changes its logarithm by less than 2**-31.
    """
    return epsilon - 1e-9


def _fit_grid(
    noise: Callable[[int], _Noise], nodes: int | None, reach: float | None, *, pure: bool
) -> tuple[_Noise, int, int]:
    """Return the noise, its sensitivity N-1 and the margin M of the codes.

    `noise` returns the noise for a sensitivity in grid steps. `nodes` is N; if it is None, N is the largest
    of `_DEFAULT_NODES` with a table below 200 kB. `reach` is the distance by which the codes extend beyond
    either end of the interval, as a multiple of the interval's length. If it is None, the codes cover the
    whole support of bounded noise. They cover other noise up to a tail of 1e-4, as far as weights of 2**31
    allow. If `pure`, every code must have at least the probability `LEAST` from every node; otherwise, from
    at least one node. Raises `ParameterError` if the table would be too large.
    """
    if nodes is not None:
        nodes = check_nodes(nodes, MOST_NODES)
    if reach is not None:
        reach = checked_real("reach", reach, least=0, most=MAX_CODES)
    most = _DEFAULT_WEIGHTS if nodes is None else _MOST_WEIGHTS
    for candidate in _DEFAULT_NODES if nodes is None else (nodes,):
        steps = candidate - 1
        fitted = noise(steps)
        margin = _margin(fitted, steps, reach, pure=pure)
        weights = (candidate + 1) * (candidate + 2 * margin)
        if weights <= most:
            return fitted, steps, margin
    raise ParameterError(
        f"(nodes + 1) * codes must be at most {most}, got {weights} at nodes = {candidate} and "
        f"a reach of {margin / steps:g} lengths of the domain: give a larger epsilon or delta, or fewer "
        "nodes (on a lattice a larger step)" + ("" if reach is None else ", or a smaller reach")
    )


def _margin(noise: Noise, steps: int, reach: float | None, *, pure: bool) -> int:
    support = noise.support[1]
    # A cell extends half a step to either side, so the cell of the largest noise is the last one.
    whole = math.ceil(support - 0.5) if math.isfinite(support) else None
    if reach is None:
        wanted = math.ceil(noise.interval(1.0 - _TAIL)[1]) if whole is None else whole
    else:
        wanted = round(reach * steps) if whole is None else min(round(reach * steps), whole)
    if pure:
        wanted = min(wanted, _MOST_WEIGHTS)  # too large for a table, but not for an array
        most = most_margin(noise.sf, steps, wanted)
    elif whole is None:
        most = math.floor(noise.interval(1.0 - 2.0 * LEAST)[1] + 0.5)
    else:
        return wanted
    if most < 0:
        raise ParameterError(
            f"nodes must be fewer than {steps + 1} at this epsilon: even with a reach of 0 some weight would "
            "fall below 2**31"
        )
    if reach is not None and most < wanted:
        raise ParameterError(
            f"reach must be at most {most / steps:g} at this epsilon with {steps + 1} nodes, so that every "
            f"weight is at least 2**31; got {reach!r}"
        )
    return min(wanted, most)


def most_margin(tail: Tail, steps: int, wanted: int) -> int:
    """Return the largest M up to `wanted` at which every code has the probability `LEAST` from every node.

    Masses fall with the distance. So the least likely code is either the end code, which takes the tail, or
    the code before it, which takes one cell. The result is -1 if there is no such M.
    """
    import numpy as np

    tails = tail(np.arange(steps - 1, steps + wanted + 1, dtype=np.float64) - 0.5)
    enough = (tails[1:] >= LEAST) & (tails[:-1] - tails[1:] >= LEAST)
    return wanted if enough.all() else int(np.argmin(enough)) - 1


def _additive_rows(tail: Tail, steps: int, margin: int) -> FloatArray:
    """Return the probabilities of K = N + 2M codes at the N nodes, shape (N, K).

    `tail` returns ``P(noise > x)`` for an array of x in grid steps, and is called at half integers from 1/2.
    `steps` is N - 1, and `margin` is M. Code k of node s, at the distance d = k - s, has the mass of the
    noise in the cell from d - 1/2 to d + 1/2; the end codes also have the mass beyond. The same holds for
    noise on the integers.
    """
    import numpy as np

    tails = tail(np.arange(1, steps + margin + 2, dtype=np.float64) - 0.5)
    # at_least[d] is the mass at distances of d and more to one side, d >= 0; cell[d] is the mass of one cell.
    at_least = np.concatenate(([1.0 - tails[0]], tails))
    cell = np.concatenate(([1.0 - 2.0 * tails[0]], tails[:-1] - tails[1:]))
    node, code = np.arange(steps + 1)[:, None], np.arange(-margin, steps + margin + 1)
    rows: FloatArray = cell[np.abs(code - node)]
    rows[:, 0] = at_least[node[:, 0] + margin]
    rows[:, -1] = rows[::-1, 0]
    return rows


def code_positions(steps: int, margin: int) -> list[float]:
    """Return the positions of the codes on the unit interval, -M/(N-1) to 1 + M/(N-1)."""
    return [code / steps for code in range(-margin, steps + margin + 1)]
