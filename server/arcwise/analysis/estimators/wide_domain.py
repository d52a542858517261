"""A note for domains that are far wider than what they hold: which bounds would serve, and what they cost."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from arcwise.analysis.estimators.notes import all_notes

if TYPE_CHECKING:
    from arcwise.analysis.estimators.result import Estimate
    from arcwise.tasks import Task

_PART = 0.01
"""The part of the domain that holds nine in ten values where a note says so."""

_CELLS, _MOST = 2.5, 0.025
"""Cells that a fit to values at a single place spreads over, which count as that part, up to the second."""

_SURE = 0.05
"""The part of the domain beyond which the intervals of the two quantiles leave the range open."""

_WORTH = 3.0
"""How many times shorter proposed bounds are at least."""

_ROOM = 2.0
"""Lengths of that range that proposed bounds leave on either side."""


def told_if_wide(result: Estimate, task: Task) -> Estimate:
    """Return an estimate whose mean has the note, where there is one."""
    note = _wide_note(result, task)
    if not note or result.mean is None:
        return result
    return replace(result, mean=replace(result.mean, notes=all_notes(result.mean.notes, note)))


def _wide_note(result: Estimate, task: Task) -> str:
    """Return a note on a domain about a hundred times wider than its values, or "" for other domains.

    The values are narrow if the quantiles 0.05 and 0.95 are at most a hundredth of the domain apart, or as
    near as the task's grid can show, and their intervals together cover at most a twentieth.
    """
    domain = task.domain
    if domain.circular or not {"0.05", "0.95"} <= set(result.quantiles):
        return ""
    first, last = result.quantiles["0.05"], result.quantiles["0.95"]
    if first.value is None or last.value is None or first.low is None or last.high is None:
        return ""
    cell = domain.length / max(task.mechanism.kernel.nodes - 1, 1)
    narrow = max(_PART * domain.length, min(_CELLS * cell, _MOST * domain.length))
    if last.value - first.value > narrow or last.high - first.low > _SURE * domain.length:
        return ""
    width = max(last.high - first.low, cell)
    step = 10.0 ** math.floor(math.log10(width))
    low = max(math.floor((first.low - _ROOM * width) / step) * step, domain.low)
    high = min(math.ceil((last.high + _ROOM * width) / step) * step, domain.high)
    ratio = domain.length / (high - low)
    if ratio < _WORTH:
        return ""
    unit = "" if task.unit is None else f" {task.unit}"
    return (
        f"nine in ten values lie between {first.low:.6g} and {last.high:.6g}{unit}, and the error of a mean "
        f"grows with the length of the domain: bounds from {low:.6g} to {high:.6g} with clip=True would make "
        f"it about {ratio:.2g} times smaller. Bounds that are read from this estimate cost no device more "
        "privacy, but they publish that most values lie there, and reports of the new task spend epsilon of "
        "their own"
    )
