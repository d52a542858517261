"""What a reproduction is: a table or a figure of a source, computed anew, compared, written and drawn.

A reproduction is one function in one of the files beside this one, and one line in the list of its file. It
computes and says what it found; files, pictures and messages are made elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from arcwise.papers.pictures import Picture

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the steps that are done and their number in all."""


@dataclass(frozen=True)
class Table:
    """Numbers with headings: what the CSV file holds.

    Attributes
    ----------
    columns
        Headings, one for each column.
    rows
        Numbers or words, one for each column.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[float | int | str]]

    @classmethod
    def of(cls, **columns: Any) -> Table:
        """Return the table of these columns, arrays of one length."""
        values = [np.asarray(column).tolist() for column in columns.values()]
        return cls(tuple(columns), list(zip(*values, strict=True)))

    @classmethod
    def stacked(cls, keys: Sequence[str], parts: Mapping[Any, Mapping[str, Any]]) -> Table:
        """Return the table of several parts, columns by heading, each led by its key, a tuple."""
        tables = {key: cls.of(**columns) for key, columns in parts.items()}
        headings = next(iter(tables.values())).columns
        return cls((*keys, *headings), [(*key, *row) for key, table in tables.items() for row in table.rows])


@dataclass(frozen=True)
class Check:
    """One published value, formula, limit or claim beside what is computed here.

    Attributes
    ----------
    what
        Which value, in words.
    published
        As it is printed in the source, or follows from what is.
    computed
        As it came out.
    tolerance
        The largest relative deviation that rounding in print explains.
    erratum
        Why the published value is wrong, where it is; "" otherwise.
    formula
        Whether the source prints no number but a formula, a limit or a claim, of which this is a value.
    """

    what: str
    published: float
    computed: float
    tolerance: float = 5e-3
    erratum: str = ""
    formula: bool = False

    @property
    def deviation(self) -> float:
        """The relative deviation from the published value (absolute where that is 0)."""
        return abs(self.computed - self.published) / (abs(self.published) or 1.0)

    @property
    def agrees(self) -> bool:
        """Whether the deviation is within the tolerance."""
        return self.deviation <= self.tolerance


@dataclass(frozen=True)
class Outcome:
    """What a reproduction found.

    Attributes
    ----------
    tables
        By a short name, which becomes part of the name of a CSV file.
    picture
        The panels of the picture.
    checks
        Published values beside computed ones.
    findings
        Sentences: what was found, where the publication errs. Numbers in them are computed.
    """

    tables: dict[str, Table]
    picture: Picture
    checks: Sequence[Check] = ()
    findings: Sequence[str] = ()

    @property
    def largest(self) -> Check | None:
        """The check with the largest deviation among those whose source does not err; None without any."""
        sound = [check for check in self.checks if not check.erratum]
        return max(sound, key=lambda check: check.deviation, default=None)


@dataclass(frozen=True)
class Reproduction:
    """One table or figure of a source, by name.

    Attributes
    ----------
    name
        What `arcwise reproduce NAME` calls it: lower case, with hyphens.
    source
        The publication and the number of the table or figure in it.
    title
        What it shows, in one line.
    run
        Computes it. ``full`` asks for the size of the publication where the default is a sample.
    """

    name: str
    source: str
    title: str
    run: Callable[[bool, Progress], Outcome] = field(repr=False)
