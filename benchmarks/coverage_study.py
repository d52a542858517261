"""The surveys of `coverage.py` and the table of what they found.

Not a program. A study is made of surveys at places; tests make small ones.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from coverage_parts import PARTS
from rich.console import Console
from rich.progress import track
from truths import CIRCLES, INTERVALS, case

from arcwise.server.simulate import multinomial

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    FloatArray: TypeAlias = NDArray[np.float64]

__all__ = ["Study", "run", "summary"]

LEAST, MOST = 0.93, 0.97
"""Of pooled coverage at level 0.95; the second for means only."""

GAP = 0.01
"""Nats: how far any likelihood inside an interval may be from certain."""


class Place(NamedTuple):
    """Where surveys are made."""

    circular: bool
    population: str
    reports: int
    epsilon: float


class Study(NamedTuple):
    """What all surveys of one place found: by estimate and item, coverage and width of each survey."""

    place: Place
    found: dict[tuple[str, str], FloatArray]  # (surveys, 2)
    gap: float


def surveys(job: tuple[str, Place, range], *, seed: int, level: float) -> Study:
    """Make the surveys of these numbers at a place, for one part."""
    part, place, numbers = job
    one = case(place.population, place.epsilon, circular=place.circular)
    index = (CIRCLES if place.circular else INTERVALS).index(place.population)
    key = [seed, place.circular, index, place.reports, round(1e6 * place.epsilon)]
    rows, gaps = [], []
    for number in numbers:
        generator = np.random.default_rng([*key, number])
        counts = multinomial(np.int64(place.reports), one.law, generator).astype(np.float64)
        found, gap = PARTS[part].survey(one, counts, level)
        rows.append(found)
        gaps.append(gap)
    found_by_name = {name: np.array([row[name] for row in rows], np.float64) for name in rows[0]}
    return Study(place, found_by_name, max(gaps))


def run(
    *,
    parts: Sequence[str],
    repeats: int | None,
    reports: Iterable[int],
    epsilons: Iterable[float],
    seed: int = 1,
    level: float = 0.95,
    jobs: int = 1,
) -> list[Study]:
    """Make all surveys, the same ones whatever the number of jobs."""
    places = [
        Place(circular, population, n, epsilon)
        for epsilon in epsilons
        for n in reports
        for circular, populations in ((False, INTERVALS), (True, CIRCLES))
        for population in populations
    ]
    todo = []
    for part in parts:
        many, block = repeats or PARTS[part].repeats, PARTS[part].block
        blocks = [range(first, min(first + block, many)) for first in range(0, many, block)]
        wanted = [place for place in places if place.circular in PARTS[part].circular]
        todo += [(part, place, numbers) for place in wanted for numbers in blocks]
    one = partial(surveys, seed=seed, level=level)
    console = Console(stderr=True)
    if jobs == 1:
        done = list(track(map(one, todo), "surveys", len(todo), console=console, transient=True))
    else:
        with ProcessPoolExecutor(jobs) as pool:
            results = pool.map(one, todo)
            done = list(track(results, "surveys", len(todo), console=console, transient=True))
    return [_together(list(same)) for _, same in groupby(done, key=lambda s: (s.place, list(s.found)))]


def _together(blocks: list[Study]) -> Study:
    found = {name: np.concatenate([block.found[name] for block in blocks]) for name in blocks[0].found}
    return Study(blocks[0].place, found, max(block.gap for block in blocks))


def summary(studies: Sequence[Study]) -> tuple[list[str], list[str]]:
    """Return the lines of the table, and what misses its bound."""
    lines, missed = [], []
    cases = sorted({(study.place.epsilon, study.place.reports) for study in studies})
    for epsilon, n in cases:
        here = [study for study in studies if (study.place.epsilon, study.place.reports) == (epsilon, n)]
        lines.append(f"epsilon {epsilon:g}, n = {n:,}")
        lines.append(f"  {'':<30} {'surveys':>8} {'coverage':>9} {'s.e.':>6} {'width':>8} {'median':>8}")
        for estimate in dict.fromkeys(name for study in here for name, _ in study.found):
            # By data set: (surveys, items, 2)
            tables = {
                _label(study.place): np.stack([v for k, v in study.found.items() if k[0] == estimate], axis=1)
                for study in here
                if any(name == estimate for name, _ in study.found)
            }
            covered, line = _row(estimate, list(tables.values()))
            lines.append(line)
            if covered < LEAST or (estimate == "mean" and covered > MOST):
                missed.append(f"{estimate}, epsilon {epsilon:g}, n = {n:,}: coverage {covered:.3f}")
            lines += [_row(f"  {label}", [table])[1] for label, table in tables.items()]
            items = list(dict.fromkeys(item for s in here for name, item in s.found if name == estimate))
            if len(items) > 1:
                for index, item in enumerate(items):
                    some = [table[:, index : index + 1] for table in tables.values()]
                    lines.append(_row(f"  all at {item}", some)[1])
    worst = max(studies, key=lambda study: study.gap)
    if worst.gap:
        where = f"{_label(worst.place)}, epsilon {worst.place.epsilon:g}, n = {worst.place.reports:,}"
        lines.append(
            f"largest certified gap of a likelihood inside an interval: {worst.gap:.4f} nats ({where})"
        )
    if worst.gap > GAP:
        missed.append(f"a likelihood is certified to {worst.gap:.3g} nats only ({where})")
    return lines, missed


def _row(label: str, tables: list[FloatArray]) -> tuple[float, str]:
    each = np.concatenate([table[:, :, 0].mean(axis=1) for table in tables])
    widths = 1e3 * np.concatenate([table[:, :, 1].ravel() for table in tables])
    error = float(each.std()) / np.sqrt(len(each))
    line = (
        f"  {label:<30} {len(each):8,} {each.mean():9.3f} {error:6.3f} "
        f"{widths.mean():8.2f} {np.median(widths):8.2f}"
    )
    return float(each.mean()), line


def _label(place: Place) -> str:
    return f"{place.population}{', circle' if place.circular else ''}"
