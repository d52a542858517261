"""Designs cached on disk: one JSON file each, with integers and output values that are not trusted.

The folder is `ARCWISE_CACHE`, or the user's cache folder of the platform. A design is on the unit domain, so
domains of all sizes share it. A damaged, foreign or wrong file counts as missing: the caller checks all
claims of a file, and replaces the file if a claim fails.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple


class Design(NamedTuple):
    """The content of a file: a design on the unit domain.

    Each row of integers has the sum 2**64; on a circle there is one row, and `units` is empty. `worst` is the
    worst case that was computed when the file was written.
    """

    rows: tuple[tuple[int, ...], ...]
    units: tuple[float, ...]
    worst: float


def cache_folder() -> Path:
    """Return the folder of the designs, which may not exist yet."""
    named = os.environ.get("ARCWISE_CACHE")
    if named:
        return Path(named) / "designs"
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "arcwise" / "designs"


def _path(key: dict[str, Any]) -> Path:
    text = json.dumps(key, sort_keys=True)
    return cache_folder() / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


def load(key: dict[str, Any]) -> Design | None:
    """Return the design stored under a key, or None if no readable one exists."""
    try:
        stored = json.loads(_path(key).read_text(encoding="utf-8"))
        if stored["key"] != key:
            return None
        rows = tuple(tuple(int(weight) for weight in row) for row in stored["rows"])
        return Design(rows, tuple(map(float, stored["units"])), float(stored["worst"]))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def save(key: dict[str, Any], design: Design) -> None:
    """Store a design: write a temporary file and move it into place, so that no reader sees a partial file.

    It is not an error if the folder cannot be written, because the design can be solved again.
    """
    # 64-bit integers are decimal strings in JSON, and the repr of a float reads back as the same float.
    stored = {
        "key": key,
        "rows": [[str(weight) for weight in row] for row in design.rows],
        "units": list(design.units),
        "worst": design.worst,
    }
    path = _path(key)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(stored, file)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
