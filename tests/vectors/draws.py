"""Draws to codes: at the ends of every branch of the samplers, and where rounding to nodes turns over."""

from __future__ import annotations

import hashlib
import math
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from arcwise.domains import Circle, Interval
from arcwise.kernels import WindowKernel
from fixed_draw import FixedDraw

if TYPE_CHECKING:
    from arcwise.mechanisms import Mechanism
    from arcwise.tasks import Task

__all__ = ["draws", "values_outside"]

TOP = 2**64 - 1


def _node(mechanism: Mechanism, value: float, r: int) -> int:
    position = mechanism.position(mechanism.domain.to_unit(value))
    node = math.floor(position)
    return (node + ((r >> 11) * 2.0**-53 < position - node)) % mechanism.kernel.nodes


def _window_edges(k: WindowKernel) -> tuple[list[int], int, int]:
    """Return draws at the edges of the sampler's branches, the first inside and the last before leftovers."""
    edges = [0, k.background - 1, k.background, k.inside_from - 1, k.inside_from, k.inside_from + k.extra - 1]
    edges += [k.inside_from + k.extra, k.leftover_from - 1, *([k.leftover_from] if k.leftover else []), TOP]
    return edges, k.inside_from, k.leftover_from - 1


def _between(domain: Interval | Circle) -> list[float]:
    """Return values whose nodes are no round numbers, on a circle negative and far away too."""
    values = [domain.length * share for share in (0.1, 1 / 3, 0.456789, 0.7, 0.987654321)]
    if isinstance(domain, Interval):
        return [domain.low + value for value in values]
    return [*values, -1e-9, -values[2], -1e6 - values[1], 1e15 + values[3], 5e-324]


def _thresholds(mechanism: Mechanism, value: float) -> list[int]:
    """Return the largest r that rounds a value up and the smallest that rounds it down, where there are.

    One unit in the last place of the real-valued node moves them, so they show whether a client computes it
    in the order that the protocol states.
    """
    position = mechanism.position(mechanism.domain.to_unit(value))
    first_down = math.ceil((position - math.floor(position)) * 2.0**53)
    return [r for r in (first_down * 2**11 - 1, first_down * 2**11) if 0 <= r <= TOP]


def draws(task: Task) -> list[dict[str, Any]]:
    mechanism, domain = task.mechanism, task.domain
    k = mechanism.kernel
    if isinstance(domain, Interval):
        values = [
            domain.low,
            domain.low + 0.3 * domain.length,
            domain.low + 0.77 * domain.length,
            domain.high,
        ]
        values += [-1000.0, 1000.0] if domain.clip else []
    else:
        values = [0.0, 0.3 * domain.period, -1e-300, -0.01 * domain.period, 12.34 * domain.period]
    if isinstance(k, WindowKernel):
        edges, inside, last = _window_edges(k)
    else:
        ends = list(accumulate(k.row(0)))
        edges = [u for end in ends[:3] + ends[-3:] for u in (end - 1, end)]
        inside, last = ends[0], ends[-2] - 1
    middle = int.from_bytes(hashlib.sha256(b"arcwise").digest()[:8], "little")
    cases = [(value, r, inside) for value in values for r in (0, 2**62, 3 * 2**62, TOP)]
    cases += [(values[1], middle, u) for u in edges]
    cases += [(values[-1], TOP, last), (values[2], 2**11 - 1, last)]
    cases += [(value, r, inside) for value in _between(domain) for r in _thresholds(mechanism, value)]
    return [
        {
            "value": value,
            "r": str(r),
            "u": str(u),
            "node": _node(mechanism, value, r),
            "code": mechanism.randomize(value, randomness=FixedDraw(r, u)),
        }
        for value, r, u in cases
        if 0 <= u <= TOP
    ]


def values_outside(task: Task) -> list[float | None]:
    """Return what is no value of the task's domain; None stands for NaN, which JSON does not have."""
    domain = task.domain
    if isinstance(domain, Circle) or domain.clip:
        return [None]
    return [None, math.nextafter(domain.low, -math.inf), math.nextafter(domain.high, math.inf), 1e308, -1e308]
