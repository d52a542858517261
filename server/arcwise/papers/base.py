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
    """A table of numbers and words with column headings: the content of a CSV file."""

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
    """One published value, formula, limit or claim beside the computed value.

    `what` names the value in words. `published` is as printed in the source, or follows from what is printed.
    `tolerance` is the largest relative deviation that rounding in print explains. `erratum` says why the
    published value is wrong, and is "" if it is right. `formula` means that the source prints no number, but
    a formula, a limit or a claim that this value follows from.
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
    """The outcome of a reproduction.

    `tables` are by a short name, which becomes part of the name of a CSV file. `findings` are sentences on
    the results and on errors of the publication; numbers in them are computed.
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
    """One table or figure of a source, by its name for `arcwise reproduce NAME`: lower case, with hyphens.

    `source` is the publication and the number of the table or figure in it, `title` a line on its content.
    The first argument of `run` asks for the size of the publication where the default is a sample.
    """

    name: str
    source: str
    title: str
    run: Callable[[bool, Progress], Outcome] = field(repr=False)
