"""The test of a change over time: false alarms, power, and devices that report at several points.

    python -m benchmarks.studies.series [--epsilon 1 6] [--repeats 500] [--seed 1]

How often `arcwise.analysis.timeseries.series` finds a change at level 0.05, in a number of surveys for each
row. The table also shows its two parts: the test with a covariance for each point (Welch's; Johansen's on a
circle), and the test with a single covariance (analysis of variance); a change is shown if both find one.

- same: one population at all points. A rate above 0.05 is an error.
- spread: the mean stays; every other point has a wider spread and a tenth of the reports.
- moved: the mean moves half way through the points by 2 standard errors of a point's mean.
- panel: the same devices report at every point, each always with the same value.
- replaced: the devices of the panel are replaced by others of the same population after half of the points.

Before that, the CPU time of a series of 366 points, of means and of directions.

The standard error of a share of 0.05 in 500 surveys is 0.01.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from arcwise.analysis.estimators.mean import average
from arcwise.analysis.estimators.survey import Survey as Reports
from arcwise.analysis.simulate import as_population, simulate_counts
from arcwise.analysis.timeseries.series import change_of, series
from arcwise.domains import Circle, Interval
from arcwise.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from arcwise.typing import FloatArray

    Survey: TypeAlias = Callable[[np.random.Generator], list[FloatArray]]

LEVEL = 0.05
SKEWED, ROUND = "beta:2,5", "vonmises:10,2"


def surveys(task: Task) -> Iterator[tuple[str, str, int, int, Survey]]:
    """Yield name, population, points, reports a point and a function that draws the counts of all points."""
    circle = isinstance(task.domain, Circle)
    for text in (ROUND, "uniform") if circle else (SKEWED, "atom:0"):
        for points, reports in ((2, 30), (12, 30), (100, 30), (12, 1000), (100, 300)):
            yield "same", text, points, reports, _drawn(task, [(text, reports)] * points)
    if not circle:
        wide = "0.5*atom:0 + 0.5*atom:1"
        yield "spread", "atoms", 12, 1000, _drawn(task, [("atom:0.5", 1000), (wide, 100)] * 6)
        numbers = task.mechanism.code_units()
        counts = simulate_counts(task, as_population(SKEWED, task.domain), 10**9, np.random.default_rng(0))
        error = average(Reports(task.mechanism, counts.astype(np.float64)), numbers)[1] * np.sqrt(1e9 / 1000)
        middle = float(as_population(SKEWED, task.domain).mean())
        moved = f"{1 - 2 * error / (1 - middle):.12g}*{SKEWED} + rest*atom:1"
        yield "moved", SKEWED, 12, 1000, _drawn(task, [(SKEWED, 1000)] * 6 + [(moved, 1000)] * 6)
        for name, panels in (("panel", 1), ("replaced", 2)):
            yield name, SKEWED, 100, 300, _panels(task, panels, 100 // panels, 300)


def _drawn(task: Task, points: list[tuple[str, int]]) -> Survey:
    populations = [(as_population(text, task.domain), reports) for text, reports in points]
    return lambda rng: [simulate_counts(task, p, n, rng).astype(np.float64) for p, n in populations]


def _panels(task: Task, panels: int, points: int, devices: int) -> Survey:
    def draw(rng: np.random.Generator) -> list[FloatArray]:
        values = [rng.beta(2, 5, devices) for _ in range(panels)]
        return [
            simulate_counts(task, panel, devices, rng, fixed=True).astype(np.float64)
            for panel in values
            for _ in range(points)
        ]

    return draw


def a_year(task: Task) -> float:
    """Return the CPU seconds of a series of 366 points of 1,000 reports."""
    rng = np.random.default_rng(1)
    uniform = as_population("uniform", task.domain)
    counts = {20_000 + day: simulate_counts(task, uniform, 1000, rng) for day in range(366)}
    started = time.process_time()
    series(task, counts)
    return time.process_time() - started


def main() -> None:
    """Print the times, and a line for each kind of survey."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 6.0])
    parser.add_argument("--repeats", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for domain in (Interval(0, 1), Circle(360)):
        print(f"366 points of values in {domain}: {a_year(Task('timed', domain, 1.0)):.2f} s of CPU")
    print(
        f"{'survey':9}{'population':15}{'epsilon':>8}{'points':>8}{'reports':>8}{'found':>8}{'own':>8}{'pooled':>8}"
    )
    for epsilon in arguments.epsilon:
        for domain in (Interval(0, 1), Circle(360)):
            task = Task("studied", domain, epsilon)
            for name, text, points, reports, survey in surveys(task):
                rng = np.random.default_rng(arguments.seed)
                found = np.zeros(3)
                for _ in range(arguments.repeats):
                    change = change_of(task.mechanism, survey(rng))
                    if change is not None:
                        found += np.array([change.p, change.own, change.pooled]) < LEVEL
                shares = "".join(f"{each:8.3f}" for each in found / arguments.repeats)
                print(f"{name:9}{text:15}{epsilon:8g}{points:8}{reports:8}{shares}", flush=True)


if __name__ == "__main__":
    main()
