"""Whether intervals cover if the same devices report again, and the estimate is given the number of reports.

All devices keep a value, half of them do, or none does; answers are fresh or memoised; each device sends its
most reports, or from one up to that. ``python -m benchmarks.studies.same_devices`` prints the share of
surveys in which each kind of interval covers, by habit, number of reports, epsilon and population. The
intervals are those of an estimate, of the difference of two samples, of two strata, and of the points of a
series.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import defaultdict
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcwise.analysis import Estimate, compare_samples, estimate, post_stratify, series
from arcwise.domains import Circle, Interval
from arcwise.randomness import InsecureSeededRandomness
from arcwise.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.analysis.timeseries.result import Point
    from arcwise.typing import FloatArray, IntArray

__all__ = ["HABITS", "OFTEN", "POPULATIONS", "Habit", "drawn", "held", "reported", "tasks_of"]

POPULATIONS = ("normal", "rare", "two", "skew", "point")

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)

OFTEN = ((2, 1000), (7, 100), (30, 100), (30, 1000), (1000, 100))
"""The most reports of a device, and the number of devices."""


class Habit(NamedTuple):
    """A domain, how many devices keep their value, and whether answers are memoised."""

    kind: str
    keep: str
    memoised: bool


HABITS = [
    Habit(*each)
    for each in product(("interval", "circle"), ("all", "half", "none"), (False, True))
    if each[1:] != ("none", True)
]


def tasks_of(habit: Habit) -> list[Task]:
    """Return a task for each epsilon."""
    domain = Interval(0.0, 1.0) if habit.kind == "interval" else Circle(1.0)
    return [Task("habits", domain, epsilon, goal="distribution") for epsilon in EPSILONS]


def drawn(population: str, n: int, rng: np.random.Generator) -> FloatArray:
    """Return values of a population, on the unit interval."""
    laws = {
        "normal": lambda: np.clip(rng.normal(0.4, 0.2, n), 0.0, 1.0),
        "rare": lambda: np.where(rng.random(n) < 0.03, 0.999, 0.1),
        "two": lambda: np.where(rng.random(n) < 0.4, 0.15, 0.85),
        "skew": lambda: np.clip(rng.exponential(0.1, n), 0.0, 0.999),
        "point": lambda: np.full(n, 0.3),
    }
    values: FloatArray = laws[population]()  # type: ignore[no-untyped-call]
    return values


def reported(  # noqa: PLR0917
    task: Task,
    population: str,
    habit: str,
    most: int,
    devices: int,
    rng: np.random.Generator,
    *,
    memoised: bool,
) -> IntArray:
    """Return the counts of devices that sent from 1 to `most` reports, at least one of them all."""
    times = rng.integers(1, most + 1, devices) if rng.random() < 0.5 else np.full(devices, most)
    times[0] = most
    owner = np.repeat(np.arange(devices), times)
    values, new = drawn(population, devices, rng)[owner], drawn(population, len(owner), rng)
    own = {"all": owner >= 0, "half": owner % 2 == 0, "none": owner < 0}[habit]
    source = InsecureSeededRandomness(int(rng.integers(2**62)))
    first = np.unique(owner, return_index=True)[1]
    if memoised:
        kept = np.asarray(task.randomize(values[first], randomness=source))[owner]
        codes = np.where(own, kept, task.randomize(np.where(own, values, new), randomness=source))
    else:
        codes = task.randomize(np.where(own, values, new), randomness=source)
    return np.bincount(codes, minlength=task.mechanism.kernel.codes)


def held(result: Estimate | Point, truth: FloatArray) -> Iterator[tuple[str, bool]]:
    """Yield which intervals contain their truth, given many values of the population."""
    if result.direction is not None:
        moment = np.exp(2j * math.pi * truth).mean()
        low, high = result.direction.ends() or (0.0, 1.0)
        at = (float(np.angle(moment)) / (2 * math.pi) - low) % 1.0
        yield "direction", at <= high - low or at > 1.0 - 1e-4
        assert result.resultant_length is not None
        yield "length", result.resultant_length.contains(abs(moment))
        return
    assert result.mean is not None
    yield "mean", result.mean.contains(float(truth.mean()))
    if isinstance(result, Estimate):  # points of a series have no variance
        assert result.variance is not None
        yield "variance", result.variance.contains(float(truth.var()))
    for name, share in result.shares.items():
        low, high = map(float, name.split(":"))
        yield "share", share.contains(float(((truth >= low) & (truth <= high)).mean()))
    for level, value in result.quantiles.items():
        assert value.low is not None
        assert value.high is not None
        place = float(np.quantile(truth, float(level)))
        yield "quantile", value.low - 0.002 <= place <= value.high + 0.002


def survey(  # noqa: PLR0917
    habit: Habit, task: Task, name: str, often: tuple[int, int], truth: FloatArray, rng: np.random.Generator
) -> Iterator[tuple[str, bool]]:
    """Yield the results of one survey."""
    most, devices = often
    one, two = (
        reported(task, name, habit.keep, most, devices, rng, memoised=habit.memoised) for _ in range(2)
    )
    options: dict[str, Any] = {
        "reports_per_device": most,
        "memoised": habit.memoised,
        "between": [(0.0, 0.25), (0.9, 1.0)] if habit.kind == "interval" else [],
    }
    yield from held(estimate(task, one, **options), truth)
    weighted = post_stratify(task, {"one": one, "two": two}, {"one": 1.0, "two": 2.0}, **options)
    for sort, holds in held(weighted, truth):
        yield f"strata: {sort}", holds
    found = compare_samples(task, one, two, **options)
    differences = {"mean": found.mean, "direction": found.direction, "length": found.resultant_length}
    for sort, value in differences.items():
        if value is not None:
            yield f"difference: {sort}", value.contains(0.0)
    for sort, values in (("share", found.shares), ("quantile", found.quantiles)):
        for value in values.values():
            yield f"difference: {sort}", value.contains(0.0)
    for point in series(task, {0: one, 1: two}, **options).points:
        for sort, holds in held(point, truth):
            yield f"series: {sort}", holds


def main() -> None:
    """Run the study and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--surveys", type=int, default=4, help="of each cell")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng, start = np.random.default_rng(given.seed), time.process_time()
    truths = {name: drawn(name, 10**6, rng) for name in POPULATIONS}
    found: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for habit in HABITS:
        for task, name, often, _ in product(tasks_of(habit), POPULATIONS, OFTEN, range(given.surveys)):
            words = (
                f"{habit.keep} keep{' memoised' * habit.memoised}",
                f"{often[1]} x {often[0]}",
                f"epsilon {task.epsilon:g}",
                name,
            )
            for sort, holds in survey(habit, task, name, often, truths[name], rng):
                for word in ("all", *words):
                    found[sort, word].append(holds)
    for (sort, word), each in sorted(found.items()):
        print(f"{sort:<22} {word:<22} {sum(each):>6} of {len(each):<6} {np.mean(each):.3f}")
    print(f"{time.process_time() - start:.0f} s of CPU")


if __name__ == "__main__":
    main()
