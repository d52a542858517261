"""Accuracy of the estimated distribution: its Wasserstein-1 distance to the values of the users themselves.

    python benchmarks/accuracy.py [--repeats 20] [--reports 100000] [--jobs 1] [--epsilon 0.5 1 2 4]

128 nodes; inset on [0, 1], optimal circular on circles. Distances are to the empirical law of the users who
reported, in thousandths of the range or in degrees, averaged over the repeats; the geometric mean is over the
six populations of the interval, and over the first three of the circle. A node's mass is spread over its
cell; at the two end nodes of an interval it is an atom. Around a circle mass may go either way.

"held-out" is what `estimate` does, with its EM steps and CPU milliseconds; "smoothed" and "plain" are
smoothed and plain EM run to the stopping rule of their paper (`arcwise.server.estimators.alternatives`).
Delays, departures and wind are those of the demo (pip install 'arcwise[demo]'); the wind has 26,000 records,
which are drawn with replacement.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from arcwise.domains import Circle, Interval
from arcwise.mechanisms import Mechanism, OptimalCircular, OptimalPiecewise
from arcwise.server.cli.demo.data import demo_fleets
from arcwise.server.estimators.alternatives import plain_em, smoothed_em
from arcwise.server.estimators.distribution import fit_held_out
from arcwise.server.estimators.wasserstein import wasserstein

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    FloatArray: TypeAlias = NDArray[np.float64]

NODES = 128
TARGETS = {
    "interval": {0.5: 9.5, 1.0: 6.2, 2.0: 3.3, 4.0: 1.4},
    "circle": {0.5: 2.9, 1.0: 1.4, 2.0: 0.7, 4.0: 0.3},
}
METHODS = ("held-out", "smoothed", "plain")


@cache
def records() -> dict[str, FloatArray]:
    """Return the demo's values on the unit domain."""
    flights, weather = demo_fleets(1.0)
    columns = {"delays": flights.columns[0], "departures": flights.columns[1], "wind": weather.columns[0]}
    return {name: column.task.domain.to_unit_many(column.known) for name, column in columns.items()}


def recorded(name: str, g: np.random.Generator, n: int) -> FloatArray:
    values = records()[name]
    return g.choice(values, n, replace=n > len(values))


def two_normals(g: np.random.Generator, n: int) -> FloatArray:
    """Draw n values of the mixture cut to [0, 1]: of those that fall inside, the first n."""
    values = np.empty(0)
    while len(values) < n:
        drawn = np.where(g.random(n) < 0.5, g.normal(0.3, 0.05, n), g.normal(0.7, 0.08, n))
        values = np.append(values, drawn[(drawn >= 0) & (drawn <= 1)])
    return values[:n]


def atoms(g: np.random.Generator, n: int) -> FloatArray:
    which = g.random(n)
    return np.where(which < 0.3, 0.0, np.where(which < 0.5, 1.0, g.random(n)))


def von_mises(g: np.random.Generator, mean: float, kappa: float, n: int) -> FloatArray:
    return np.asarray(g.vonmises(mean, kappa, n) / (2 * np.pi) % 1.0)


def two_von_mises(g: np.random.Generator, n: int) -> FloatArray:
    return np.where(g.random(n) < 0.6, von_mises(g, 0.0, 4.0, n), von_mises(g, 2.5, 8.0, n))


POPULATIONS: dict[str, dict[str, Callable[[np.random.Generator, int], FloatArray]]] = {
    "interval": {
        "uniform": lambda g, n: g.random(n),
        "beta(2, 5)": lambda g, n: g.beta(2, 5, n),
        "beta(1/2, 1/2)": lambda g, n: g.beta(0.5, 0.5, n),
        "two normals": two_normals,
        "atoms at the ends": atoms,
        "arrival delays": partial(recorded, "delays"),
    },
    "circle": {
        "uniform": lambda g, n: g.random(n),
        "von Mises(0, 2)": lambda g, n: von_mises(g, 0.0, 2.0, n),
        "two von Mises": two_von_mises,
        "departures": partial(recorded, "departures"),
        "wind": partial(recorded, "wind"),
    },
}
"""Draw n values on the unit domain."""

IN_THE_MEAN = {"interval": 6, "circle": 3}


def report(mechanism: Mechanism, values: FloatArray, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return the counts of one report a user; users of one node draw a multinomial together."""
    kernel = mechanism.kernel
    position = mechanism.positions(values)
    node = np.floor(position).astype(np.int64)
    node += generator.random(len(values)) < position - node
    users = np.bincount(node % kernel.nodes, minlength=kernel.nodes)
    matrix = kernel.matrix()
    rows = generator.multinomial(users, matrix / matrix.sum(axis=1, keepdims=True))
    return np.asarray(rows.sum(axis=0))


def survey(domain: str, epsilon: float, name: str, reports: int, seed: int) -> tuple[float, ...]:
    """Return the distances of `METHODS`, and the steps and CPU milliseconds of the first."""
    mechanism: Mechanism = (
        OptimalPiecewise(Interval(0, 1), epsilon, nodes=NODES)
        if domain == "interval"
        else OptimalCircular(Circle(1), epsilon, nodes=NODES)
    )
    generator = np.random.default_rng([seed, list(POPULATIONS[domain]).index(name)])
    values = POPULATIONS[domain][name](generator, reports)
    counts = report(mechanism, values, generator)
    start = time.process_time()
    held_out = fit_held_out(mechanism, counts.astype(np.float64))
    spent = time.process_time() - start
    fits = (held_out, smoothed_em(mechanism, counts), plain_em(mechanism, counts))
    unit = 1e3 if domain == "interval" else 360.0
    distances = (unit * wasserstein(mechanism, fitted.probabilities, values) for fitted in fits)
    return (*distances, float(held_out.iterations), 1e3 * spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--reports", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 2.0, 4.0])
    arguments = parser.parse_args()
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for domain, populations in POPULATIONS.items():
            unit = "thousandths" if domain == "interval" else "degrees"
            columns = " ".join(f"{method:>8}" for method in METHODS)
            print(f"{domain}, {unit}\nepsilon  {'population':<18} {columns} {'steps':>6} {'ms':>6}")
            for epsilon in arguments.epsilon:
                rows = []
                for name in populations:
                    one = partial(survey, domain, epsilon, name, arguments.reports)
                    mean = np.mean(list(pool.map(one, range(arguments.repeats))), axis=0)
                    rows.append(mean[: len(METHODS)])
                    line = " ".join(f"{x:8.3f}" for x in rows[-1])
                    print(f"{epsilon:7g}  {name:<18} {line} {mean[-2]:6.0f} {mean[-1]:6.1f}", flush=True)
                means = np.exp(np.log(rows[: IN_THE_MEAN[domain]]).mean(axis=0))
                line = " ".join(f"{x:8.3f}" for x in means)
                target = TARGETS[domain].get(epsilon)
                beside = (
                    f"   target {target:g}" if target is not None and arguments.reports == 100_000 else ""
                )
                print(f"{epsilon:7g}  {'geometric mean':<18} {line}{beside}", flush=True)
            print()


if __name__ == "__main__":
    main()
