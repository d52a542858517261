"""Gains of a design for the mean from a population, and its losses if the population is wrong.

Everything is summed over the integers that devices sample from. For each epsilon and population:

- reports that goal "mean" without a population, and the mean of the default goal, need for each report of the
  design for this population, in this population;
- the same for the design for all populations of the table together;
- how many times as many reports it needs if the population is wrong: at the worst value of the range (for
  users), and in the worst other population of the table.

Exits with 1 if a design for a population needs more reports there than the design for the worst case.
"""

from __future__ import annotations

import argparse
import sys
from functools import cache

from arcwise.analysis.design import minimax, worst_case
from arcwise.analysis.planning.mean import MeanCurve
from arcwise.analysis.simulate import as_population
from arcwise.domains import Interval
from arcwise.mechanisms import Mechanism, OptimalPiecewise

UNIT = Interval(0, 1)
POPULATIONS = (
    "uniform",
    "beta:2,5",
    "beta:5,1",
    "normal:0.4,0.05",
    "normal:0.4,0.1",
    "normal:0.5,0.2",
    "0.5*normal:0.3,0.05 + 0.5*normal:0.7,0.08",
    "0.3*atom:0 + rest*beta:2,5",
    "0.6*atom:0.3137 + 0.4*normal:0.55,0.15",
    "0.5*atom:0 + 0.5*atom:1",
)


@cache
def variance(mechanism: Mechanism, population: str) -> float:
    """Return the variance of a report in a population, sampling included."""
    return MeanCurve(mechanism, as_population(population, UNIT), "population").variance


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 2.0, 4.0])
    failed = False
    for epsilon in parser.parse_args().epsilon:
        general, default = minimax(UNIT, epsilon), OptimalPiecewise(UNIT, epsilon)
        together = minimax(UNIT, epsilon, population=list(POPULATIONS))
        print(f"epsilon {epsilon:g}: reports for each of the design's")
        print(f"{'population':<44}{'mean':>8}{'default':>9}{'all ten':>9}{'worst value':>13}{'other':>8}")
        for population in POPULATIONS:
            own = minimax(UNIT, epsilon, population=population)
            here = variance(own, population)
            others = (variance(own, other) / variance(general, other) for other in POPULATIONS)
            ratios = [variance(each, population) / here for each in (general, default, together)]
            failed |= ratios[0] < 1.0
            print(
                f"{population:<44}{ratios[0]:8.3f}{ratios[1]:9.3f}{ratios[2]:9.3f}"
                f"{worst_case(own) / worst_case(general):13.3f}{max(others):8.3f}",
                flush=True,
            )
        whole = [sum(variance(each, name) for name in POPULATIONS) for each in (general, default, together)]
        print(
            f"{'the design for all ten, in all':<44}{whole[0] / whole[2]:8.3f}{whole[1] / whole[2]:9.3f}"
            f"{1:9.3f}{worst_case(together) / worst_case(general):13.3f}\n"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
