"""What a reader must know of a number: short notes, each told once, with the rows that it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_SEVERAL = {"quantile": "quantiles", "share": "shares", "bin": "bins", "cdf": "cdf"}
"""First words of the names of rows that come in numbers."""


class Noted:
    """What has a method and notes."""

    method: str
    notes: tuple[str, ...]

    @property
    def note(self) -> str:
        """The notes as one text, or ""."""
        return "; ".join(self.notes)

    def _said(self) -> dict[str, Any]:
        return {"method": self.method, "note": self.note, "notes": list(self.notes)}


def said_in(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return method and notes as the JSON object of a number, a distribution or a band has them."""
    return {"method": document["method"], "notes": tuple(document["notes"])}


def all_notes(*parts: str | Iterable[str]) -> tuple[str, ...]:
    """Return all notes, of which each argument holds one, several or, with "", none."""
    several = ((each,) if isinstance(each, str) else each for each in parts)
    return tuple(note for each in several for note in each if note)


def note_lines(rows: Sequence[tuple[str, Iterable[str]]]) -> list[str]:
    """Return one line of text for each different note, with the names of the rows that have it.

    Examples
    --------
    >>> rows = [("mean", ["few reports"]), ("quantile 0.5", ["smoothed", "few reports"]), ("mode", [])]
    >>> note_lines(rows)
    ['few reports (mean, quantiles)', 'smoothed (quantiles)']
    """
    about: dict[str, dict[str, None]] = {}
    groups = [_SEVERAL.get(name.split(" ")[0], name) for name, _ in rows]
    for group, (_, notes) in zip(groups, rows, strict=True):
        for note in notes:
            about.setdefault(note, {})[group] = None
    everything = set(groups)
    return [
        note if set(names) == everything else f"{note} ({', '.join(names)})" for note, names in about.items()
    ]
