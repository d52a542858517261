"""Reproductions: tables and figures of a publication that are recomputed, compared, written and drawn.

A reproduction is a function with the decorator `reproduction`, in another file of this package. It computes
and returns its findings. This file writes the result files, `pictures` draws the pictures, and the command
line prints the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from arcwise.analysis.csv_rows import write_csv
from arcwise.analysis.plotting.style import new_figure
from arcwise.papers.pictures import draw

if TYPE_CHECKING:
    from pathlib import Path

    from arcwise.papers.pictures import Picture

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of finished steps and their total."""

_Item = TypeVar("_Item")


def steps(progress: Progress, items: Iterable[_Item]) -> Iterator[_Item]:
    """Yield the items one by one; before each item, report how many are done."""
    items = list(items)
    for done, item in enumerate(items):
        progress(done, len(items))
        yield item
    progress(len(items), len(items))


@dataclass(frozen=True)
class Table:
    """A table of numbers and words with column headings: the content of a CSV file."""

    columns: Sequence[str]
    rows: Sequence[Sequence[float | int | str]]

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Table:
        """Return the table with these columns, given by heading; the columns are arrays of one length."""
        values = [np.asarray(column).tolist() for column in columns.values()]
        return cls(tuple(columns), list(zip(*values, strict=True)))

    @classmethod
    def stacked(cls, keys: str | tuple[str, ...], parts: Mapping[Any, Mapping[str, Any]]) -> Table:
        """Return one table of several parts, given by key; each part has its columns by heading.

        The columns of the key come first.

        `keys` is the heading of the key, or a tuple of headings if the keys are tuples.
        """
        rows: list[tuple[float | int | str, ...]] = []
        for key, columns in parts.items():
            table = cls.of(columns)
            rows += [(*_as_tuple(key), *row) for row in table.rows]
        return cls((*_as_tuple(keys), *table.columns), rows)


def _as_tuple(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def in_unit(unit: str, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns with this unit added to their names, as in ``"x (radians)"``."""
    return {f"{name} ({unit})": column for name, column in columns.items()}


@dataclass(frozen=True)
class Check:
    """A published value, formula, limit or claim, together with the computed value.

    `what` names the value in words. `published` is the value printed in the source, or a value that follows
    from the source. `tolerance` is the largest relative deviation that rounding in print explains. `erratum`
    says why the published value is wrong; it is "" if the value is right. `formula` means that the source
    prints no number: `published` then follows from a printed formula, limit or claim.
    """

    what: str
    published: float
    computed: float
    tolerance: float = 5e-3
    erratum: str = ""
    formula: bool = False

    @property
    def deviation(self) -> float:
        """The relative deviation from the published value (the absolute deviation if that value is 0)."""
        return abs(self.computed - self.published) / (abs(self.published) or 1.0)

    @property
    def agrees(self) -> bool:
        """Whether the deviation is within the tolerance."""
        return self.deviation <= self.tolerance


def printed(what: str, text: str, computed: float, *, units: float = 0.5, erratum: str = "") -> Check:
    """Return the check of a computed value against its printed form `text`, such as "199.92".

    The value may differ by `units` units of the last printed digit: 1/2 if the source rounds, 1 if it
    truncates.
    """
    published = float(text)
    decimals = len(text.partition(".")[2])
    # Allow slightly more than the units, because halves are not exact in floats.
    tolerance = units * 10.0**-decimals / abs(published) * (1.0 + 1e-9)
    return Check(what, published, computed, tolerance, erratum)


def formula(
    what: str, expected: float, computed: float, tolerance: float = 5e-3, *, erratum: str = ""
) -> Check:
    """Return the check of a computed value against a consequence of a printed formula, limit or claim."""
    return Check(what, expected, computed, tolerance, erratum, formula=True)


def listed(values: Iterable[float], form: str = "g") -> str:
    """Return numbers in this format, separated by commas."""
    return ", ".join(f"{value:{form}}" for value in values)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a reproduction.

    `tables` maps a short name, which becomes part of the name of a CSV file, to each table. `findings` are
    sentences on the results and on errors of the publication. All numbers in them are computed.
    """

    tables: dict[str, Table]
    picture: Picture
    checks: Sequence[Check] = ()
    findings: Sequence[str] = ()

    @property
    def largest(self) -> Check | None:
        """The check with the largest deviation among checks without an erratum, or None."""
        sound = [check for check in self.checks if not check.erratum]
        return max(sound, key=lambda check: check.deviation, default=None)


def write_outcome(folder: Path, name: str, outcome: Outcome, *, picture: str = "png") -> list[Path]:
    """Write the tables and the picture ("png" or "svg") of an outcome into a folder; return their paths.

    The folder must exist. The names of the files start with `name`, the name of the reproduction.
    """
    paths = []
    for table_name, table in outcome.tables.items():
        stem = name if len(outcome.tables) == 1 else f"{name}-{table_name}"
        paths.append(folder / f"{stem}.csv")
        rows = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
        write_csv(paths[-1], table.columns, rows)
    path = folder / f"{name}.{picture}"
    with new_figure(outcome.picture.size) as figure:
        draw(figure, outcome.picture)
        figure.savefig(path, format=picture, metadata={"Date": None} if picture == "svg" else None)
    return [*paths, path]


_Run: TypeAlias = Callable[[bool, Progress], Outcome]


@dataclass(frozen=True)
class Reproduction:
    """A table or figure of a source, with its name for `arcwise reproduce NAME`: lower case, with hyphens.

    `source` is the publication with the number of the table or figure. `title` is a line on its content. The
    first argument of `run` requests the full size of the publication; the default may be a smaller sample.
    """

    name: str
    source: str
    title: str
    run: _Run = field(repr=False)


def reproduction(name: str, source: str, title: str) -> Callable[[_Run], Reproduction]:
    """Turn the decorated function into the reproduction with this name."""
    return lambda run: Reproduction(name, source, title, run)
