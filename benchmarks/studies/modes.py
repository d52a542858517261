"""How many modes estimates show, and how far their pictures are from the users' own values.

Populations have one mode or several, on intervals and circles, at epsilons from 0.5 to 8 and with 10^3 to
10^6 reports. For each population ``python -m benchmarks.studies.modes`` prints the shares of surveys that
show fewer modes than it has, as many, and more; then the same by epsilon and number of reports. It also
prints the Wasserstein-1 distance of the drawn distribution divided by that of the fit, and the CPU time of
counting modes.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track

from arcwise.analysis.estimators.histogram import as_drawn, histogram
from arcwise.analysis.estimators.modes import count_modes
from arcwise.analysis.estimators.wasserstein import wasserstein
from arcwise.analysis.grid import first_cell
from arcwise.analysis.likelihood.distribution import fit_held_out
from arcwise.analysis.simulate import as_population, simulate_counts
from arcwise.analysis.threads import one_thread
from arcwise.domains import Circle, Interval
from arcwise.tasks import Task
from benchmarks.studies.accuracy_populations import CIRCLE, INTERVAL

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MODES", "Survey", "main", "survey"]

MODES = {
    "interval": {
        "uniform": 1,
        "near-uniform": 1,
        "slope": 1,
        "beta25": 1,
        "normal": 1,
        "narrow-normal": 1,
        "sharp-peak": 1,
        "heavy-tails": 1,
        "skewed": 1,
        "step": 1,
        "two-percent": 1,
        "one-atom": 1,
        "ages": 1,
        "thousand": 1,
        "arcsine": 2,
        "two-bumps": 2,
        "gap": 2,
        "atoms-at-ends": 2,
        "four-modes": 4,
    },
    "circle": {
        "uniform": 1,
        "near-uniform": 1,
        "von-mises": 1,
        "narrow": 1,
        "sharp-peak": 1,
        "heavy-tails": 1,
        "step": 1,
        "two-percent": 1,
        "one-atom": 1,
        "degrees": 1,
        "opposite": 2,
        "gap": 2,
        "three-modes": 3,
        "four-modes": 4,
    },
}
"""Number of modes of a population, by domain and name in `accuracy_populations`."""

SETTINGS = tuple(product((0.5, 1.0, 2.0, 4.0, 8.0), (1_000, 10_000, 100_000, 1_000_000)))
"""Epsilons and numbers of reports, which surveys of a population use in turn."""


class Survey(NamedTuple):
    """The number of modes shown, the distance of the picture over that of the fit, and CPU seconds."""

    modes: int
    ratio: float
    seconds: float


def survey(domain: str, population: str, setting: tuple[float, int], key: list[int]) -> Survey:
    """Make one survey of a population."""
    circular = domain == "circle"
    line = (CIRCLE if circular else INTERVAL)[population]
    space = Circle(1) if circular else Interval(0, 1)
    epsilon, reports = setting
    generator = np.random.default_rng(key)
    mechanism = Task("modes", space, epsilon, goal="distribution").mechanism
    values = as_population(line, space).draw(reports, generator)
    counts = simulate_counts(mechanism, values, reports, generator, fixed=True).astype(np.float64)
    with one_thread():
        fit = fit_held_out(mechanism, counts)
        start = time.process_time()
        found = count_modes(mechanism, counts / reports, float(reports), fit.probabilities)
        seconds = time.process_time() - start
    shown = as_drawn(histogram(mechanism, fit, found), circular=circular)
    drawn = np.roll(shown, first_cell(mechanism))
    ratio = wasserstein(mechanism, drawn, values) / wasserstein(mechanism, fit.probabilities, values)
    return Survey(found.number, ratio, seconds)


def _rows(groups: dict[str, list[tuple[int, Survey]]]) -> Iterable[str]:
    yield f"{'':<24} surveys  fewer  right   more  W1 ratio   90 %   ms, most"
    for name, made in groups.items():
        shown = [np.sign(one.modes - true) for true, one in made]
        ratios = [one.ratio for _, one in made]
        spent = [1e3 * one.seconds for _, one in made]
        yield (
            f"{name:<24} {len(made):7d} "
            + " ".join(f"{np.mean(np.equal(shown, sign)):6.3f}" for sign in (-1, 0, 1))
            + f" {np.median(ratios):9.3f} {np.quantile(ratios, 0.9):6.2f}"
            + f" {np.median(spent):5.0f} {max(spent):5.0f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--surveys", type=int, default=200, help="of each population")
    parser.add_argument("--populations", nargs="+", help="domain/name; all unless given")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    every = [f"{domain}/{name}" for domain, names in MODES.items() for name in names]
    jobs = [(name, number) for name in arguments.populations or every for number in range(arguments.surveys)]
    by_name, by_setting = defaultdict(list), defaultdict(list)
    for name, number in track(jobs, console=Console(stderr=True), transient=True):
        domain, population = name.split("/")
        setting = SETTINGS[number % len(SETTINGS)]
        one = survey(domain, population, setting, [arguments.seed, number, every.index(name)])
        true = MODES[domain][population]
        by_name[f"{name}, {true}"].append((true, one))
        by_setting[f"{domain}, {setting[0]:g}, {setting[1]:,}"].append((true, one))
    for groups in (by_name, by_setting):
        for line in _rows(groups):
            print(line)
        print()


if __name__ == "__main__":
    main()
