"""The cost of sampling: against plain float sampling, and per call.

Run ``python -m benchmarks.speed.sampling``. Every figure is the best of several repeats. Compared functions
take turns, so that a busy machine slows both.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import numpy as np

from arcwise.domains import Circle, Interval
from arcwise.mechanisms import Hybrid, Mechanism, OptimalCircular, OptimalPiecewise, optimal_levels

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.typing import FloatArray

__all__ = ["run"]

EPSILON = 1.0
REPORTS = 1_000_000
CALLS = 50_000
REPEATS = 7


def interleaved(tasks: dict[str, Callable[[], object]], repeats: int = REPEATS) -> dict[str, float]:
    """Return the least seconds of each task, with all of them taking turns."""
    best = dict.fromkeys(tasks, float("inf"))
    for _ in range(repeats):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def float_sampler(values: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Sample the 3-piece density on [0, 1] in floats, one uniform per report, as code without a kernel would.

    Do *not* do this if privacy matters: the set of possible floats depends on the input.
    """
    p, q, c = optimal_levels(EPSILON)
    start = np.clip(values - c, 0.0, 1.0 - 2.0 * c)
    uniform = generator.random(values.size)
    left, inside = q * start, 2.0 * c * p
    return np.where(
        uniform < left,
        uniform / q,
        np.where(
            uniform < left + inside,
            start + (uniform - left) / p,
            start + 2.0 * c + (uniform - left - inside) / q,
        ),
    )


def array_sampling(mechanisms: dict[str, Mechanism]) -> None:
    generator = np.random.Generator(np.random.PCG64(1))
    values = generator.random(REPORTS)

    def randomize(mechanism: Mechanism) -> Callable[[], object]:
        given = values if mechanism.lattice is None else np.rint(99 * values)
        return lambda: mechanism.randomize_many(given)

    plain = "numpy floats (not private)"
    tasks: dict[str, Callable[[], object]] = {plain: lambda: float_sampler(values, generator)}
    tasks |= {name: randomize(mechanism) for name, mechanism in mechanisms.items()}
    best = interleaved(tasks, repeats=4 * REPEATS)  # each takes milliseconds, which a busy machine disturbs
    print(f"randomize_many, {REPORTS:,} reports, draws from a CSPRNG, best of {4 * REPEATS}:")
    for name, seconds in best.items():
        rate = REPORTS / seconds / 1e6
        print(f"  {name:28s} {rate:7.1f} million/s   speed / float sampler = {best[plain] / seconds:.2f}")


def scalar_sampling(mechanisms: dict[str, Mechanism]) -> None:
    def calls(mechanism: Mechanism) -> Callable[[], object]:
        def loop() -> None:
            randomize = mechanism.randomize
            for _ in range(CALLS):
                randomize(0.3)

        return loop

    best = interleaved({name: calls(mechanism) for name, mechanism in mechanisms.items()})
    print(f"randomize, one report a call, best of {REPEATS}:")
    for name, seconds in best.items():
        print(f"  {name:28s} {CALLS / seconds:11,.0f} calls/s")


def run() -> None:
    """Print all figures."""
    print(f"Python {sys.version.split()[0]}, numpy {np.__version__}, epsilon {EPSILON:g}")
    interval, circle = Interval(0, 1), Circle(1)
    mechanisms: dict[str, Mechanism] = {
        "inset": OptimalPiecewise(interval, EPSILON),
        "clamp": OptimalPiecewise(interval, EPSILON, placement="clamp"),
        "wrap": OptimalCircular(circle, EPSILON),
    }
    more: dict[str, Mechanism] = {
        "table (hybrid)": Hybrid(interval, EPSILON),
        "inset, 100 whole numbers": OptimalPiecewise(Interval(0, 99, step=1), EPSILON),
        "wrap, 100 whole numbers": OptimalCircular(Circle(100, step=1), EPSILON),
    }
    array_sampling(mechanisms | more)
    scalar_sampling(mechanisms)


if __name__ == "__main__":
    run()
