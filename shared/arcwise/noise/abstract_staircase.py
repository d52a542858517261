"""The staircase mechanism on any finite set of outputs: the exponential mechanism with steps.

Geng and Viswanath, "The optimal mechanism in differential privacy" (arXiv 1212.1186), section VII.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.checks import checked_integer, checked_real
from arcwise.errors import ParameterError
from arcwise.kernels.certificate import certify
from arcwise.kernels.rounding import nearest_rows
from arcwise.kernels.table import TableKernel, largest_ratio
from arcwise.noise.base import NOISE_EPSILON_MAX, checked_epsilon
from arcwise.randomness import SYSTEM, Randomness

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray

    from arcwise.kernels.certificate import Certificate
    from arcwise.typing import FloatArray, IntArray


class AbstractStaircase:
    """Chooses output r for input d with a probability proportional to ``base[r] f(cost[d, r])``.

    f is a staircase function. It falls by the factor e^-decay at the costs ``(k + gamma) sensitivity``, k =
    0, 1, 2, .... The sensitivity is the largest change of the cost of one output between neighbouring inputs.

    Parameters
    ----------
    costs
        The cost of each output for each input, shape (inputs, outputs); finite and non-negative.
    decay
        The epsilon of f, more than 0, at most 50. The mechanism is ``2 decay``-DP, see the notes.
    gamma
        The end of the first step of f, as a fraction of the sensitivity, from 0 to 1.
    base
        The base measure: one positive number for each output. The default is 1 for all outputs.
    neighbours
        Pairs of inputs that must be indistinguishable. The default is all pairs, as in local privacy.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or no cost differs between neighbours.

    Notes
    -----
    Between neighbours, f changes by at most the factor e^decay. The sum over outputs, by which f is divided,
    also changes by at most the factor e^decay. So the mechanism is ``2 decay``-DP (section VII, Definition 4
    and Theorem 13). If that sum is the same for all inputs, as for noise on the line, the mechanism is
    `decay`-DP. `for_epsilon` takes the epsilon of the whole mechanism; `privacy_loss` returns the actual
    loss. The steps are placed in rational arithmetic, because a float on the wrong side of a step's edge
    would change the ratio by another factor e^decay.

    Examples
    --------
    >>> places = np.arange(5)
    >>> costs = abs(places[:, None] - places)
    >>> mechanism = AbstractStaircase.for_epsilon(costs, 2.0, gamma=0.5)
    >>> mechanism.privacy_loss() <= 2.0
    True
    """

    __slots__ = (
        "_costs",
        "_decay",
        "_gamma",
        "_kernel",
        "_logs",
        "_neighbours",
        "_probabilities",
        "_sensitivity",
    )

    def __init__(
        self,
        costs: ArrayLike,
        decay: float,
        gamma: float,
        *,
        base: ArrayLike | None = None,
        neighbours: Iterable[tuple[int, int]] | None = None,
    ) -> None:
        self._costs = _checked_costs(costs)
        inputs, outputs = self._costs.shape
        self._decay = checked_epsilon(decay)
        self._gamma = checked_real("gamma", gamma, least=0, most=1.0)
        self._neighbours = _checked_pairs(neighbours, inputs)
        measure = np.ones(outputs) if base is None else np.asarray(base, dtype=np.float64)
        if measure.shape != (outputs,) or not (np.isfinite(measure).all() and measure.min() > 0.0):
            raise ParameterError(f"base must be {outputs} positive finite numbers, got {base!r}")
        sensitivity = _exact_sensitivity(self._costs, self._neighbours)
        self._sensitivity = float(sensitivity)
        # Logarithms are used, because a probability can be too small for a float.
        logs = np.log(measure) - self.decay * _levels(self._costs, sensitivity, self.gamma)
        logs -= logs.max(axis=1, keepdims=True)
        self._logs = logs - np.log(np.exp(logs).sum(axis=1, keepdims=True))
        weights = np.exp(self._logs)
        self._probabilities = weights / weights.sum(axis=1, keepdims=True)
        self._kernel: TableKernel | None = None

    @classmethod
    def for_epsilon(
        cls,
        costs: ArrayLike,
        epsilon: float,
        gamma: float,
        *,
        base: ArrayLike | None = None,
        neighbours: Iterable[tuple[int, int]] | None = None,
    ) -> AbstractStaircase:
        """Return the mechanism that is epsilon-DP as a whole; `decay` is a billionth less than epsilon / 2.

        The billionth leaves room for rounding the probabilities to integers, see `certificate`.
        """
        decay = checked_epsilon(epsilon) / 2.0 * (1.0 - 1e-9)
        return cls(costs, decay, gamma, base=base, neighbours=neighbours)

    @property
    def decay(self) -> float:
        """The epsilon of the staircase function."""
        return self._decay

    @property
    def gamma(self) -> float:
        """The end of the first step, as a fraction of the sensitivity."""
        return self._gamma

    @property
    def sensitivity(self) -> float:
        """The largest change of the cost of one output between neighbours."""
        return self._sensitivity

    @property
    def probabilities(self) -> FloatArray:
        """The probability of each output for each input, shape (inputs, outputs)."""
        probabilities: FloatArray = self._probabilities.copy()
        return probabilities

    def expected_cost(self) -> FloatArray:
        """Return the mean cost of the output for each input, shape (inputs,)."""
        return np.asarray((self._probabilities * self._costs).sum(axis=1))

    def privacy_loss(self) -> float:
        """Return the largest ``|log(P[d, r] / P[e, r])|`` over neighbours d, e and outputs r; a float."""
        logs = self._logs
        return max(float(np.abs(logs[d] - logs[e]).max()) for d, e in self._neighbours.tolist())

    def kernel(self) -> TableKernel:
        """Return the rows as integers that sum to 2**64."""
        if self._kernel is None:
            self._kernel = TableKernel(nearest_rows(self._probabilities))
        return self._kernel

    def certificate(self, epsilon: float) -> Certificate:
        """Return the exact bound on the ratio of the integer weights of neighbours.

        Raises
        ------
        CertificateError
            When the ratio exceeds e^epsilon, or a weight is 0 and a neighbour's weight of the same output is
            not. The latter happens if costs are so many steps apart that a probability is below the range of
            a float.
        """
        epsilon = checked_real("epsilon", epsilon, least=0, most=2.0 * NOISE_EPSILON_MAX)
        rows = self.kernel().rows
        pairs = (zip(rows[d], rows[e], strict=True) for d, e in self._neighbours.tolist())
        ratio = largest_ratio((min(a, b), max(a, b)) for pair in pairs for a, b in pair if a != b)
        return certify(ratio, epsilon)

    def draw(self, index: int, *, randomness: Randomness = SYSTEM) -> int:
        """Return the output for the input with this index, from one draw and exact integer weights."""
        index = checked_integer("index", index, 0, len(self._costs) - 1)
        _, u = randomness.draw()
        return self.kernel().sample(index, u)

    def draw_many(self, indices: ArrayLike, *, randomness: Randomness = SYSTEM) -> NDArray[Any]:
        """Return the output for each input index, any shape, from the draws of repeated `draw` calls."""
        array, most = np.asarray(indices), len(self._costs) - 1
        if array.dtype.kind not in "iu" or (array.size and not 0 <= array.min() <= array.max() <= most):
            raise ParameterError(f"indices must be integers from 0 to {most}, got {indices!r}")
        u = np.frombuffer(randomness.draws(array.size), "<u8").reshape(-1, 2)[:, 1]
        return self.kernel().sample_many(array.ravel(), u.astype(np.uint64)).reshape(array.shape)

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, AbstractStaircase):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[Any, ...]:
        arrays = (self._costs, self._logs, self._neighbours)
        return (self.decay, self.gamma, self._costs.shape, *(array.tobytes() for array in arrays))

    def __repr__(self) -> str:
        inputs, outputs = self._costs.shape
        return (
            f"AbstractStaircase({inputs} inputs, {outputs} outputs, decay={self.decay!r}, "
            f"gamma={self.gamma!r}, sensitivity={self.sensitivity!r})"
        )


def _checked_costs(costs: ArrayLike) -> FloatArray:
    array = np.asarray(costs)
    if array.dtype.kind not in "fiu" or array.ndim != 2 or min(array.shape) < 2:
        raise ParameterError(f"costs must be an array of at least 2 inputs times 2 outputs, got {costs!r}")
    array = array.astype(np.float64)
    if not (np.isfinite(array).all() and array.min() >= 0.0):
        raise ParameterError("costs must be finite and at least 0")
    return array


def _checked_pairs(neighbours: Iterable[tuple[int, int]] | None, inputs: int) -> IntArray:
    if neighbours is None:
        return np.argwhere(np.triu(np.ones((inputs, inputs), dtype=bool), 1))
    pairs = np.array(list(neighbours))
    if pairs.dtype.kind not in "iu" or pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ParameterError(f"neighbours must be pairs of indices of inputs, got {neighbours!r}")
    if not 0 <= pairs.min() <= pairs.max() < inputs:
        raise ParameterError(
            f"neighbours must be indices from 0 to {inputs - 1}, got {pairs.min()} to {pairs.max()}"
        )
    return pairs.astype(np.int64)


def _exact_sensitivity(costs: FloatArray, pairs: IntArray) -> Fraction:
    """Return the largest change of a cost between neighbours, exactly.

    Floats choose the candidates: a float difference is within half a unit in the last place of the exact
    difference.
    """
    changes = np.abs(costs[pairs[:, 0]] - costs[pairs[:, 1]])
    pair, output = np.nonzero(changes >= changes.max() * (1.0 - 2.0**-50))
    exact = {
        (float(costs[pairs[p, 0], r]), float(costs[pairs[p, 1], r]))
        for p, r in zip(pair.tolist(), output.tolist(), strict=True)
    }
    sensitivity = max(abs(Fraction(a) - Fraction(b)) for a, b in exact)
    if not sensitivity:
        raise ParameterError("costs must differ between some neighbours: equal costs need no noise")
    return sensitivity


def _levels(costs: FloatArray, sensitivity: Fraction, gamma: float) -> FloatArray:
    """Return the number of steps of f below each cost, exactly."""
    values, inverse = np.unique(costs, return_inverse=True)
    edge = Fraction(gamma) * sensitivity
    levels = []
    for value in values.tolist():
        periods, rest = divmod(Fraction(value), sensitivity)
        levels.append(float(periods + (rest >= edge)))
    return np.array(levels)[inverse].reshape(costs.shape)
