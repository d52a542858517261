"""Accuracy of the estimated distribution: its Wasserstein-1 distance to the population.

    python benchmarks/accuracy.py [--repeats 10] [--reports 100000]

Populations on [0, 1]; 128 nodes, inset. Distances are in thousandths of the range, averaged over the repeats;
"all" is the geometric mean over the populations. "held-out" is what `estimate` does; "converged" is EM run
until the log-likelihood is certified to 0.01, or for 20,000 steps.
"""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy.special import betainc, ndtr

from arcwise.domains import Interval
from arcwise.mechanisms import OptimalPiecewise
from arcwise.randomness import InsecureSeededRandomness
from arcwise.server.estimators.distribution import fit_held_out, uniform_start
from arcwise.server.estimators.em import fit
from arcwise.server.estimators.grid import cell_edges

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    FloatArray: TypeAlias = NDArray[np.float64]

GRID = np.linspace(0.0, 1.0, 8001)


def two_normals(x: FloatArray) -> FloatArray:
    raw = 0.5 * ndtr((x - 0.3) / 0.05) + 0.5 * ndtr((x - 0.7) / 0.08)
    ends = 0.5 * ndtr((np.array([0, 1]) - 0.3) / 0.05) + 0.5 * ndtr((np.array([0, 1]) - 0.7) / 0.08)
    return np.asarray((raw - ends[0]) / (ends[1] - ends[0]))


POPULATIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "uniform": lambda x: x,
    "beta(2, 5)": lambda x: betainc(2, 5, x),
    "beta(1/2, 1/2)": lambda x: betainc(0.5, 0.5, x),
    "two normals": two_normals,
    "atoms at the ends": lambda x: np.where(x < 1, 0.3 + 0.5 * x, 1.0),
}
"""Distribution functions on [0, 1]."""


def sample(distribution: FloatArray, count: int, generator: np.random.Generator) -> FloatArray:
    """Draw from a distribution function given on GRID; what it holds at 0 and jumps by at 1 are atoms."""
    below = distribution.copy()
    below[-1] = below[-2]
    uniform = generator.random(count)
    values = np.interp(uniform, below, GRID)
    values[uniform > below[-1]] = 1.0
    return values


def distance(mechanism: OptimalPiecewise, probabilities: FloatArray, population: FloatArray) -> float:
    """Return the Wasserstein-1 distance; cells are uniform, the end nodes atoms, as for the quantiles."""
    edges = cell_edges(mechanism)[1:-1]
    total = np.cumsum(probabilities)
    fitted = np.interp(GRID, [0.0, *edges, 1.0], [probabilities[0], *total[:-1], 1.0 - probabilities[-1]])
    return float(np.abs(fitted - population)[:-1].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--reports", type=int, default=100_000)
    arguments = parser.parse_args()
    print(f"{'epsilon':>7}  {'population':<18} {'held-out':>9} {'converged':>9} {'steps':>6}")
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        mechanism = OptimalPiecewise(Interval(0, 1), epsilon)
        rows = []
        for name, function in POPULATIONS.items():
            population = np.asarray(function(GRID), dtype=np.float64)
            results = []
            for seed in range(arguments.repeats):
                values = sample(population, arguments.reports, np.random.default_rng(seed))
                codes = mechanism.randomize_many(values, randomness=InsecureSeededRandomness(seed))
                counts = np.bincount(codes, minlength=mechanism.kernel.codes).astype(np.float64)
                held_out = fit_held_out(mechanism, counts)
                converged = fit(
                    mechanism.kernel,
                    counts,
                    gap=0.01,
                    start=uniform_start(mechanism),
                    max_iterations=20_000,
                )
                results.append(
                    (
                        distance(mechanism, held_out.probabilities, population),
                        distance(mechanism, converged.probabilities, population),
                        held_out.iterations,
                    )
                )
            mean = np.mean(results, axis=0)
            rows.append(mean[:2])
            print(f"{epsilon:7g}  {name:<18} {1e3 * mean[0]:9.2f} {1e3 * mean[1]:9.2f} {mean[2]:6.0f}")
        both = [1e3 * math.exp(x) for x in np.log(rows).mean(axis=0)]
        print(f"{epsilon:7g}  {'all':<18} {both[0]:9.2f} {both[1]:9.2f}", flush=True)


if __name__ == "__main__":
    main()
