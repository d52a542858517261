"""Counts of reports, checked before anything is computed from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from arcwise.tasks import Task
    from arcwise.typing import FloatArray

__all__ = ["check_counts", "same_codes", "same_units"]


def check_counts(counts: ArrayLike, codes: int, name: str = "counts") -> FloatArray:
    """Return counts as floats, shape (K,), or raise `ParameterError` that names them and what is wrong."""
    array = np.asarray(counts)
    if array.shape != (codes,):
        raise ParameterError(f"{name} must have the shape ({codes},), one number per code; got {array.shape}")
    if array.dtype.kind not in "iu":
        raise ParameterError(f"{name} must be integers, got dtype {array.dtype}")
    if array.min() < 0:
        raise ParameterError(f"{name} must be at least 0, got {int(array.min())} for code {array.argmin()}")
    total = sum(array.tolist())  # Python's integers do not wrap
    if total > _MAX_COUNT:
        raise ParameterError(f"{name} must sum to at most {_MAX_COUNT}, got {total}")
    if not total:
        raise ParameterError(f"{name} must hold at least one report: there are no reports yet")
    return array.astype(np.float64)


def same_units(task: Task, other: Task) -> bool:
    """Return whether the values of two tasks are in one unit, as far as both name theirs."""
    return task.unit == other.unit or None in {task.unit, other.unit}


def same_codes(task: Task, other: Task) -> bool:
    """Return whether a code says the same of a value in both tasks: its counts may be added up.

    One kernel is not enough: "inset" and "clamp" may have the same one for other values.
    """
    one, two = (
        (each.domain, each.mechanism.name, each.mechanism.placement, each.mechanism.kernel)
        for each in (task, other)
    )
    return one == two


_MAX_COUNT = 2**53
"""Integers up to here are exact in a float."""
