"""CPU time of the default estimate at 128 nodes, over eleven populations and several epsilons.

    python -m benchmarks.speed.estimates [--reports 100000] [--epsilon 0.5 1 2 4] [--repeats 5] [--bands]

Milliseconds of the process, all threads together, for one `estimate(task, counts)`: the least of the repeats
on one survey, after one that is not counted. It exits with 1 if one takes more than 50. With --bands it also
measures `estimate(..., bands=True)`, which has no bound. Delays, departures and wind are those of the demo.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis import estimate
from arcwise.analysis.simulate import multinomial
from arcwise.tasks import Task
from benchmarks.studies.truths import CIRCLES, INTERVALS, case

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["run"]

MOST = 50.0
"""Milliseconds."""

EPSILONS = (0.5, 1.0, 2.0, 4.0)


def milliseconds(
    name: str, epsilon: float, reports: int, repeats: int, *, circular: bool, bands: bool
) -> float:
    """Return the least CPU time of an estimate of one survey."""
    mechanism, law, _ = case(name, epsilon, circular=circular)
    task = Task("a", mechanism.domain, epsilon, mechanism=mechanism)
    counts = multinomial(np.int64(reports), law, np.random.default_rng(1))
    least = float("inf")
    for repeat in range(repeats + 1):
        start = time.process_time()
        estimate(task, counts, bands=bands)
        if repeat:
            least = min(least, 1e3 * (time.process_time() - start))
    return least


def run(
    *, reports: int = 100_000, epsilons: Iterable[float] = EPSILONS, repeats: int = 3, bands: bool = False
) -> float:
    """Print a table of CPU times and return the largest."""
    epsilons = tuple(epsilons)
    what = "estimate(..., bands=True)" if bands else "the default estimate"
    print(f"CPU ms of {what}, 128 nodes, n = {reports:,}; epsilon:")
    print(f"  {'':<24} " + " ".join(f"{epsilon:>7g}" for epsilon in epsilons))
    everything = []
    for circular, names in ((False, INTERVALS), (True, CIRCLES)):
        for name in names:
            times = [
                milliseconds(name, epsilon, reports, repeats, circular=circular, bands=bands)
                for epsilon in epsilons
            ]
            everything += times
            label = f"{name}, circle" if circular else name
            print(f"  {label:<24} " + " ".join(f"{spent:7.1f}" for spent in times), flush=True)
    print(f"  median {np.median(everything):.1f}, worst {max(everything):.1f}")
    return max(everything)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--reports", type=int, default=100_000)
    parser.add_argument("--epsilon", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--bands", action="store_true")
    arguments = parser.parse_args()
    asked = {"reports": arguments.reports, "epsilons": arguments.epsilon, "repeats": arguments.repeats}
    worst = run(**asked)
    if arguments.bands:
        run(**asked, bands=True)
    if worst > MOST:
        print(f"MISSED: {worst:.1f} ms is more than {MOST:g}")
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())
