"""Vectorised sampling against loops that draw one report at a time: ``python -m benchmarks.speed.loops``.

The loops follow two kinds of code. Local mechanisms follow the scripts of their papers, with scalars through
numpy; additive noise and angles follow diffprivlib, with the system's random source. There is one call per
value, and parameters are computed in the call. None of the loops is private (floats). Every mechanism of the
registry is compared with the loop of its kind; a mechanism that is a table has the loop of any table,
``numpy.random.choice`` over its row.

The first ratio is to the faster of two typical loops: the paper's own loop of the 3-piece density, and
diffprivlib's of staircase noise. The second is to the loop of the mechanism's own kind. For the simplest, a
single draw and two exponentials, this loop is three times as fast, and most of the time here goes into the 16
bytes of the operating system's CSPRNG that every report takes.

Both sides take turns; rates are the best of several repeats.
"""

from __future__ import annotations

import math
import secrets
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise import noise
from benchmarks.speed.sampling import REPORTS, interleaved
from tests.support.strategies import ALL_EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.mechanisms import Mechanism
    from arcwise.typing import FloatArray

__all__ = ["run"]

EPSILON = 1.0
CALLS = 20_000
SYSTEM = secrets.SystemRandom()


def piecewise(x: float, epsilon: float) -> float:
    """Draw from the 3-piece density on [0, 1] like the scripts of its papers."""
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
    """Add staircase noise like diffprivlib: four draws from the system's source."""
    gamma = 1 / (1 + math.exp(epsilon / 2))
    sign = -1 if SYSTEM.random() < 0.5 else 1
    steps = math.floor(math.log(1 - SYSTEM.random()) / -epsilon)
    inside = SYSTEM.random()
    second = SYSTEM.random() >= gamma / (gamma + (1 - gamma) * math.exp(-epsilon))
    return x + sign * (steps + gamma + (1 - gamma) * inside if second else steps + gamma * inside)


def laplace(x: float, epsilon: float) -> float:
    """Add Laplace noise like diffprivlib: four draws from the system's source."""
    u1, u2, u3, u4 = (SYSTEM.random() for _ in range(4))
    noise = math.log(1 - u1) * math.cos(math.pi * u2) + math.log(1 - u3) * math.cos(math.pi * u4)
    return x - noise / epsilon


def gaussian(x: float, epsilon: float) -> float:
    """Add Gaussian noise like diffprivlib."""
    noise = (SYSTEM.normalvariate(0, 1) + SYSTEM.normalvariate(0, 1)) / math.sqrt(2)
    return x + noise / epsilon


def geometric(x: float, epsilon: float) -> float:
    """Add two-sided geometric noise like typical scripts: the difference of two geometric numbers."""
    p = 1 - np.exp(-epsilon)
    return float(x + np.random.geometric(p) - np.random.geometric(p))


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


def repeat(draw: Callable[[float, float], float], values: FloatArray) -> None:
    """Draw one report for each value."""
    for x in values.tolist():
        draw(x, EPSILON)


def mechanisms(units: FloatArray) -> list[float]:
    """Print the rates of every mechanism and of its loop, and return their ratios."""
    print(f"randomize_many, {REPORTS:,} reports, epsilon {EPSILON:g}, beside loops of {CALLS:,} calls;")
    print("  rate, ratio to the typical loops; rate of the loop of its own kind, ratio to it")
    ratios = []
    for example in ALL_EXAMPLES:
        mechanism = example.make(EPSILON)
        domain: Any = mechanism.domain
        values = getattr(domain, "low", 0.0) + domain.length * units
        draw = LOOPS.get(mechanism.name) or table(mechanism)
        name = f"{example.label} ({mechanism.kernel.codes} codes)"
        ratios.append(compare(name, partial(mechanism.randomize_many, values), draw, units))
    return ratios


def distributions(units: FloatArray) -> list[float]:
    """Print the rates of the noise distributions and of the loop of their kind, and return the ratios."""
    print(f"rvs of arcwise.noise, {REPORTS:,} samples (floats, for simulation):")
    generator = np.random.Generator(np.random.PCG64(1))
    noises: dict[str, tuple[Any, Callable[[float, float], float]]] = {
        "Laplace": (noise.Laplace(EPSILON), laplace),
        "Staircase": (noise.Staircase.optimal(EPSILON), staircase),
        "Geometric": (noise.Geometric(EPSILON), geometric),
        "DiscreteStaircase": (noise.DiscreteStaircase.optimal(EPSILON, 5), staircase),
        "TruncatedLaplace": (noise.TruncatedLaplace(EPSILON, 1e-6), laplace),
        "UniformAtom": (noise.UniformAtom.optimal(0.1), laplace),
        "AnalyticGaussian": (noise.AnalyticGaussian(EPSILON, 1e-6), gaussian),
    }
    return [
        compare(name, partial(one.rvs, REPORTS, generator=generator), draw, units)
        for name, (one, draw) in noises.items()
    ]


def compare(
    name: str, many: Callable[[], object], draw: Callable[[float, float], float], units: FloatArray
) -> float:
    """Print both ratios, and return that to the faster of the two typical loops."""
    loops = {"own": draw, "piecewise": piecewise, "staircase": staircase}
    best = interleaved(
        {"many": many} | {key: partial(repeat, loop, units[:CALLS]) for key, loop in loops.items()}, repeats=3
    )
    vectorised, single = REPORTS / best["many"], CALLS / best["own"]
    typical = CALLS / min(best["piecewise"], best["staircase"])
    print(
        f"  {name:40s} {vectorised / 1e6:5.1f} M/s {vectorised / typical:6.0f}  "
        f"{single / 1e3:4.0f} k/s {vectorised / single:6.0f}"
    )
    return vectorised / typical


def run() -> None:
    """Print all rates and the least ratios."""
    units = np.random.Generator(np.random.PCG64(1)).random(REPORTS)
    print(f"  least ratio: {min(mechanisms(units)):.0f}")
    print(f"  least ratio: {min(distributions(units)):.0f}")


if __name__ == "__main__":
    run()
