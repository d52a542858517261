"""Ways to sort outputs into classes, and events: sets of such classes.

A class is a range of numbers, an exact value, or the place of a float's lowest set bit. Floating-point
samplers reach different doubles from different inputs [Mironov 2012, On significance of the least significant
bits for differential privacy]. So the lowest bits of an output, or of its distance from an input, may reveal
the input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from arcwise.analysis.auditing.calls import Outputs
    from arcwise.typing import BoolArray, FloatArray, IntArray

_BINS = (16, 256)
"""Numbers of ranges with equal counts over all inputs: 16 show broad differences, 256 a single place."""
_REPEATED = 6
"""A value that appears at least this often, over all inputs, is a separate class."""
_NAMED = 3
"""Most values or ranges that a description names; it only counts the others."""


class Sorting(ABC):
    """A way to sort outputs into classes."""

    kind: str
    """The kind of the classes; the best event of each kind is tested."""

    centre: float | None = None
    """The input to which the sorting refers; None for all inputs."""

    @abstractmethod
    def classes(self, outputs: Outputs) -> IntArray:
        """Return the class of each output, shape (n,)."""

    @abstractmethod
    def words(self, classes: IntArray) -> str:
        """Return a description of the outputs in these classes, which must be in ascending order."""


class Event(NamedTuple):
    """Outputs in any of some classes."""

    sorting: Sorting
    classes: IntArray

    def holds(self, outputs: Outputs) -> BoolArray:
        """Return for each output whether it is in the event."""
        return np.isin(self.sorting.classes(outputs), self.classes)

    def __str__(self) -> str:
        return self.sorting.words(np.sort(self.classes))


class _Ranges(Sorting):
    kind = "range"

    def __init__(self, component: int, several: bool, pooled: FloatArray, bins: int) -> None:
        self.component, self.name = component, f"output[{component}]" if several else "output"
        finite = np.sort(pooled[np.isfinite(pooled)])
        places = np.linspace(0, finite.size - 1, bins + 1)[1:-1].astype(np.int64)
        self.edges = np.unique(finite[places]) if finite.size else finite

    def classes(self, outputs: Outputs) -> IntArray:
        found: IntArray = np.searchsorted(self.edges, outputs.component(self.component), side="right")
        return found

    def words(self, classes: IntArray) -> str:
        runs = np.split(classes, np.flatnonzero(np.diff(classes) > 1) + 1)
        ends = np.concatenate([[-np.inf], self.edges, [np.inf]])
        texts = [self._range(ends[run[0]], ends[run[-1] + 1]) for run in runs[:_NAMED]]
        more = f" or in {len(runs) - _NAMED} more ranges" if len(runs) > _NAMED else ""
        return f"{self.name} {' or '.join(texts)}{more}"

    @staticmethod
    def _range(low: float, high: float) -> str:
        if np.isinf(low):
            return f"< {high:.6g}"
        return f">= {low:.6g}" if np.isinf(high) else f"in [{low:.6g}, {high:.6g})"


class _Values(Sorting):
    kind = "value"

    def __init__(self, pooled: Outputs) -> None:
        keys, first, counts = np.unique(pooled.keys, return_index=True, return_counts=True)
        repeated = counts >= _REPEATED
        self.keys = keys[repeated]
        self.texts = [repr(_plain(pooled.raw[place])) for place in first[repeated].tolist()]

    def classes(self, outputs: Outputs) -> IntArray:
        if not self.keys.size:
            return np.full(outputs.keys.shape, -1)
        place = np.searchsorted(self.keys, outputs.keys).clip(0, self.keys.size - 1)
        found: IntArray = np.where(self.keys[place] == outputs.keys, place, -1)
        return found

    def words(self, classes: IntArray) -> str:
        named = [self.texts[place] if place >= 0 else "any value seen rarely" for place in classes[:_NAMED]]
        more = f" or {classes.size - _NAMED} more values" if classes.size > _NAMED else ""
        return f"output is {' or '.join(named)}{more}"


class _LowBits(Sorting):
    """Classes of floats: the powers of 2 of a float's size and of its lowest set bit."""

    def __init__(self, component: int, several: bool, centre: float | None = None) -> None:
        self.kind = "low bits" if centre is None else "low bits of the distance"
        self.component, self.centre = component, centre
        self.name = f"output[{component}]" if several else "output"

    def classes(self, outputs: Outputs) -> IntArray:
        numbers = outputs.component(self.component)
        with np.errstate(invalid="ignore"):
            distances = numbers if self.centre is None else numbers - self.centre
        mantissa, size = np.frexp(distances)
        special = (distances == 0.0) | ~np.isfinite(distances)
        bits = (np.abs(np.where(special, 0.5, mantissa)) * 2.0**53).astype(np.int64)
        lowest = np.frexp((bits & -bits).astype(np.float64))[1] - 1 + size.astype(np.int64) - 53
        found = (size.astype(np.int64) + _OFFSET) * _WIDTH + lowest + _OFFSET
        odd = np.where(distances == 0.0, -2, -1) - 2 * np.signbit(distances)
        result: IntArray = np.where(special, odd, found)
        return result

    def words(self, classes: IntArray) -> str:
        name = self.name if self.centre is None else f"{self.name} - {self.centre!r}"
        usual = classes[classes >= 0]
        odd = [_ODD[int(each)] for each in classes[classes < 0]]
        if not usual.size:
            return f"{name} is {' or '.join(odd)}"
        sizes, lowest = usual // _WIDTH - _OFFSET, usual % _WIDTH - _OFFSET
        text = f"|{name}| from 2^{sizes.min() - 1} to 2^{sizes.max()}"
        if lowest.min() == lowest.max():
            text += f" with lowest set bit 2^{lowest.min()}"
        else:
            text += f" with lowest set bit 2^{lowest.min()} to 2^{lowest.max()}"
        text += f" ({usual.size} classes)" if usual.size > 1 else ""
        return text + "".join(f" or {each}" for each in odd)


def sortings(pooled: Outputs, inputs: Sequence[float]) -> Iterator[Sorting]:
    """Yield every sorting for outputs like these; sortings by distance use these inputs."""
    several = len(pooled.numbers) > 1
    values = _Values(pooled)
    if values.keys.size or not any(np.isfinite(numbers).any() for numbers in pooled.numbers):
        yield values
    for component, numbers in enumerate(pooled.numbers):
        for bins in _BINS if np.isfinite(numbers).any() else ():
            yield _Ranges(component, several, numbers, bins)
        if pooled.floats[component]:
            yield _LowBits(component, several)
            for centre in inputs:
                if centre != 0.0:
                    yield _LowBits(component, several, centre)


def _plain(output: object) -> object:
    return output.tolist() if isinstance(output, np.generic | np.ndarray) else output


_OFFSET = 1200
"""An offset that makes exponents of floats positive; they are at least -1,074."""
_WIDTH = 4096
_ODD = {-1: "infinite or not a number", -2: "0.0", -3: "minus infinity or not a number", -4: "-0.0"}
