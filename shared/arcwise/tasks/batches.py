"""Randomising and counting whole columns of values that are already collected, for tasks and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.columns import read_column
from arcwise.errors import DomainError, ParameterError
from arcwise.lattice import places_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from arcwise.domains import Domain
    from arcwise.mechanisms.base import Mechanism
    from arcwise.randomness import Randomness
    from arcwise.typing import BoolArray, FloatArray, IntArray


def randomize_column(mechanism: Mechanism, values: Any, missing: str, randomness: Randomness) -> NDArray[Any]:
    """Return one code for each value, see `Task.randomize`."""
    numbers, absent = _checked(values, missing)
    if absent.any():
        _check_places(mechanism.domain, numbers, absent)
        numbers = numbers[~absent]
    return mechanism.randomize_many(numbers, randomness=randomness)


def randomize_columns(
    mechanisms: Mapping[str, Mechanism],
    sample: int | None,
    columns: Any,
    missing: str,
    randomness: Randomness,
) -> dict[str, NDArray[Any]]:
    """Return the codes of a round for each row, see `Group.randomize`."""
    found = {
        name: _checked_of(name, mechanism.domain, columns, missing) for name, mechanism in mechanisms.items()
    }
    shapes = {name: numbers.shape for name, (numbers, _) in found.items()}
    if len(set(shapes.values())) > 1 or any(len(shape) != 1 for shape in shapes.values()):
        raise ParameterError(f"columns must have one dimension and one length, got the shapes {shapes}")
    rows = next(iter(shapes.values()))[0]
    chosen = _chosen(rows, len(mechanisms), sample, randomness)
    codes = {}
    for number, (name, mechanism) in enumerate(mechanisms.items()):
        numbers, absent = found[name]
        kept = numbers[chosen[:, number] & ~absent]
        codes[name] = mechanism.randomize_many(kept, randomness=randomness)
    return codes


def count_codes(bound: int, codes: Any) -> IntArray:
    """Return how often each code below `bound` occurs, see `Task.count`."""
    whole = isinstance(codes, np.ndarray) and codes.dtype.kind in "iu"
    flat = (codes if whole else read_column(codes, "codes")).ravel()
    if not whole or (flat.size and (flat.min() < 0 or flat.max() >= bound)):
        wrong = ~((flat >= 0) & (flat < bound) & (flat == np.floor(flat)))  # NaN too
        if wrong.any():
            raise DomainError(f"codes must be integers in [0, {bound}); {places_of(wrong)}")
    total = np.zeros(bound, np.int64)
    for start in range(0, flat.size, _SLICE):  # in slices, since numpy widens its input to 64 bits
        total += np.bincount(flat[start : start + _SLICE].astype(np.intp), minlength=bound)
    return total


def _checked(values: Any, missing: str) -> tuple[FloatArray, BoolArray]:
    """Return a column and a mask of its missing values; raise `DomainError` if they are not allowed."""
    if missing not in ("error", "drop"):
        raise ParameterError(f'missing must be "error" or "drop", got {missing!r}')
    numbers = read_column(values)
    absent = np.asarray(np.isnan(numbers))
    if absent.any() and missing == "error":
        raise DomainError(
            f"values must not be missing, got {int(absent.sum()):,} of {absent.size:,} missing, the "
            f'first at index {int(absent.argmax())}; leave them out with missing="drop"'
        )
    return numbers, absent


def _check_places(domain: Domain, numbers: FloatArray, absent: BoolArray) -> None:
    """Refuse values outside the domain before missing values are dropped, so that errors give their index."""
    domain.to_unit_many(np.where(absent, domain.start, numbers))


def _checked_of(name: str, domain: Domain, columns: Any, missing: str) -> tuple[FloatArray, BoolArray]:
    try:
        column = columns[name]
    except Exception:  # each library raises its own
        raise ParameterError(f"columns must include {name!r}, since the group has this task") from None
    try:
        numbers, absent = _checked(column, missing)
        _check_places(domain, numbers, absent)  # before any row is randomised
    except DomainError as error:
        raise DomainError(f"{name!r}: {error}") from None
    return numbers, absent


def _chosen(rows: int, tasks: int, sample: int | None, randomness: Randomness) -> BoolArray:
    """Return which tasks each row reports, shape (rows, d); every set of k tasks is equally likely.

    The function draws like `Group.choose`, but for all rows together.
    """
    if sample is None:
        return np.ones((rows, tasks), bool)
    chosen = np.zeros((rows, tasks), bool)
    for start in range(0, rows, _ROWS):
        each = np.arange(min(_ROWS, rows - start))
        places = np.tile(np.arange(tasks, dtype=np.uint8), (each.size, 1))
        for i in range(sample):
            j = i + _below(tasks - i, each.size, randomness)
            places[each, j], places[:, i] = places[:, i].copy(), places[each, j]
        chosen[start + each[:, None], places[:, :sample]] = True
    return chosen


def _below(bound: int, count: int, randomness: Randomness) -> NDArray[np.int64]:
    """Return uniform integers in [0, bound), from the second halves of draws."""
    u = _halves(count, randomness)
    above = 2**64 % bound  # this many of the largest u are discarded, so that a multiple of bound remains
    while above and (again := np.flatnonzero(u >= np.uint64(2**64 - above))).size:
        u[again] = _halves(again.size, randomness)
    below: NDArray[np.int64] = (u % np.uint64(bound)).astype(np.int64)
    return below


def _halves(count: int, randomness: Randomness) -> NDArray[np.uint64]:
    halves: NDArray[np.uint64] = np.frombuffer(randomness.draws(count), "<u8")[1::2].copy()
    return halves


_SLICE = 1 << 20
"""The number of codes that are counted in one slice."""

_ROWS = 1 << 14
"""The number of rows whose tasks are drawn together: the block size of `Mechanism.randomize_many`."""
