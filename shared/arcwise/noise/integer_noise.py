"""The best noise on the integers for (epsilon, delta), with a bounded support.

The closed form is a staircase that is cut off, with smaller masses towards its ends. At sensitivity 1 no
distribution is better. At larger sensitivities a linear program finds the best distribution, and a second
program proves that it is nearly optimal. Geng and Viswanath, "Optimal noise adding mechanisms for approximate
differential privacy" (IEEE Transactions on Information Theory 2016), give bounds for the expected loss on the
integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.checks import checked_integer, checked_real
from arcwise.errors import ParameterError
from arcwise.noise.base import DiscreteNoise, checked_delta, checked_epsilon
from arcwise.noise.expectation import checked_loss, even_part

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arcwise.noise.expectation import Function, Values
    from arcwise.typing import FloatArray

SENSITIVITY_MAX = 2**10

_PROGRAM_MOST = 2**17  # sensitivity times support, for a program that takes some seconds
_STAIRCASES_MOST = 2**24  # sensitivity times support, for about a second
_LEAST_DELTA = 1e-7  # below this delta, a program's tolerance exceeds its possible gain
_SPARES = (1e-9, 1e-8)  # shares of delta that are left for the program's tolerance
_EXCESS = 2e-5  # the proved distance from the optimum, as a share of the least loss minus the loss of 0
_PERIODS = 8  # periods beyond the support in which the loss counts for the bound


@dataclass(frozen=True, slots=True)
class IntegerNoise(DiscreteNoise):
    """Noise on the integers -N, ..., N, given by its masses.

    Parameters
    ----------
    masses
        The probabilities P(X = 0), P(X = 1), ..., P(X = N). They are non-negative, and the first and the last
        are positive. The sum over both signs is 1.

    Raises
    ------
    ParameterError
        When the masses are not such numbers.

    Examples
    --------
    >>> noise = IntegerNoise.optimal(1.0, 1e-4)
    >>> round(noise.abs_moment(1), 6), noise.support
    (0.849865, (-9.0, 9.0))
    """

    masses: tuple[float, ...]

    def __post_init__(self) -> None:
        masses = tuple([checked_real(f"masses[{n}]", mass, least=0) for n, mass in enumerate(self.masses)])
        if len(masses) < 2 or not masses[-1] > 0.0 or not masses[0] > 0.0:
            raise ParameterError("masses must be at least two, the first and the last one positive")
        total = 2.0 * math.fsum(masses) - masses[0]
        if abs(total - 1.0) > 1e-9:
            raise ParameterError(f"masses must sum to 1 with both signs, got {total!r}")
        object.__setattr__(self, "masses", masses)

    @classmethod
    def optimal(
        cls,
        epsilon: float,
        delta: float,
        sensitivity: int = 1,
        *,
        power: float = 1.0,
        loss: Function | None = None,
    ) -> IntegerNoise:
        """Return the (epsilon, delta)-DP noise with the least ``E|X|^power``, or the least expected loss.

        At sensitivity 1 the result is `truncated_staircase`, which is optimal. At a larger sensitivity it is
        the solution of a linear program over symmetric distributions on a bounded support. The support is
        widened until a second program proves that the solution is nearly optimal. Let L be its expected loss
        minus the loss of 0. Then no distribution on any support has an L that is smaller by more than a share
        of 2e-5. If delta is below 1e-7, a program's tolerance is too coarse, and the result is
        `truncated_staircase` without a proof.

        Parameters
        ----------
        epsilon
            More than 0, at most 50.
        delta
            More than 0, less than 1.
        sensitivity
            The largest change of the protected integer, from 1 to 1024.
        power
            More than 0. The default, 1, minimises the mean of ``|X|``.
        loss
            The loss to minimise instead of a power: a function of an array, shape (n,), of sizes ``|x|``. The
            sizes are whole numbers as floats. The loss must not decrease.

        Raises
        ------
        ParameterError
            When an argument is out of its bounds, both a power and a loss are given, or no program of
            acceptable size proves the optimum; in that case use `truncated_staircase`.
        """
        near = cls.truncated_staircase(epsilon, delta, sensitivity, power=power, loss=loss)
        if sensitivity == 1 or delta < _LEAST_DELTA:
            return near
        values = _loss(power, loss)
        most = len(near.masses) - 1 + 2 * sensitivity
        best = near
        while most * sensitivity <= _PROGRAM_MOST:
            # The loss minus the loss of 0, as a multiple of that of the staircase.
            weights = values(np.arange(most + 1.0 + sensitivity * _PERIODS))
            weights = weights - weights[0]
            unit = near._cost(weights)
            if unit == 0.0:
                return near
            weights, beyond = weights[: most + 1] / unit, weights[most + 1 :: sensitivity] / unit
            for spare in _SPARES:
                law = cls(_program(epsilon, delta - spare, sensitivity, weights))
                if law.delta(epsilon, sensitivity) <= delta:
                    best = min(best, law, key=lambda each: each._cost(weights))
                    break
            if best._cost(weights) <= (1.0 + _EXCESS) * _bound(epsilon, delta, sensitivity, weights, beyond):
                return best
            most *= 2
        raise ParameterError(
            f"sensitivity must be smaller, or epsilon larger: no program on fewer than {most:,} integers "
            "proves the optimum; IntegerNoise.truncated_staircase needs no program"
        )

    @classmethod
    def truncated_staircase(
        cls,
        epsilon: float,
        delta: float,
        sensitivity: int = 1,
        *,
        power: float = 1.0,
        loss: Function | None = None,
    ) -> IntegerNoise:
        """Return the best cut-off staircase, with smaller masses towards both ends.

        Parameters and errors are those of `optimal`, except that no program can be too large.

        Notes
        -----
        With b = e^-epsilon and ``G(n) = P(X >= n)``, the privacy condition for half lines is
        ``G(n) <= e^epsilon G(n + D) + delta`` at the sensitivity D. The masses of 0, ..., D are those of a
        `DiscreteStaircase`: a for n < r and b a from r on. The following masses are the least that this
        condition allows:

            G(n + D) = max(0, b (G(n) - delta)),   a = (1 - b + 2 b delta) / (2 (r + b (D - r)) - (1 - b)),

        The formula for a follows from ``P(X >= 0) = e^epsilon G(D) + delta``. So each mass, except for the
        last D masses, is b times the mass at the number smaller by D. If G(1) would be below delta, there is
        no mass beyond D, the mass of 0 is larger by ``delta - G(1)``, and
        ``a = (1 - delta) / (r + b (D - r + 1))``. In both cases ``H(n) = G(n) - e^epsilon G(n + D)`` rises up
        to n = 0, where it is delta, and does not rise again. So no set has a larger privacy loss than a half
        line. Masses decrease with ``|n|``, so shorter shifts have a smaller loss.

        At D = 1 no distribution is better, for any loss: ``G(1) >= (1 - delta) / (1 + e^epsilon)`` by
        symmetry. By induction, every other G is as small as half lines allow. These are the values at the
        integers of the canonical noise of Awan and Vadhan (arXiv 2108.04303).
        """
        epsilon, delta = checked_epsilon(epsilon), checked_delta(delta, 1.0)
        sensitivity = checked_integer("sensitivity", sensitivity, 1, SENSITIVITY_MAX)
        # Half the mass is used up after log(1 + (e^epsilon - 1) / (2 delta)) / epsilon periods.
        most = sensitivity * (math.ceil(math.log1p(math.expm1(epsilon) / (2.0 * delta)) / epsilon) + 2)
        if most * sensitivity > _STAIRCASES_MOST:
            raise ParameterError(
                f"sensitivity must be smaller, or epsilon larger: {sensitivity:,} staircases of up to "
                f"{most:,} integers are too many"
            )
        losses = _loss(power, loss)(np.arange(float(most)))
        best, least = np.zeros(0), math.inf
        for r in range(1, sensitivity + 1):
            masses = _cut_staircase(epsilon, delta, sensitivity, r)
            terms = masses * losses[: masses.size]
            cost = float(2.0 * terms.sum() - terms[0])
            if cost < least:
                best, least = masses, cost
        return cls(tuple(best.tolist()))

    def delta(self, epsilon: float, sensitivity: int) -> float:
        """Return the least delta for shifts of at most `sensitivity`, in floats.

        It is ``max over shifts d of sum_n max(0, P(X = n) - e^epsilon P(X = n + d))``. For an exact
        certificate of integer weights, make a `GridNoise` from this noise.
        """
        one = np.array(self.masses)
        row = np.concatenate((one[:0:-1], one))
        ratio = math.exp(checked_epsilon(epsilon, zero=True))
        largest = 0.0
        for shift in range(1, checked_integer("sensitivity", sensitivity, 1) + 1):
            shifted = np.concatenate((row, np.zeros(shift)))[shift:]
            largest = max(largest, float(np.maximum(row - ratio * shifted, 0.0).sum()))
        return largest

    @property
    def support(self) -> tuple[float, float]:
        """-N and N."""
        return 1.0 - len(self.masses), len(self.masses) - 1.0

    @property
    def _decay(self) -> float:
        return max(math.log(self.masses[0] / self.masses[-1]), 1.0) / len(self.masses)

    def entropy(self) -> float:
        """Return the entropy in nats."""
        one = np.array(self.masses)
        part = one[one > 0.0]
        terms = -part * np.log(part)
        return float(2.0 * terms.sum() - terms[0])

    def _cost(self, weights: FloatArray) -> float:
        """Return the expectation of a loss with the values `weights` at 0, 1, 2, ...."""
        terms = np.array(self.masses) * weights[: len(self.masses)]
        return float(2.0 * terms.sum() - terms[0])

    def _expect(self, function: Values, _points: FloatArray) -> float:
        return self._cost(even_part(function)(np.arange(float(len(self.masses)))))

    def _abs_pmf(self, n: FloatArray) -> FloatArray:
        inside = n < len(self.masses)
        return np.where(inside, np.array(self.masses)[np.where(inside, n, 0.0).astype(np.int64)], 0.0)

    def _tail(self, n: FloatArray) -> FloatArray:
        tails = np.append(np.cumsum(self.masses[::-1])[::-1], 0.0)
        inside = n < len(self.masses)  # false if n is NaN
        places = np.where(inside, n, len(self.masses)).astype(np.int64)
        found: FloatArray = np.where(np.isnan(n), np.nan, tails[places])
        return found

    def _abs_moment(self, power: float) -> float:
        return self._cost(np.arange(float(len(self.masses))) ** power)

    def _rvs(self, count: int, generator: np.random.Generator) -> NDArray[Any]:
        one = np.array(self.masses)
        ends = np.cumsum(np.concatenate((one[:0:-1], one)))
        return np.searchsorted(ends[:-1], generator.random(count), side="right") - (one.size - 1)


def _loss(power: float, loss: Function | None) -> Values:
    """Return a loss, or a power of ``|x|``, as a checked function."""
    if loss is not None:
        return checked_loss(loss, power)
    power = checked_real("power", power, above=0)
    return checked_loss(lambda n: n**power, 1.0)


def _cut_staircase(epsilon: float, delta: float, sensitivity: int, r: int) -> FloatArray:
    """Return the masses of 0, 1, ..., N of the staircase that is cut off, see `truncated_staircase`."""
    b, above = math.exp(-epsilon), -math.expm1(-epsilon)
    lower = sensitivity - r + 1
    whole = 2.0 * (r - 1 + b * lower) + above  # 2 (r + b (D - r)) - (1 - b)
    a, first = (above + 2.0 * b * delta) / whole, (r - 1 + b * (lower - delta)) / whole
    if first < delta:
        a = (1.0 - delta) / (r + b * lower)
        first = a * (r - 1 + b * lower)
    # G(D), ..., G(1), added up from the smallest, so that nothing cancels.
    masses = a * np.where(np.arange(sensitivity) < r, 1.0, b)
    last = b * (a + max(first - delta, 0.0))
    tails = np.cumsum(np.concatenate(([last], masses[:0:-1])))[::-1]
    # G(n + k D) = delta (e^(epsilon (periods - k)) - 1) / (e^epsilon - 1), as long as that is positive.
    periods = np.log1p(tails * math.expm1(epsilon) / delta) / epsilon
    k = np.arange(math.ceil(periods[0]) + 1)[:, None]
    tails = delta * np.expm1(np.maximum(epsilon * (periods - k), 0.0)) / math.expm1(epsilon)
    tails = np.trim_zeros(tails.ravel(), "b")
    n = np.arange(1, tails.size)
    inner = a * np.exp(-epsilon * ((n + sensitivity - r) // sensitivity))
    return np.concatenate(([1.0 - 2.0 * first], inner, tails[-1:]))


def _program(epsilon: float, delta: float, sensitivity: int, weights: FloatArray) -> tuple[float, ...]:
    """Return the masses of 0, 1, ..., N with the least expected weight, from a linear program.

    The variables are the masses and, for each shift d and each n, the positive part of
    ``P(n) - e^epsilon P(n + d)``.
    """
    _, solved = _solved(epsilon, delta, sensitivity, weights, np.zeros(0))
    masses = np.maximum(solved.x[: weights.size], 0.0)
    total = 2.0 * masses.sum() - masses[0]
    return tuple(np.trim_zeros(masses / total, "b").tolist())


def _bound(epsilon: float, delta: float, sensitivity: int, weights: FloatArray, beyond: FloatArray) -> float:
    """Return a lower bound of the expected weight of every distribution, on any support.

    `weights` are those of 0, 1, ..., N, and `beyond` are those of N + 1, N + 1 + D, N + 1 + 2 D, ..., with
    the sensitivity D. Weights farther out are no smaller.

    For masses beyond N, the program has only the tails ``G_k = P(X >= N + 1 + k D)`` as variables. It has two
    conditions for their privacy, which every private distribution satisfies. One condition is
    ``G_k <= e^epsilon G_(k+1) + delta``. The other is that the positive parts that end beyond N add up to at
    least ``sum_(N-d < n <= N) P(n) - (e^epsilon - 1) G_0``. The solver's multipliers are made non-negative,
    and each is limited to the multiplier of the delta of its shift. Then they prove a bound, regardless of
    the solver's tolerance: ``cost >= least of the reduced costs - delta sum of the multipliers of deltas``.
    """
    (costs, twice, gains, halves, owner), solved = _solved(epsilon, delta, sensitivity, weights, beyond)
    prices = np.maximum(-solved.ineqlin.marginals, 0.0)
    of_gains, of_shifts, of_halves = np.split(prices, [owner.size, owner.size + sensitivity])
    left = costs + gains.T @ np.minimum(of_gains, of_shifts[owner]) + halves.T @ of_halves
    # The masses and G_0, each multiplied by its number in `twice`, have the sum 1. The other tails are at
    # most 1/2 each.
    counted = twice > 0.0
    least = (left[counted] / twice[counted]).min() + np.minimum(left[~counted], 0.0).sum() / 2.0
    return float(least - delta * (of_shifts.sum() + of_halves.sum()))


def _solved(
    epsilon: float, delta: float, sensitivity: int, weights: FloatArray, beyond: FloatArray
) -> tuple[tuple[Any, ...], Any]:
    """Return the parts and the solution of the program of `_bound`, or of `_program` if `beyond` is empty."""
    from scipy.optimize import linprog
    from scipy.sparse import block_array, coo_array

    size, tails, ratio = weights.size, beyond.size, math.exp(epsilon)
    n = np.arange(1 - size, size)
    entries: list[tuple[FloatArray, Any, Any]] = []
    shifts: list[Any] = []
    rows = 0
    for shift in range(1, sensitivity + 1):
        ends = np.abs(n + shift) < size
        starts = n[ends] if tails else n
        row = rows + np.arange(starts.size)
        inside = row if tails else row[ends]
        entries.append((np.ones(starts.size), row, np.abs(starts)))
        entries.append((np.full(inside.size, -ratio), inside, np.abs(n + shift)[ends]))
        rows += starts.size
        if tails:
            columns = np.arange(size - shift, size + 1)
            entries.append((np.where(columns < size, 1.0, 1.0 - ratio), np.full(columns.size, rows), columns))
            rows += 1
        shifts.append(np.full(starts.size + bool(tails), shift - 1))
    owner = np.concatenate(shifts)
    gains = _sparse(entries, (rows, size + tails))
    k = np.arange(max(tails - 1, 0))
    halves = _sparse(
        [(np.ones(k.size), k, size + k), (np.full(k.size, -ratio), k, size + k + 1)], (k.size, size + tails)
    )
    one = np.ones(rows)
    budget = coo_array((one, (owner, np.arange(rows))), shape=(sensitivity, rows))
    parts = coo_array((-one, (np.arange(rows),) * 2), shape=(rows, rows))
    twice = np.concatenate(([1.0], np.full(size - 1 + min(tails, 1), 2.0), np.zeros(k.size)))
    costs = np.concatenate(([1.0], np.full(size + tails - 1, 2.0)))
    costs *= np.concatenate((weights, np.diff(beyond, prepend=0.0)))
    solved = linprog(
        np.concatenate((costs, np.zeros(rows))),
        A_ub=block_array([[gains, parts], [None, budget], [halves, None]]).tocsr(),
        b_ub=np.concatenate((np.zeros(rows), np.full(sensitivity + k.size, delta))),
        A_eq=np.concatenate((twice, np.zeros(rows)))[None],
        b_eq=[1.0],
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if not solved.success:
        raise ParameterError(f"no solution was found for these arguments: {solved.message}")
    return (costs, twice, gains, halves, owner), solved


def _sparse(entries: list[tuple[FloatArray, Any, Any]], shape: tuple[int, int]) -> Any:
    """Return the sparse matrix with these values, rows and columns."""
    from scipy.sparse import coo_array

    values, rows, columns = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    return coo_array((values, (rows, columns)), shape=shape)
