"""Draws to codes: at the ends of every branch of the samplers, and where rounding to nodes switches."""

from __future__ import annotations

import hashlib
import math
from decimal import Decimal
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from arcwise.domains import Circle, Interval
from arcwise.kernels import WindowKernel
from tests.support.fixed_draw import FixedDraw

if TYPE_CHECKING:
    from arcwise.mechanisms import Mechanism
    from arcwise.tasks import Task


TOP = 2**64 - 1


def _position(mechanism: Mechanism, value: float) -> float:
    """Return the real-valued node of a value, by the steps of the protocol."""
    domain = mechanism.domain
    if domain.lattice is None or domain.lattice.size > 1024:
        return mechanism.position(domain.to_unit(value))
    place, kernel = domain.to_place(value), mechanism.kernel
    half = kernel.window // 2 if isinstance(kernel, WindowKernel) else 0
    if mechanism.placement == "wrap":
        return (place - half) % kernel.codes
    return place if mechanism.placement == "inset" else min(max(place - half, 0.0), kernel.nodes - 1.0)


def _node(mechanism: Mechanism, value: float, r: int) -> int:
    position = _position(mechanism, value)
    node = math.floor(position)
    return (node + ((r >> 11) * 2.0**-53 < position - node)) % mechanism.kernel.nodes


def _window_edges(k: WindowKernel) -> tuple[list[int], int, int]:
    """Return draws at the edges of the sampler's branches, the first inside and the last before leftovers."""
    edges = [0, k.background - 1, k.background, k.inside_from - 1, k.inside_from, k.inside_from + k.extra - 1]
    edges += [k.inside_from + k.extra, k.leftover_from - 1, *([k.leftover_from] if k.leftover else []), TOP]
    return edges, k.inside_from, k.leftover_from - 1


def _between(domain: Interval | Circle) -> list[float]:
    """Return values whose nodes are not round numbers; on a circle also negative and distant ones."""
    values = [domain.length * share for share in (0.1, 1 / 3, 0.456789, 0.7, 0.987654321)]
    if domain.lattice is not None:
        # Values with float noise, which still count; and numbers between two values, if that is allowed.
        known, small = _decimals(domain), domain.lattice.step * 2.0**-17
        low = domain.low if isinstance(domain, Interval) else 0.0
        noisy = [known[1] - small, known[-2] + small, known[0] - small, known[-1] + small]
        return [*noisy, *(low + value for value in values if domain.rounding != "refuse")]
    if isinstance(domain, Interval):
        return [domain.low + value for value in values]
    return [*values, -1e-9, -values[2], -1e6 - values[1], 1e15 + values[3], 5e-324]


def _thresholds(mechanism: Mechanism, value: float) -> list[int]:
    """Return the largest r that rounds a value up and the smallest that rounds it down, if they exist.

    One unit in the last place of the real-valued node moves them, so they show whether a client computes it
    in the order of the protocol.
    """
    position = _position(mechanism, value)
    first_down = math.ceil((position - math.floor(position)) * 2.0**53)
    return [r for r in (first_down * 2**11 - 1, first_down * 2**11) if 0 <= r <= TOP]


def draws(task: Task) -> list[dict[str, Any]]:
    mechanism, domain = task.mechanism, task.domain
    k = mechanism.kernel
    if domain.lattice is not None:
        values = _on_lattice(domain)
    elif isinstance(domain, Interval):
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
    if domain.lattice is not None and domain.lattice.size <= 101:  # each value, as a decimal and as a product
        cases += [(value, TOP, inside) for value in {*_decimals(domain), *domain.values().tolist()}]
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


def _on_lattice(domain: Interval | Circle) -> list[float]:
    """Return values of a lattice: the first, some inner ones, the last; also clipped, or turns away."""
    known = _decimals(domain)
    values = [known[0], known[len(known) // 3], known[3 * len(known) // 4], known[-1]]
    if isinstance(domain, Circle):
        return [*values, -1e-300, known[1] - 2 * domain.period, known[-1] + 5 * domain.period]
    return [*values, -1000.0, 1000.0] if domain.clip else values


def _decimals(domain: Interval | Circle) -> list[float]:
    """Return the values as people write them: the floats of decimals, which multiples of a step miss."""
    low, step, size = (domain.low if isinstance(domain, Interval) else 0.0), domain.step, domain.size
    assert step is not None
    assert size is not None
    return [float(Decimal(repr(low)) + k * Decimal(repr(step))) for k in range(size)]


def values_outside(task: Task) -> list[float | None]:
    """Return numbers outside the task's domain; None represents NaN, which JSON does not have."""
    domain = task.domain
    between: list[float | None] = []
    if domain.lattice is not None and domain.rounding == "refuse":
        known, step = _decimals(domain), domain.lattice.step
        between = [known[1] + step / 2, known[0] + step * 2.0**-15, known[-1] - step / 3]
    if isinstance(domain, Circle) or domain.clip:
        return [None, *between]
    if domain.lattice is not None:
        far = domain.lattice.step * 2.0**-15
        return [None, *between, domain.low - far, domain.high + far, 1e308, -1e308]
    return [None, math.nextafter(domain.low, -math.inf), math.nextafter(domain.high, math.inf), 1e308, -1e308]
