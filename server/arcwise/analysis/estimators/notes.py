"""The notes of many rows as few lines: each is told once, with the rows that it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["note_lines"]

_SEVERAL = {"quantile": "quantiles", "share": "shares", "bin": "bins", "cdf": "cdf"}
"""First words of the names of rows that come in numbers."""


def note_lines(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return lines of text for the notes of rows.

    Parameters
    ----------
    rows
        Pairs of a row's name and its note, in which `join` of `small_samples` has put "; " between the parts.

    Examples
    --------
    >>> note_lines([("mean", "few reports"), ("quantile 0.5", "smoothed; few reports"), ("mode", "")])
    ['few reports (mean, quantiles)', 'smoothed (quantiles)']
    """
    about: dict[str, dict[str, None]] = {}
    groups = [_SEVERAL.get(name.split(" ")[0], name) for name, _ in rows]
    for group, (_, note) in zip(groups, rows, strict=True):
        for part in filter(None, note.split("; ")):
            about.setdefault(part, {})[group] = None
    everything = set(groups)
    return [
        part if set(names) == everything else f"{part} ({', '.join(names)})" for part, names in about.items()
    ]
