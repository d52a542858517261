"""The places of `coverage.py`, its surveys at them, and the rule for when they are enough.

Not a program. A cell is an interval (and its item) at a place: a population, an epsilon, a number of reports.
Its hypothesis is that the interval misses the truth in at most 0.07 of the surveys (1.4 times the nominal
rate; 3 times if its level is above 0.95). For the fit test, it is that at most 0.07 of honest surveys are
rejected. The evidence against it is a likelihood ratio: of the average of twelve higher miss rates to this
one. While the hypothesis is true, this is a wealth that no betting increases (a nonnegative supermartingale
of at most 1 in expectation). So the probability that it *ever* reaches 1/a is at most a (Ville's inequality).
This allows looking after each batch, and continuing in case of doubt: the inverse of the largest wealth so
far is a p-value at any stopping time. Holm's method over all cells needs no independence, so the probability
that any true hypothesis is rejected is at most 0.01.
"""

from __future__ import annotations

import math
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from benchmarks.studies.coverage_parts import MOST_MISSED, Answer, Place, survey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from benchmarks.studies.populations import Named

    Name: TypeAlias = tuple[str, str]
    Rows: TypeAlias = list[dict[Name, Answer] | str]

__all__ = [
    "ALPHA",
    "EPSILONS",
    "REPORTS",
    "Cell",
    "Study",
    "design",
    "product",
    "rejected",
    "run",
    "wealth",
]

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0)
REPORTS = (30, 100, 1_000, 10_000, 100_000, 1_000_000)

ALPHA = 0.01
"""Probability that any true hypothesis is rejected."""

RATES = (0.08, 0.09, 0.1, 0.12, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 0.99)
"""Rates of misses against which a hypothesis of 0.07 is weighed; for other rates, the odds are scaled."""

DOUBT = 2.0
"""Wealth from which a place is surveyed further."""

CERTAIN = 1e8
"""Wealth at which a cell needs no more surveys: rejected among up to a million cells."""

GROWTH = 1.5
"""Growth of the number of surveys from one look to the next."""

BLOCK = 8
"""Surveys per block."""


def design(populations: Sequence[Named]) -> list[Place]:
    """Return seven places of each population: each epsilon once, each number of reports at least once.

    From one population to the next the numbers of reports shift by one, so that each epsilon meets each of
    them in every six populations, as in a Latin square.
    """
    return [
        Place(population, epsilon, REPORTS[(k + row) % len(REPORTS)])
        for row, population in enumerate(populations)
        for k, epsilon in enumerate(EPSILONS)
    ]


def product(populations: Iterable[Named], epsilons: Sequence[float], reports: Sequence[int]) -> list[Place]:
    """Return all combinations of these as places."""
    return [Place(each, epsilon, n) for each in populations for epsilon in epsilons for n in reports]


@dataclass
class Cell:
    """Results of the surveys of a place for one interval."""

    held: list[bool | None] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    rough: list[bool] = field(default_factory=list)
    peak: float = 1.0
    may_miss: float = MOST_MISSED

    def add(self, answer: Answer) -> None:
        self.may_miss = answer.may_miss
        self.held.append(answer.held)
        self.widths.append(answer.width)
        self.rough.append(answer.rough)

    @property
    def told(self) -> int:
        """The number of intervals."""
        return sum(held is not None for held in self.held)

    @property
    def roughs(self) -> int:
        """The number of intervals that say that their level is rough; these are no evidence."""
        return sum(rough and held is not None for rough, held in zip(self.rough, self.held, strict=True))

    @property
    def counted(self) -> tuple[int, int]:
        """The number of judged intervals, and the number of these that miss the truth."""
        judged = [
            held for rough, held in zip(self.rough, self.held, strict=True) if held is not None and not rough
        ]
        return len(judged), sum(not held for held in judged)

    @property
    def wealth(self) -> float:
        return wealth(*self.counted, self.may_miss)

    @property
    def coverage(self) -> float:
        surveys, missed = self.counted
        return 1.0 - missed / surveys if surveys else math.nan

    @property
    def width(self) -> float:
        """The median width."""
        there = [width for width in self.widths if not math.isnan(width)]
        return float(np.median(there)) if there else math.nan


@dataclass
class Study:
    """All surveys of a part at a place."""

    part: str
    place: Place
    kinds: tuple[str, ...] = ("",)
    """Prefixes of the names of the intervals that are judged."""
    cells: dict[Name, Cell] = field(default_factory=dict)
    surveys: int = 0
    errors: list[str] = field(default_factory=list)

    def add(self, rows: Iterable[dict[Name, Answer] | str]) -> None:
        """Add surveys, in their order."""
        for row in rows:
            self.surveys += 1
            if isinstance(row, str):
                self.errors.append(row)
                continue
            for name, answer in row.items():
                if name[0].startswith(self.kinds):
                    self.cells.setdefault(name, Cell()).add(answer)

    def look(self) -> None:
        """Record the current evidence."""
        for cell in self.cells.values():
            cell.peak = max(cell.peak, cell.wealth)

    def doubtful(self) -> bool:
        """Return whether a cell speaks against its hypothesis, but not yet for certain."""
        return any(cell.wealth >= DOUBT and cell.peak < CERTAIN for cell in self.cells.values())


def wealth(surveys: int, missed: int, may_miss: float = MOST_MISSED) -> float:
    """Return the evidence against misses of at most this rate, see the top of this module."""
    rates = np.array(RATES)
    odds = rates / (1 - rates) * ((1 - MOST_MISSED) / MOST_MISSED) * may_miss / (1 - may_miss)
    rates = odds / (1 + odds)
    logs = missed * np.log(rates / may_miss) + (surveys - missed) * np.log((1 - rates) / (1 - may_miss))
    return float(np.exp(min(logs.max(), 600.0)) * np.exp(np.maximum(logs - logs.max(), -600.0)).mean())


def rejected(studies: Iterable[Study]) -> list[tuple[Study, Name, Cell]]:
    """Return the cells with a hypothesis that Holm's method rejects, most evidence first."""
    cells = [(study, name, cell) for study in studies for name, cell in study.cells.items()]
    found = sorted(cells, key=lambda each: -each[2].peak)
    for k, (_, _, cell) in enumerate(found):
        if cell.peak < (len(found) - k) / ALPHA:
            return found[:k]
    return found


class _Block(NamedTuple):
    part: str
    place: Place
    numbers: range
    seed: int


def _surveys(block: _Block) -> Rows:
    """Make some surveys; a failed survey is recorded as an error and does not end the study."""
    rows: Rows = []
    for number in block.numbers:
        try:
            rows.append(survey(block.part, block.place, number, block.seed))
        except Exception as error:  # noqa: PERF203
            rows.append(f"survey {number}: {type(error).__name__}: {error}")
    return rows


def run(
    places: Iterable[tuple[str, Place]],
    *,
    first: int,
    most: int,
    kinds: Sequence[str] = (),
    seed: int = 1,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[Study]:
    """Survey places, and doubtful ones further, up to `most` times; the result does not depend on `jobs`.

    Parameters
    ----------
    places
        Parts of `coverage_parts.PARTS`, and their places.
    first, most
        Surveys of a place before the first look, and in total.
    kinds
        Prefixes of the names of the intervals that are judged; all unless given.
    seed
        Seed of all randomness.
    jobs
        Number of processes.
    progress
        Called with the number of finished surveys and the number planned so far.
    """
    only = tuple(kinds) or ("",)
    plan = _Plan([Study(part, place, only) for part, place in places], first, most, seed)
    if jobs == 1:
        for index in range(len(plan.studies)):
            while blocks := plan.next(index):
                for block in blocks:
                    plan.take(index, [_surveys(block)], progress)
        return plan.studies
    with ProcessPoolExecutor(jobs) as pool:
        _pooled(pool, plan, progress)
    return plan.studies


class _Plan:
    """The next surveys of each place, and the number of finished ones."""

    def __init__(self, studies: list[Study], first: int, most: int, seed: int) -> None:
        self.studies = studies
        self._first, self._most, self._seed = first, most, seed
        self._done, self._planned = 0, first * len(studies)

    def next(self, index: int) -> list[_Block]:
        """Return the next surveys of a place, in blocks; empty if there are enough."""
        study = self.studies[index]
        upto = self._first
        if study.surveys:
            study.look()
            upto = min(self._most, math.ceil(GROWTH * study.surveys)) if study.doubtful() else study.surveys
            self._planned += upto - study.surveys
        return [
            _Block(study.part, study.place, range(start, min(start + BLOCK, upto)), self._seed)
            for start in range(study.surveys, upto, BLOCK)
        ]

    def take(self, index: int, blocks: Iterable[Rows], progress: Callable[[int, int], None] | None) -> None:
        """Add surveys of a place, in their order."""
        for rows in blocks:
            self.studies[index].add(rows)
            self._done += len(rows)
        if progress is not None:
            progress(self._done, self._planned)


def _pooled(pool: Executor, plan: _Plan, progress: Callable[[int, int], None] | None) -> None:
    """Make the surveys of all places in processes; each place continues when its blocks are finished."""
    running: dict[Future[Rows], int] = {}
    batches: dict[int, list[Future[Rows]]] = {}

    def start(index: int) -> None:
        batches[index] = [pool.submit(_surveys, block) for block in plan.next(index)]
        running.update(dict.fromkeys(batches[index], index))

    for index in range(len(plan.studies)):
        start(index)
    while running:
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            index = running.pop(future)
            if all(each.done() for each in batches[index]) and not any(
                each in running for each in batches[index]
            ):
                plan.take(index, [each.result() for each in batches[index]], progress)
                start(index)
