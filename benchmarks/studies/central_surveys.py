"""The value of a central epsilon of 1: the same surveys at the local epsilon that it allows, and at 1.

``python -m benchmarks.studies.central_surveys`` finds the largest local epsilon at which the counts of 10,000
reports are central 1 at delta 1e-8. It simulates 20 surveys of each population at this epsilon and at local
epsilon 1, with the estimator that the server uses. It prints the mean Wasserstein-1 distance to the values of
those who report, as a share of the range, and exits with 1 if the second is not 7 times the first. The
uniform population is printed without a claim: at local epsilon 1 the estimate errs least there.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from arcwise.analysis.central_privacy.promise import largest_local
from arcwise.analysis.estimators.wasserstein import wasserstein
from arcwise.analysis.likelihood.distribution import fit_held_out
from arcwise.analysis.simulate import as_population, simulate_counts
from arcwise.analysis.threads import one_thread
from arcwise.domains import Interval
from arcwise.tasks import CentralStatement, Task

POPULATIONS = ("0.6*normal:0.3,0.05 + 0.4*normal:0.75,0.1", "beta:2,5", "normal:0.4,0.1", "uniform")
UNCLAIMED = "uniform"
UNIT = Interval(0, 1)
LOCAL = 1.0
WORTH = 7.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--surveys", type=int, default=20)
    parser.add_argument("--reports", type=int, default=10_000)
    given = parser.parse_args()
    statement = CentralStatement(1.0, 1e-8, given.reports)
    allowed = largest_local(statement, lambda epsilon: Task("survey", UNIT, epsilon).mechanism.kernel)
    print(f"{given.surveys} surveys of {given.reports:,} reports, mean distance in parts of the range\n")
    print(f"| population | local epsilon {LOCAL:g} | central epsilon 1, local {allowed:g} | ratio |")
    print("| --- | --- | --- | --- |")
    failed = False
    for line in POPULATIONS:
        before, after = (
            distance(line, epsilon, given.surveys, given.reports) for epsilon in (LOCAL, allowed)
        )
        failed |= line != UNCLAIMED and before < WORTH * after
        print(f"| {line} | {before:.4f} | {after:.5f} | {before / after:.1f} |")
    return int(failed)


@one_thread()
def distance(line: str, epsilon: float, surveys: int, reports: int) -> float:
    """Return the mean distance of the estimates to the values of those who report."""
    mechanism = Task("survey", UNIT, epsilon).mechanism
    population = as_population(line, UNIT)
    found = []
    for seed in range(surveys):
        generator = np.random.default_rng([seed, 19])
        values = population.draw(reports, generator)
        counts = simulate_counts(mechanism, values, reports, generator, fixed=True).astype(np.float64)
        found.append(wasserstein(mechanism, fit_held_out(mechanism, counts).probabilities, values))
    return float(np.mean(found))


if __name__ == "__main__":
    sys.exit(main())
