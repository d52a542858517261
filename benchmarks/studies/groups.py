"""Groups of tasks: how many a device should report, best shares of epsilon, and coverage.

    python -m benchmarks.studies.groups [--surveys 1000] [--parts sample shares coverage]

sample: the best k of d tasks and the rule of Wang et al. (2019), and how much larger the rule's summed
squared error is, for d intervals and d circles; and the same at the worst epsilon between 0.5 and 20.

shares: the epsilon of a direction and of a distance with the least summed error, and how much larger the
error of equal shares is.

coverage: how often intervals of 95 % for the devices of a group contain the truth if 6,000 devices draw one
of d tasks, with and without the correction for drawing.

The first two are computed from the integers that devices sample from; the last is simulated with fixed seeds.
Exits with 1 if the rule's error is more than 1.3 times the least, or a corrected interval covers less than
0.92 (for a coverage of 0.95, 1,000 surveys show less with a probability of 2e-5).
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.estimators.mean import mean
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.planning import best_shares, report_error, sample_errors
from arcwise.analysis.simulate import simulate_counts
from arcwise.domains import Circle, Interval
from arcwise.tasks import Task
from arcwise.tasks.group_budget import wang_sample

if TYPE_CHECKING:
    from arcwise.analysis.planning.sharing import Measure
    from arcwise.domains import Domain

KINDS: dict[str, Domain] = {"intervals": Interval(0, 1), "circles": Circle(360)}
WALK: dict[str, Domain] = {"direction": Circle(360), "distance": Interval(0, 50)}
EPSILONS = (1.0, 2.0, 3.0, 3.5, 4.0, 4.5, 4.9, 5.0, 6.0, 7.4, 8.0, 9.9, 12.0, 16.0, 20.0)


def rule_and_best(domain: Domain, count: int, epsilon: float) -> tuple[int, int, float]:
    """Return k by the rule, the best k, and the ratio of the rule's error to the best."""
    errors = sample_errors({str(i): domain for i in range(count)}, epsilon)
    best = min(errors, key=lambda each: each.error)
    rule = wang_sample(epsilon, count)
    return rule, best.sample, errors[rule - 1].error / best.error


def sample_table() -> float:
    largest = 1.0
    for kind, domain in KINDS.items():
        for count in (2, 4, 8):
            print(f"\n{count} {kind}\n{'epsilon':>8} {'rule':>5} {'best':>5} {'excess':>8}")
            for epsilon in EPSILONS:
                rule, best, ratio = rule_and_best(domain, count, epsilon)
                print(f"{epsilon:>8g} {rule:>5} {best:>5} {ratio - 1:>8.1%}")
            fine = [
                (rule_and_best(domain, count, e)[2], e) for e in np.arange(0.5, 20.0, 0.1).round(1).tolist()
            ]
            worst, at = max(fine)
            print(f"largest excess {worst - 1:.1%} at epsilon {at:g}")
            largest = max(largest, worst)
    return largest


def shares_table() -> None:
    rows: tuple[tuple[Measure, str], ...] = (
        ("estimate", "distribution"),
        ("value", "value"),
        ("average", "value"),
    )
    for measure, goal in rows:
        print(f"\n{measure}, distance with goal {goal}")
        print(f"{'epsilon':>8} {'direction':>10} {'distance':>10} {'error':>9} {'equal shares':>13}")
        for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
            goals = {"distance": goal}
            shares = best_shares(WALK, epsilon, goals=goals, measure=measure)
            least, equal = (
                sum(
                    report_error(WALK[name], each[name], goal=goals.get(name), measure=measure)
                    for name in WALK
                )
                for each in (shares, dict.fromkeys(WALK, epsilon / 2))
            )
            print(
                f"{epsilon:>8g} {shares['direction']:>10.4g} {shares['distance']:>10.4g} {least:>9.4g} "
                f"{equal / least - 1:>12.2%}"
            )


def coverage_table(surveys: int) -> float:
    values = np.random.default_rng(4).beta(2, 5, 6000)
    print(f"\n{surveys:,} surveys of 6,000 devices")
    print(f"{'epsilon':>8} {'drawn':>6} {'corrected':>10} {'without':>8}")
    least = 1.0
    for epsilon in (1.0, 4.0, 8.0):
        mechanism = Task("x", Interval(0, 1), epsilon).mechanism
        for tasks in (2, 4):
            covered = [0, 0]
            for seed in range(surveys):
                generator = np.random.default_rng([seed, tasks])
                drawn = values[generator.random(len(values)) < 1 / tasks]
                counts = simulate_counts(mechanism, drawn, len(drawn), generator, fixed=True).astype(float)
                for place, sampled in enumerate((1 / tasks, 1.0)):
                    users = Survey(mechanism, counts, target="users", sampled=sampled)
                    covered[place] += mean(users).contains(float(values.mean()))
            corrected, without = (each / surveys for each in covered)
            print(f"{epsilon:>8g} {f'1 of {tasks}':>6} {corrected:>10.3f} {without:>8.3f}")
            least = min(least, corrected)
    return least


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--surveys", type=int, default=1000)
    parser.add_argument("--parts", nargs="+", default=["sample", "shares", "coverage"])
    options = parser.parse_args()
    failed = False
    if "sample" in options.parts:
        failed |= sample_table() > 1.3
    if "shares" in options.parts:
        shares_table()
    if "coverage" in options.parts:
        failed |= coverage_table(options.surveys) < 0.92
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
