"""Accuracy of estimated distributions, against rivals: Wasserstein-1 distance to the users' own values.

    python -m benchmarks.studies.accuracy [--jobs 2] [--json accuracy.json]
    python -m benchmarks.studies.accuracy --cells 'circle/*/1e5/four-modes' 'interval/8/*' --repeats 20
    python -m benchmarks.studies.accuracy --promise --repeats 10

A cell is a domain, an epsilon, a number of reports and a population, written `interval/0.25/1e3/comb`. By
default all cells are surveyed: both domains, six epsilons, 10^3 to 10^6 reports, and the 25 populations of
each domain in `accuracy_populations.py`, where a line adds one. Cells with more reports get fewer surveys.
Distances are to the empirical law of the users who reported, in thousandths of the range or of the circle. A
node's mass is spread over its cell; at the two end nodes of an interval it is an atom.

"arcwise" is the result of `estimate`, on the mechanism of a task with the goal "distribution" that expects
this number of reports. Rivals:

    plain, smoothed   EM and smoothed EM on the same reports, to the stopping rule of their paper
                      (`arcwise.analysis.likelihood.alternatives`)
    16, 32, 64        histograms of this many bins, and
    tree, fine tree   4-ary hierarchies of 256 leaves and of 1,024, with reports of their own,
    haar              Haar wavelets on 1,024 cells, with Hadamard response,
    square, pm        the Square Wave with smoothed EM, and the Piecewise Mechanism with EM
                      (`accuracy_rivals.py`)

For each domain, epsilon and number of reports it prints the geometric means over populations; "to best" is
arcwise's mean divided by that of the best rival. Then it prints the worst cells: arcwise's mean distance
divided by that of the best rival *of the cell*. This rival is the least of ten means of few surveys, so it is
often the best by chance; "+-" is the standard error of the ratio. The milliseconds are CPU time of the fit.

With --promise it surveys ten populations of each domain, epsilon 0.4 to 8, 5,000 and 10^5 reports. For each
epsilon it prints the geometric mean of these ratios, which should be at most 1.10. It also prints the mean
with the best rival chosen on the other surveys of a cell, so not by chance, and the mean against each rival
in all cells.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatch
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np
from rich.console import Console
from rich.progress import track

from arcwise.analysis.estimators.wasserstein import histogram_distance, wasserstein
from arcwise.analysis.likelihood.alternatives import plain_em, smoothed_em
from arcwise.analysis.likelihood.distribution import fit_held_out
from arcwise.analysis.simulate import as_population, simulate_counts
from arcwise.analysis.threads import one_thread
from arcwise.domains import Circle, Interval
from arcwise.tasks import Task
from arcwise.tasks.goals import mechanism_for
from benchmarks.studies.accuracy_populations import CIRCLE, INTERVAL
from benchmarks.studies.accuracy_rivals import haar, hierarchy, histogram, numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from arcwise.analysis.simulate import Population
    from arcwise.typing import FloatArray

__all__ = ["Cell", "Survey", "cells_of", "main", "survey", "tables"]

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
SURVEYS = {1_000: 8, 10_000: 6, 100_000: 3, 1_000_000: 1}
"""Number of surveys of each cell by number of reports, unless --repeats is given."""

OURS = "arcwise"
HISTOGRAMS = {"16": 16, "32": 32, "64": 64}
TREES = {"tree": 256, "fine tree": 1024}
HAAR = {"haar": 1024}
NUMBERS = {"square": True, "pm": False}

NAMED = ("smoothed", *list(TREES)[1:], *HAAR, *NUMBERS)
"""The published rivals of --promise; the others are histograms with bins that suit one population."""

METHODS = (OURS, "plain", "smoothed", *HISTOGRAMS, *TREES, *HAAR, *NUMBERS)
MOST = 1.15
"""No cell should exceed this; "to best" should not exceed 1.03."""

PROMISED = (
    (
        "interval",
        "normal narrow-normal four-modes heavy-tails skewed step two-percent one-atom atom-inside ages",
    ),
    ("circle", "uniform von-mises narrow two-directions four-modes gap comb one-atom hours wind"),
)
"""The populations of --promise, by domain."""


class Cell(NamedTuple):
    """A domain, an epsilon, a number of reports and a population."""

    domain: str
    epsilon: float
    reports: int
    population: str

    def __str__(self) -> str:
        return f"{self.domain}/{self.epsilon:g}/{self.reports:.0e}/{self.population}".replace("e+0", "e")


class Survey(NamedTuple):
    """Distances by method, and the nodes, the EM steps and the CPU milliseconds of arcwise's estimate."""

    distances: dict[str, float]
    nodes: int
    steps: int
    ms: float


def cells_of(patterns: Sequence[str]) -> list[Cell]:
    """Return the cells with names that match one of the patterns."""
    every = [
        Cell(domain, epsilon, reports, population)
        for domain, populations in (("interval", INTERVAL), ("circle", CIRCLE))
        for epsilon in EPSILONS
        for reports in SURVEYS
        for population in populations
    ]
    return [cell for cell in every if any(fnmatch(str(cell), pattern) for pattern in patterns)]


def promised_cells() -> list[Cell]:
    """Return the cells of --promise."""
    return [
        Cell(domain, epsilon, reports, population)
        for domain, populations in PROMISED
        for epsilon in (0.4, 1.0, 2.5, 4.0, 8.0)
        for reports in (5_000, 100_000)
        for population in populations.split()
    ]


@cache
def population_of(domain: str, name: str) -> Population:
    if domain == "circle":
        return as_population(CIRCLE[name], Circle(1))
    return as_population(INTERVAL[name], Interval(0, 1))


def survey(job: tuple[Cell, int], *, seed: int, nodes: int | None) -> Survey:
    """Make one survey of a cell by every method."""
    cell, number = job
    circular = cell.domain == "circle"
    key = [seed, number, circular, crc32(cell.population.encode()), round(1e6 * cell.epsilon), cell.reports]
    generator = np.random.default_rng(key)
    domain = Circle(1) if circular else Interval(0, 1)
    task = Task("accuracy", domain, cell.epsilon, goal="distribution", expected_reports=cell.reports)
    mechanism = task.mechanism
    if nodes is not None:
        mechanism = mechanism_for("distribution", domain, cell.epsilon, nodes=nodes)
    values = population_of(cell.domain, cell.population).draw(cell.reports, generator)
    counts = simulate_counts(mechanism, values, cell.reports, generator, fixed=True)
    with one_thread():
        start = time.process_time()
        fitted = fit_held_out(mechanism, counts.astype(np.float64))
        spent = time.process_time() - start
        fits = {
            OURS: fitted,
            "plain": plain_em(mechanism, counts),
            "smoothed": smoothed_em(mechanism, counts),
        }
        found = {name: wasserstein(mechanism, fit.probabilities, values) for name, fit in fits.items()}
        for names, rival in ((HISTOGRAMS, histogram), (TREES, hierarchy), (HAAR, haar)):
            for name, bins in names.items():
                users = np.bincount(np.minimum((bins * values).astype(np.int64), bins - 1), minlength=bins)
                shares = rival(users, cell.epsilon, generator)
                found[name] = _distance(shares, values, circular=circular)
        for name, square in NUMBERS.items():
            shares = numbers(values, cell.epsilon, generator, square=square)
            found[name] = _distance(shares, values, circular=circular)
    return Survey(found, mechanism.kernel.nodes, fitted.iterations, 1e3 * spent)


def _distance(shares: FloatArray, values: FloatArray, *, circular: bool) -> float:
    return histogram_distance(np.linspace(0.0, 1.0, len(shares) + 1), shares, values, circular=circular)


def promise(surveys: dict[Cell, list[Survey]]) -> Iterable[str]:
    """Yield the geometric mean of each epsilon, and the cells above 1.5."""
    every = [_against_best(several, cell, NAMED) for cell, several in surveys.items()]
    for epsilon in sorted({cell.epsilon for cell in surveys}):
        here = [ratio for ratio, _, cell, _ in every if cell.epsilon == epsilon]
        yield f"epsilon {epsilon:g}: {_geometric(here):.3f} of each cell's best rival ({len(here)} cells)"
        cells = [cell for cell in surveys if cell.epsilon == epsilon]
        all_ten = [_against_best(surveys[cell], cell, METHODS[1:])[0] for cell in cells]
        yield f"  {_geometric(all_ten):.3f} of each cell's best of all ten"
        if all(len(surveys[cell]) > 1 for cell in cells):
            yield f"  {_geometric([_unseen(surveys[cell]) for cell in cells]):.3f} chosen on other surveys"
        for name in METHODS[1:]:
            to = [_mean(surveys[cell], OURS) / _mean(surveys[cell], name) for cell in cells]
            yield f"  {_geometric(to):.3f} of {name}"
    for ratio, error, cell, rival in sorted(every, reverse=True):
        if ratio > 1.5:
            yield f"  {ratio:6.2f} +- {error:4.2f}  {cell}, {rival}, {surveys[cell][0].nodes} nodes"


def tables(surveys: dict[Cell, list[Survey]], worst: int = 20) -> Iterable[str]:
    """Yield the lines of the tables and of the summary."""
    groups = defaultdict(list)
    for cell in surveys:
        groups[cell[:3]].append(cell)
    ratios: list[tuple[float, float, Cell, str]] = []
    for domain in dict.fromkeys(cell.domain for cell in surveys):
        yield f"{domain}: geometric means over populations, thousandths"
        columns = " ".join(f"{name:>9}" for name in METHODS)
        yield f"epsilon reports nodes {columns}  to best  cells > {MOST:g}  worst                   ms, most"
        for key, cells in groups.items():
            if key[0] != domain:
                continue
            made = [one for cell in cells for one in surveys[cell]]
            names = [name for name in METHODS if name in made[0].distances]
            means = {name: _geometric([_mean(surveys[cell], name) for cell in cells]) for name in names}
            rivals = [name for name in names if name != OURS]
            here = sorted((_against_best(surveys[cell], cell, rivals) for cell in cells), reverse=True)
            ratios += here
            numbers = " ".join(f"{1e3 * means[name]:9.2f}" if name in means else " " * 9 for name in METHODS)
            best = min(mean for name, mean in means.items() if name != OURS)
            above = sum(ratio > MOST for ratio, *_ in here)
            times = [one.ms for one in made]
            yield (
                f"{key[1]:7g} {key[2]:7.0e} {made[0].nodes:5d} {numbers} {means[OURS] / best:8.2f} "
                f"{above:4d} of {len(here):2d}    {here[0][0]:5.2f} {here[0][2].population:<17} "
                f"{np.median(times):5.1f} {max(times):5.1f}"
            )
        yield ""
    ratios.sort(reverse=True)
    above = sum(ratio > MOST for ratio, *_ in ratios)
    sure = sum(ratio - 2 * error > MOST for ratio, error, *_ in ratios)
    yield (
        f"{above} of {len(ratios)} cells are more than {MOST:g} times their best rival, {sure} of them "
        "by two standard errors; the worst:"
    )
    for ratio, error, cell, rival in ratios[:worst]:
        yield f"  {ratio:6.2f} +- {error:4.2f}  {cell}, {rival}"


def _mean(surveys: list[Survey], name: str) -> float:
    return float(np.mean([one.distances[name] for one in surveys]))


def _geometric(values: list[float]) -> float:
    return float(np.exp(np.log(values).mean()))


def _unseen(surveys: list[Survey]) -> float:
    """Return arcwise's distance divided by that of the rival that is best in the other surveys of a cell."""
    ratios = []
    for k, one in enumerate(surveys):
        others = surveys[:k] + surveys[k + 1 :]
        rival = min(NAMED, key=partial(_mean, others))
        ratios.append(one.distances[OURS] / one.distances[rival])
    return _geometric(ratios)


def _against_best(surveys: list[Survey], cell: Cell, rivals: Sequence[str]) -> tuple[float, float, Cell, str]:
    """Return the ratio of arcwise's mean to the best rival's, its standard error, the cell and the rival."""
    rival = min(rivals, key=partial(_mean, surveys))
    ours = np.array([one.distances[OURS] for one in surveys])
    theirs = np.array([one.distances[rival] for one in surveys])
    ratio = float(ours.mean() / theirs.mean())
    rest = (ours - ratio * theirs) / theirs.mean()
    error = float(np.std(rest, ddof=1) / np.sqrt(len(rest))) if len(rest) > 1 else float("nan")
    return ratio, error, cell, rival


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--cells", nargs="+", default=["*"], metavar="PATTERN", help="domain/epsilon/1eK/name"
    )
    parser.add_argument("--promise", action="store_true", help="only the cells of the promise")
    parser.add_argument("--repeats", type=int, help="surveys of each cell")
    parser.add_argument("--nodes", type=int, help="instead of the task's own number")
    parser.add_argument("--worst", type=int, default=20, help="cells in the summary")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write every survey to this file")
    arguments = parser.parse_args()
    jobs = [
        (cell, number)
        for cell in (promised_cells() if arguments.promise else cells_of(arguments.cells))
        for number in range(arguments.repeats or SURVEYS.get(cell.reports, 3))
    ]
    if not jobs:
        parser.error(f"no cell matches {' '.join(arguments.cells)}; a name looks like {cells_of(['*'])[0]}")
    surveys: dict[Cell, list[Survey]] = defaultdict(list)
    with ProcessPoolExecutor(arguments.jobs) as pool:
        made = pool.map(partial(survey, seed=arguments.seed, nodes=arguments.nodes), jobs, chunksize=4)
        for (cell, _), one in zip(
            jobs, track(made, total=len(jobs), console=Console(stderr=True), transient=True), strict=True
        ):
            surveys[cell].append(one)
    for line in promise(surveys) if arguments.promise else tables(surveys, arguments.worst):
        print(line)
    if arguments.json:
        rows = [{**cell._asdict(), **one._asdict()} for cell, several in surveys.items() for one in several]
        arguments.json.write_text(json.dumps({"seed": arguments.seed, "surveys": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
