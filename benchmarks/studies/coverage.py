"""Coverage of every interval that arcwise shows, on any population: how often it contains the exact truth.

    python -m benchmarks.studies.coverage [--jobs 2] [--random R] [--seed S] [--json FILE] [--against FILE]
    python -m benchmarks.studies.coverage --population atom-inside --epsilon 4 --reports 1e5 --interval band

The first command takes a balanced subset of all cells and an hour on two cores; --random adds R new
populations. The second takes any cell. --against compares median widths with those of an earlier --json, for
which ``--population smooth --epsilon 1 4 --reports 1e4 --surveys 40`` or similar options are enough.

A cell is an interval, a population, an epsilon and a number of reports. Populations are listed in
`populations.txt`, where you can add any; random:SEED is a drawn population. By default, each population meets
each epsilon from 0.25 to 12 and each number of reports from 30 to 10^6 at least once; with --epsilon or
--reports, all combinations with the given ones. Places with a cell in doubt are surveyed further, up to
--most times; with --surveys every place is surveyed this often. The same seed gives the same surveys with any
number of jobs.

Truths are strict (`truths`): P(X <= x), with an atom at x, for the distribution function, P(low <= X <= high)
for shares, and the smallest x with P(X <= x) >= tau for quantiles. The band has to contain P(X <= x) and P(X
< x) at its own places, at each atom and just before them. Widths are shares of the domain, of the circle or
of the population.

It exits with 1 in these cases, with a family-wise error of 0.01 for the first (`coverage_study` explains why
repeated looks are valid):

- A cell shows a rate of misses above 0.07 (at other levels: 1.4 times the nominal rate up to 0.95, 3 times
  above it), or the fit test shows this rate of false alarms.
- More than 5 % of the intervals with 1,000 reports or more say that they are rough, or any interval with
  10,000 or more and an epsilon up to 8.
- An estimate fails.
- Median widths on smooth populations are more than a quarter above those of --against.
- `estimate` takes more than 50 ms of CPU in the median or 150 in the worst cell (128 nodes, default
  arguments).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from arcwise.analysis import estimate
from arcwise.analysis.simulate import code_law, multinomial
from benchmarks.studies.coverage_parts import PARTS, Place, case
from benchmarks.studies.coverage_report import by_interval, by_population, compared, exempt, missed, to_json
from benchmarks.studies.coverage_study import EPSILONS, REPORTS, Study, design, product, run
from benchmarks.studies.populations import LIST, random_population, read, wanted

if TYPE_CHECKING:
    from benchmarks.studies.populations import Named

MEDIAN, WORST = 50.0, 150.0
"""Milliseconds of CPU of `estimate(task, counts)`."""

EVERY = {"fit test": 1, "comparisons": 2, "single values": 2, "strata": 5, "levels": 2}
"""Parts with one place of every n-th population in the balanced subset; estimates have all seven."""

_BEGINNINGS = {
    "fit": "fit test",
    "difference:": "comparisons",
    "reference": "comparisons",
    "weighted": "comparisons",
    "single values": "single values",
    "strata": "strata",
    "level": "levels",
}
"""Prefixes of the names of intervals, by the part of a survey that has them; the others are of estimates."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--population", nargs="+", help="names or sections of the list, or random:SEED")
    parser.add_argument("--populations", type=Path, default=LIST, help="the list")
    parser.add_argument("--random", type=int, default=0, help="number of more populations, drawn by --seed")
    parser.add_argument("--epsilon", type=float, nargs="+")
    parser.add_argument("--reports", type=float, nargs="+")
    parser.add_argument("--interval", nargs="+", help="only these: band, quantile, share, fit, ...")
    parser.add_argument("--nodes", type=int, help="nodes of continuous domains; the task's own unless given")
    parser.add_argument("--surveys", type=int, help="surveys of each place, without looks")
    parser.add_argument("--first", type=int, default=18, help="surveys of a place before the first look")
    parser.add_argument("--most", type=int, default=2000, help="surveys of a place in doubt")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write all cells to this file")
    parser.add_argument(
        "--against", type=Path, help="compare median widths with this --json of an earlier run"
    )
    parser.add_argument("--no-cpu", action="store_true", help="do not measure the CPU time of estimate")
    asked = parser.parse_args()
    listed = wanted(asked.population, asked.populations) if asked.population else []
    if not asked.population and not asked.random:
        listed = read(asked.populations)
    populations = [*listed, *(random_population(1000 * asked.seed + k) for k in range(asked.random))]
    for each in populations:
        if each.section == "random":
            print(f"{each.name}: {each.domain} | {each.line}")
    begun = time.monotonic()
    studies = _studies(asked, populations)
    failed = missed(studies)
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(by_population(studies))
    console.print()
    console.print(by_interval(studies))
    console.print(exempt(studies), highlight=False)
    told = to_json(studies)
    if asked.json:
        asked.json.write_text(json.dumps(told, indent=1))
    if asked.against:
        table, wider = compared(told, asked.against)
        console.print()
        console.print(table)
        failed += wider
    if not asked.no_cpu:
        failed += _cpu(list(dict.fromkeys(study.place for study in studies if study.part == "estimates")))
    for line in failed:
        print(f"MISSED: {line}")
    worst = max(
        ((cell, study) for study in studies for cell in study.cells.values() if cell.counted[0]),
        key=lambda each: each[0].wealth,
        default=None,
    )
    if worst is not None:
        print(
            f"{len(studies):,} places, {sum(study.surveys for study in studies):,} surveys, "
            f"{sum(len(study.cells) for study in studies):,} cells; worst population: "
            f"{worst[1].place.population.name}; {len(failed)} bounds missed; "
            f"{(time.monotonic() - begun) / 60:.1f} minutes"
        )
    return 1 if failed else 0


def _studies(asked: argparse.Namespace, populations: list[Named]) -> list[Study]:
    """Make the requested surveys, with a progress bar on standard error."""
    if asked.epsilon or asked.reports:
        reports = [round(n) for n in asked.reports or REPORTS]
        places = product(populations, asked.epsilon or EPSILONS, reports)
        chosen = dict.fromkeys(PARTS, places)
    else:
        places = design(populations)
        # Give each population another epsilon, and each part other populations than the one before.
        chosen = {
            part: [
                places[len(EPSILONS) * row + row % len(EPSILONS)]
                for row in range(number % every, len(populations), every)
            ]
            for number, (part, every) in enumerate(EVERY.items())
        }
        chosen["estimates"] = places
    if asked.nodes:
        chosen = {
            part: [place._replace(nodes=asked.nodes) for place in some] for part, some in chosen.items()
        }
    intervals = tuple(asked.interval or [])
    parts = {part for part in PARTS if not intervals or any(_part(each) == part for each in intervals)}
    todo = [(part, place) for part in PARTS if part in parts for place in chosen[part]]
    first = asked.surveys or asked.first
    columns = (TextColumn("surveys"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("surveys", total=first * len(todo))

        def show(done: int, planned: int) -> None:
            progress.update(bar, completed=done, total=planned)

        return run(
            todo,
            first=first,
            most=asked.surveys or asked.most,
            kinds=intervals,
            seed=asked.seed,
            jobs=asked.jobs,
            progress=show,
        )


def _part(interval: str) -> str:
    """Return the part of a survey that has an interval of this name."""
    for begin, part in _BEGINNINGS.items():
        if interval.startswith(begin):
            return part
    return "estimates"


def _cpu(places: list[Place]) -> list[str]:
    """Print the CPU time of `estimate` at 128 nodes, and return the bounds that it exceeds."""
    plain, banded = [], []
    for place in places:
        task, population, _, _ = case(place.population, place.epsilon, 128)
        if task.mechanism.kernel.nodes > 128:
            continue
        law = code_law(task.mechanism, population)
        counts = multinomial(np.int64(place.reports), law, np.random.default_rng(1))
        times: dict[bool, float] = {}
        for bands in (False, True):
            spent = []
            for _ in range(2 if bands else 3):
                start = time.process_time()
                estimate(task, counts, bands=bands)
                spent.append(1e3 * (time.process_time() - start))
            times[bands] = min(spent[1:])
        plain.append((times[False], place))
        banded.append((times[True], place))
    if not plain:
        return []
    print("CPU of estimate(task, counts) at 128 nodes (lattices: at most), ms")
    for name, some in (("default arguments", plain), ("bands=True", banded)):
        worst, place = max(some, key=lambda each: each[0])
        print(
            f"  {name:<18} median {np.median([each[0] for each in some]):.1f}, worst {worst:.1f}: "
            f"{place.population.name}, epsilon {place.epsilon:g}, n = {place.reports:,}"
        )
    median, worst = float(np.median([each[0] for each in plain])), max(each[0] for each in plain)
    return [
        f"estimate takes {spent:.0f} ms in the {name}, more than {bound:g}"
        for name, spent, bound in (("median", median, MEDIAN), ("worst cell", worst, WORST))
        if spent > bound
    ]


if __name__ == "__main__":
    sys.exit(main())
