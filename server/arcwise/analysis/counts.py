"""Checks of tasks and of counts of reports, made before any computation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from arcwise.checks import shown
from arcwise.errors import ParameterError
from arcwise.mechanisms.base import Mechanism
from arcwise.tasks import Task

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from arcwise.typing import FloatArray


def checked_task(task: object, name: str = "task") -> Task:
    """Return a task, or raise `ParameterError` that says how to get one."""
    if not isinstance(task, Task):
        raise ParameterError(f"{name} must be a Task, such as Task.load(FILE) returns, got {shown(task)}")
    return task


def mechanism_of(task: object) -> Mechanism:
    """Return a mechanism, or the mechanism of a task; raise `ParameterError` for anything else."""
    return task if isinstance(task, Mechanism) else checked_task(task).mechanism


def shape_error(name: str, codes: int, got: object) -> ParameterError:
    """Return the error about counts of a wrong shape, which says how to count reports."""
    return ParameterError(
        f"{name} must have the shape ({codes},), one number per code; got {got}. task.count(codes) counts "
        "codes, which task.randomize(values) returns"
    )


def check_counts(counts: ArrayLike, codes: int, name: str = "counts") -> FloatArray:
    """Return counts as floats, shape (K,), or raise `ParameterError` with their name and the problem."""
    array = np.asarray(counts)
    if array.shape != (codes,):
        raise shape_error(name, codes, array.shape if array.shape else shown(counts))
    if array.dtype.kind not in "iu":
        raise ParameterError(f"{name} must be integers, got dtype {array.dtype}: see task.count")
    if array.min() < 0:
        raise ParameterError(f"{name} must be at least 0, got {int(array.min())} for code {array.argmin()}")
    total = sum(array.tolist())  # Python's integers do not wrap
    if total > _MAX_COUNT:
        raise ParameterError(f"{name} must sum to at most {_MAX_COUNT}, got {total}")
    if not total:
        raise ParameterError(f"{name} must hold at least one report: there are no reports yet")
    return array.astype(np.float64)


def same_units(task: Task, other: Task) -> bool:
    """Return whether the values of two tasks have the same unit, if both name one."""
    return task.unit == other.unit or None in {task.unit, other.unit}


def same_codes(task: Task, other: Task) -> bool:
    """Return whether each code means the same in both tasks, so that their counts may be added up.

    Comparing kernels is not enough: the placements "inset" and "clamp" may have the same kernel for different
    values.
    """
    one, two = (
        (each.domain, each.mechanism.name, each.mechanism.placement, each.mechanism.kernel)
        for each in (task, other)
    )
    return one == two


_MAX_COUNT = 2**53
"""Integers up to here are exact in a float."""
