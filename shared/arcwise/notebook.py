"""HTML for notebooks: a heading, tables, notes and a picture. All texts are escaped here."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_ROWS = 40
"""A table below a picture is folded if it has more rows than this."""


class Table(NamedTuple):
    """Texts in columns; the first text of a row is its heading."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def html(self) -> str:
        """Return the table as an HTML element."""
        left = " style='text-align:left'"
        head = "".join(f"<th{left}>{escape(column)}</th>" for column in self.columns)
        body = ""
        for first, *others in self.rows:
            cells = "".join(f"<td{left}>{escape(cell)}</td>" for cell in others)
            body += f"<tr><th{left}>{escape(first)}</th>{cells}</tr>"
        thead = f"<thead><tr>{head}</tr></thead>" if any(self.columns) else ""
        return f"<table>{thead}<tbody>{body}</tbody></table>"


class Form(NamedTuple):
    """The contents of an object's notebook display: a heading with a bold first line, tables and notes."""

    head: Sequence[str]
    tables: Sequence[Table]
    notes: Sequence[str] = ()

    def html(self, picture: str = "") -> str:
        """Return this display as HTML; `picture` is optional markup, such as an ``<svg>`` element.

        On a narrow screen the picture can be scrolled.
        """
        head, *rest = map(escape, self.head)
        tables = "".join(table.html() for table in self.tables)
        rows = sum(len(table.rows) for table in self.tables)
        if picture and rows > _MOST_ROWS:
            tables = f"<details><summary>{rows} rows</summary>{tables}</details>"
        if picture:
            picture = f"<div style='overflow-x:auto'>{picture}</div>"
        notes = "".join(f"<p>note: {escape(note)}</p>" for note in self.notes)
        return f"<p>{'<br>'.join([f'<b>{head}</b>', *rest])}</p>{picture}{tables}{notes}"
