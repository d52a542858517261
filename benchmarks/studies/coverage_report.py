"""Output of `coverage.py`: tables, bounds that are missed, and widths compared with an earlier run.

Not a program.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from rich.table import Table

from benchmarks.studies.coverage_study import Cell, Study, rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

__all__ = ["by_interval", "by_population", "compared", "exempt", "missed", "to_json"]

MOST_ROUGH = 0.05
"""Largest share of intervals, in cells with a thousand reports or more, that may say they are rough."""

GROWN = 1.25
"""Largest growth of the median width on smooth populations."""


class _Worst(NamedTuple):
    study: Study
    interval: str
    item: str
    cell: Cell


def _cells(studies: Iterable[Study]) -> list[_Worst]:
    return [_Worst(study, *name, cell) for study in studies for name, cell in study.cells.items()]


def _where(study: Study) -> str:
    return f"epsilon {study.place.epsilon:g}, n = {study.place.reports:,}"


def _name(each: _Worst) -> str:
    return f"{each.interval} {each.item}".strip()


def _row(label: str, cells: list[_Worst], bad: set[int]) -> list[str]:
    judged = [each for each in cells if each.cell.counted[0]]
    if not judged:
        return [label, "", str(len(cells)), "", "", "", ""]
    worst = max(judged, key=lambda each: (each.cell.wealth, -each.cell.coverage))
    surveys, wrong = worst.cell.counted
    return [
        label,
        str(sum(each.cell.counted[0] for each in judged)),
        str(len(cells)),
        str(sum(id(each.cell) in bad for each in cells) or ""),
        f"{np.mean([each.cell.coverage for each in judged]):.3f}",
        f"{surveys - wrong} of {surveys}",
        f"{_name(worst)}, {worst.study.place.population.name}, {_where(worst.study)}",
    ]


def _table(title: str, first: str, rows: Iterable[list[str]]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for name in ("intervals", "cells", "rejected", "held", "worst cell held"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("which", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def by_population(studies: Sequence[Study]) -> Table:
    """Return a row for each population, with its worst cell."""
    bad = {id(cell) for _, _, cell in rejected(studies)}
    groups: dict[str, list[_Worst]] = defaultdict(list)
    for each in _cells(studies):
        groups[each.study.place.population.name].append(each)
    rows = (_row(name, cells, bad) for name, cells in groups.items())
    return _table("populations", "population", rows)


def by_interval(studies: Sequence[Study]) -> Table:
    """Return a row for each kind of interval, with its worst cell."""
    bad = {id(cell) for _, _, cell in rejected(studies)}
    groups: dict[str, list[_Worst]] = defaultdict(list)
    for each in _cells(studies):
        groups[each.interval].append(each)
    rows = (_row(name, groups[name], bad) for name in sorted(groups))
    return _table("intervals", "interval", rows)


def missed(studies: Sequence[Study]) -> list[str]:
    """Return the bounds that are missed, one a line."""
    lines = []
    for study, (interval, item), cell in rejected(studies):
        surveys, wrong = cell.counted
        what = "false alarms" if study.part == "fit test" else "misses"
        where = f"{study.place.population.name}, {_where(study)}"
        lines.append(
            f"{what} above {cell.may_miss:g}: {f'{interval} {item}'.strip()}, "
            f"{where}: held {surveys - wrong} of {surveys} (p {1 / cell.peak:.1g})"
        )
    for study in studies:
        name, domain, line, _ = study.place.population
        if study.errors:
            lines.append(
                f"{len(study.errors)} of {study.surveys} surveys fail: {name} ({domain} | {line}), "
                f"{_where(study)}: {study.errors[0]}"
            )
    many = [each for each in _cells(studies) if each.study.place.reports >= 1_000]
    share = _rough_share(many)
    if share > MOST_ROUGH:
        lines.append(f"{share:.1%} of the intervals with 1,000 reports or more say that they are rough")
    lines += [
        f"rough with many reports: {_name(each)}, {each.study.place.population.name}, {_where(each.study)}"
        for each in many
        if each.study.place.reports >= 10_000 and each.study.place.epsilon <= 8 and each.cell.roughs
    ]
    return lines


def _rough_share(cells: Iterable[_Worst]) -> float:
    cells = list(cells)
    told = sum(each.cell.told for each in cells)
    return sum(each.cell.roughs for each in cells) / told if told else 0.0


def exempt(studies: Sequence[Study]) -> str:
    """Return in words which intervals say that they are rough, and which are not shown."""
    cells = _cells(studies)
    many = [each for each in cells if each.study.place.reports >= 1_000]
    untold = sum(len(each.cell.held) - each.cell.told for each in cells)
    return (
        f"rough by their own notes: {_rough_share(cells):.1%} of all intervals, "
        f"{_rough_share(many):.1%} with 1,000 reports or more; "
        f"no interval where one was asked for: {untold} of {sum(len(each.cell.held) for each in cells)}"
    )


def to_json(studies: Sequence[Study]) -> dict[str, Any]:
    """Return all cells as a JSON object."""
    bad = {id(cell) for _, _, cell in rejected(studies)}
    return {
        "cells": [
            {
                "interval": each.interval,
                "item": each.item,
                "population": each.study.place.population.name,
                "domain": each.study.place.population.domain,
                "line": each.study.place.population.line,
                "smooth": each.study.place.population.section == "smooth",
                "epsilon": each.study.place.epsilon,
                "reports": each.study.place.reports,
                "surveys": each.study.surveys,
                "judged": each.cell.counted[0],
                "missed": each.cell.counted[1],
                "rough": each.cell.roughs,
                "untold": len(each.cell.held) - each.cell.told,
                "width": None if math.isnan(each.cell.width) else each.cell.width,
                "p": min(1.0, 1.0 / each.cell.peak),
                "rejected": id(each.cell) in bad,
            }
            for each in _cells(studies)
        ],
        "errors": [f"{study.place.population.name}: {error}" for study in studies for error in study.errors],
    }


def compared(now: dict[str, Any], file: Path) -> tuple[Table, list[str]]:
    """Return ratios of median widths to those of an earlier run, and those that grow by more than a quarter.

    They are for cells of smooth populations that both runs have; for an interval, the median over all its
    cells.
    """
    key = ("interval", "item", "population", "epsilon", "reports")
    before = {tuple(cell[k] for k in key): cell for cell in json.loads(file.read_text())["cells"]}
    ratios: dict[str, list[tuple[float, dict[str, Any], float]]] = defaultdict(list)
    for cell in now["cells"]:
        old = before.get(tuple(cell[k] for k in key))
        if old is None or not cell["smooth"] or old["width"] is None or cell["width"] is None:
            continue
        ratio = cell["width"] / old["width"] if old["width"] else math.inf if cell["width"] else 1.0
        ratios[cell["interval"]].append((ratio, cell, old["width"]))
    table = Table(title=f"median widths beside {file}", title_justify="left", box=None, pad_edge=False)
    table.add_column("interval", no_wrap=True)
    for name in ("cells", "median ratio", "nine in ten below", "worst"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("which, before and now", overflow="fold")
    lines = []
    for interval in sorted(ratios):
        some = ratios[interval]
        numbers = [ratio for ratio, _, _ in some]
        ratio, cell, old_width = max(some, key=lambda each: each[0])
        middle = float(np.median(numbers))
        table.add_row(
            interval,
            str(len(some)),
            f"{middle:.3f}",
            f"{float(np.quantile(numbers, 0.9, method='higher')):.3f}",
            f"{ratio:.2f}",
            f"{cell['item']} {cell['population']}, epsilon {cell['epsilon']:g}, n = {cell['reports']:,}: "
            f"{old_width:.4g}, {cell['width']:.4g}",
        )
        if middle > GROWN:
            lines.append(f"the median width of {interval} grows to {middle:.3f} times on smooth populations")
    return table, lines
