"""Vectorised sampling beside loops that draw one report at a time: ``python benchmarks/loops.py``.

The loops are written as two kinds of code write them: local mechanisms as the scripts of their papers, with
scalars through numpy; additive noise and angles as diffprivlib, with the system's random source. One call per
value, parameters computed in the call. None of them is private (floats). Every mechanism of the registry is
compared with the loop of its kind; a mechanism that is a table has the loop that any table has,
``numpy.random.choice`` over its row.

Both sides take turns; rates are the best of several repeats.
"""

from __future__ import annotations

import math
import secrets
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sampling import REPORTS, interleaved

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from strategies import ALL_EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from arcwise.mechanisms import Mechanism

__all__ = ["run"]

EPSILON = 1.0
CALLS = 20_000
SYSTEM = secrets.SystemRandom()


def piecewise(x: float, epsilon: float) -> float:
    """Draw from the 3-piece density on [0, 1] as the scripts of its papers do."""
    p = np.exp(epsilon / 2)
    c = (np.exp(epsilon / 2) - 1) / (2 * (np.exp(epsilon) - 1))
    left, right = (0.0, 2 * c) if x < c else (1 - 2 * c, 1.0) if x > 1 - c else (x - c, x + c)
    if np.random.uniform(0, 1) < 2 * c * p:
        return float(np.random.uniform(left, right))
    if np.random.uniform(0, 1) < left / (left + 1 - right):
        return float(np.random.uniform(0, left))
    return float(np.random.uniform(right, 1))


def circular(x: float, epsilon: float) -> float:
    """Draw from the 3-piece density on the circle."""
    p = np.exp(epsilon / 2)
    c = (np.exp(epsilon / 2) - 1) / (2 * (np.exp(epsilon) - 1))
    if np.random.uniform(0, 1) < 2 * c * p:
        return float((x + np.random.uniform(-c, c)) % 1)
    return float((x + np.random.uniform(c, 1 - c)) % 1)


def staircase(x: float, epsilon: float) -> float:
    """Add staircase noise as diffprivlib does: four draws from the system's source."""
    gamma = 1 / (1 + math.exp(epsilon / 2))
    sign = -1 if SYSTEM.random() < 0.5 else 1
    steps = math.floor(math.log(1 - SYSTEM.random()) / -epsilon)
    inside = SYSTEM.random()
    second = SYSTEM.random() >= gamma / (gamma + (1 - gamma) * math.exp(-epsilon))
    return x + sign * (steps + gamma + (1 - gamma) * inside if second else steps + gamma * inside)


def laplace(x: float, epsilon: float) -> float:
    """Add Laplace noise as diffprivlib does: four draws from the system's source."""
    u1, u2, u3, u4 = (SYSTEM.random() for _ in range(4))
    noise = math.log(1 - u1) * math.cos(math.pi * u2) + math.log(1 - u3) * math.cos(math.pi * u4)
    return x - noise / epsilon


def gaussian(x: float, epsilon: float) -> float:
    """Add Gaussian noise as diffprivlib does."""
    noise = (SYSTEM.normalvariate(0, 1) + SYSTEM.normalvariate(0, 1)) / math.sqrt(2)
    return x + noise / epsilon


def geometric(x: float, epsilon: float) -> float:
    """Add two-sided geometric noise as diffprivlib does: by inversion."""
    uniform = SYSTEM.random() - 0.5
    scale = -epsilon
    uniform *= math.exp(scale) + 1
    sign = -1 if uniform < 0 else 1
    if abs(uniform) < 1e-300:
        return x
    return x + sign * math.floor(math.log(max(1 - 2 * abs(uniform) / (math.exp(scale) + 1), 1e-300)) / scale)


def binary(x: float, epsilon: float) -> float:
    """Answer with one of two outputs."""
    b = (np.exp(epsilon) + 1) / (np.exp(epsilon) - 1)
    up = (x * (np.exp(epsilon) - 1) + 1) / (np.exp(epsilon) + 1)
    return float(b if np.random.binomial(1, up) else -b)


def response(x: float, epsilon: float, k: int = 16) -> float:
    """Answer with the true cell or another one."""
    truth = int(x * k)
    if np.random.uniform(0, 1) < np.exp(epsilon) / (np.exp(epsilon) + k - 1):
        return truth
    other = np.random.randint(0, k - 1)
    return float(other if other < truth else other + 1)


def von_mises(x: float, epsilon: float) -> float:
    """Turn by a von Mises angle."""
    return (x + SYSTEM.vonmisesvariate(0.0, epsilon / 2)) % (2 * math.pi)


def table(mechanism: Mechanism) -> Callable[[float, float], float]:
    """Return the loop over a row of probabilities."""
    row, codes = mechanism.kernel.matrix()[0], np.arange(mechanism.kernel.codes)

    def draw(x: float, epsilon: float) -> float:
        return float(np.random.choice(codes, p=row))

    return draw


LOOPS: dict[str, Callable[[float, float], float]] = {
    "optimal-piecewise": piecewise,
    "optimal-circular": circular,
    "piecewise": piecewise,
    "piecewise-sub": piecewise,
    "piecewise-opt": piecewise,
    "piecewise-transformation": piecewise,
    "unbiased-optimal-piecewise": piecewise,
    "square-wave": piecewise,
    "staircase": staircase,
    "laplace": laplace,
    "gaussian": gaussian,
    "geometric": geometric,
    "duchi": binary,
    "randomized-response": response,
    "von-mises": von_mises,
}
"""The loop of a mechanism's kind by its name; the others have the loop over their table."""


def repeat(draw: Callable[[float, float], float], values: NDArray[np.float64]) -> None:
    """Draw one report for each value."""
    for x in values.tolist():
        draw(x, EPSILON)


def run() -> None:
    """Print the rates of every mechanism and of its loop, and their least ratio."""
    generator = np.random.Generator(np.random.PCG64(1))
    units = generator.random(REPORTS)
    made = {example.label: example.make(EPSILON) for example in ALL_EXAMPLES}
    print(f"randomize_many, {REPORTS:,} reports, epsilon {EPSILON:g}, beside a loop of {CALLS:,} calls:")
    print(f"  {'':32s} {'vectorised':>12s} {'loop':>14s} {'ratio':>7s}")
    ratios = []
    for label, mechanism in made.items():
        domain: Any = mechanism.domain
        values = getattr(domain, "low", 0.0) + domain.length * units
        draw = LOOPS.get(mechanism.name) or table(mechanism)

        best = interleaved(
            {"many": partial(mechanism.randomize_many, values), "loop": partial(repeat, draw, units[:CALLS])},
            repeats=3,
        )
        many, single = REPORTS / best["many"], CALLS / best["loop"]
        ratios.append(many / single)
        name = f"{label} ({mechanism.kernel.codes} codes)"
        print(f"  {name:32s} {many / 1e6:9.1f} M/s {single / 1e3:10.0f} k/s {many / single:7.0f}")
    print(f"  least ratio: {min(ratios):.0f}")


if __name__ == "__main__":
    run()
