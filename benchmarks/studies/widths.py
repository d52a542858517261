"""The cost of honest intervals: widths of shares and bins, against the least width of any honest interval.

    python -m benchmarks.studies.widths [--fewest 10000] [--epsilon 1 4] [--miss 0.07] [--jobs 2]

The places are those of the coverage study with --fewest reports or more, an epsilon up to 8 and a smooth
population. Widths are ratios to the median width, "before", of earlier profile likelihood intervals of
arcwise (`widths_before.json`): these covered smooth populations, and failed at atoms. Next to arcwise's own
median, the table shows for intervals that miss no population more often than --miss (`widths_bounds`):

    endless reports   the width of every such interval if the reports are endless: atoms that rounding
                      hides at the bounds
    median            at least the median width of every such interval
    expected          at least the expected width of every such interval

The coverage study accepts 0.07; arcwise aims for 0.05, for which the bounds are larger. It exits with 1 if
the median of "expected" is below 1.25, because honest intervals might then be as narrow.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from arcwise.analysis.threads import one_thread
from benchmarks.studies.coverage_parts import Place, case, survey
from benchmarks.studies.coverage_study import design
from benchmarks.studies.populations import read, wanted
from benchmarks.studies.widths_bounds import least_widths, places_of

__all__ = ["Row", "rows_of"]

BEFORE = Path(__file__).with_name("widths_before.json")

GROWN = 1.25
"""Ratio to the earlier width below which no honest interval must be shown to be able to stay."""

_MOST_EPSILON = 8.0
"""Circles have 1,618 nodes at epsilon 12: too many for the program."""


class Row(NamedTuple):
    """A share or a bin at a place, with widths as shares of the population."""

    place: Place
    interval: str
    item: str
    before: float
    mean: float
    median: float
    identified: float
    now: float


@one_thread()
def rows_of(place: Place, before: dict[str, float], surveys: int, miss: float, seed: int) -> list[Row]:
    """Return the shares and bins of a place that have an earlier width."""
    widths: dict[str, list[float]] = defaultdict(list)
    for number in range(surveys):
        for (interval, item), answer in survey("estimates", place, number, seed).items():
            widths[f"{interval} {item}"].append(answer.width)
    one = case(place.population, place.epsilon, place.nodes)
    low, length = getattr(one.task.domain, "low", 0.0), one.task.domain.length
    found = []
    for name, width in before.items():
        interval, _, item = name.partition(" ")
        if interval == "share":
            first, last = one.shares[item]
        else:
            first, last = ((float(end) - low) / length for end in item.split(":"))
        least = least_widths(places_of(one.task.mechanism, one.population, first, last), place.reports, miss)
        found.append(Row(place, interval, item, width, *least, float(np.median(widths[name]))))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--population", nargs="+", default=["smooth"], help="names or sections of the list")
    parser.add_argument("--epsilon", type=float, nargs="+")
    parser.add_argument("--fewest", type=float, default=1e4, help="reports")
    parser.add_argument("--surveys", type=int, default=6, help="surveys of each place, for arcwise's width")
    parser.add_argument("--miss", type=float, default=0.07, help="largest rate of misses of an interval")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write all cells to this file")
    asked = parser.parse_args()
    before = json.loads(BEFORE.read_text())
    names = {each.name for each in wanted(asked.population)}
    places = [
        place
        for place in design(read())
        if place.population.name in names
        and place.reports >= asked.fewest
        and place.epsilon <= _MOST_EPSILON
        and (not asked.epsilon or place.epsilon in asked.epsilon)
        and _key(place) in before
    ]
    if not places:
        raise SystemExit("--population, --epsilon and --fewest must leave a place of widths_before.json")
    work = partial(rows_of, surveys=asked.surveys, miss=asked.miss, seed=asked.seed)
    known = [before[_key(place)] for place in places]
    bar = partial(track, total=len(places), console=Console(stderr=True), transient=True)
    if asked.jobs == 1:
        rows = [row for some in bar(map(work, places, known)) for row in some]
    else:
        with ProcessPoolExecutor(asked.jobs) as pool:
            rows = [row for some in bar(pool.map(work, places, known)) for row in some]
    console = Console(width=None if sys.stdout.isatty() else 110)
    missed = []
    for interval in dict.fromkeys(row.interval for row in rows):
        table, lines = _told(interval, [row for row in rows if row.interval == interval])
        console.print(table)
        console.print()
        missed += lines
    if asked.json:
        asked.json.write_text(json.dumps([[*row.place, *row[1:]] for row in rows]))
    for line in missed:
        print(f"MISSED: {line}")
    return 1 if missed else 0


def _key(place: Place) -> str:
    return f"{place.population.name}, epsilon {place.epsilon:g}, n = {place.reports}"


def _told(interval: str, rows: list[Row]) -> tuple[Table, list[str]]:
    """Return the table of shares or of bins, and a failure if it does not show the claim."""
    table = Table(title=f"{interval}s", title_justify="left", box=None, pad_edge=False)
    columns = ("epsilon", "n", "cells", "before", "endless reports", "median", "expected", "arcwise")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    groups: dict[tuple[float, int], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.place.epsilon, row.place.reports].append(row)
    for (epsilon, n), some in [*sorted(groups.items()), ((0.0, 0), rows)]:
        of = np.array([[row.identified, row.median, row.mean, row.now] for row in some])
        width = np.array([row.before for row in some])
        table.add_row(
            f"{epsilon:g}" if n else "all",
            f"{n:,}" if n else "",
            str(len(some)),
            f"{np.median(width):.3g}",
            *(f"{ratio:.2f}" for ratio in np.median(of / width[:, None], axis=0)),
        )
    of_all = float(np.median([row.mean / row.before for row in rows]))
    missed = f"{interval}s of {of_all:.2f} times the earlier width are not ruled out"
    return table, [missed] if of_all < GROWN else []


if __name__ == "__main__":
    sys.exit(main())
