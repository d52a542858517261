"""Logs on standard error: a JSON object per line, or lines for people.

There is no access log. Of an exception the type and the places are logged, and its words only where they are
arcwise's own: those of another library may repeat what it was given.
"""

from __future__ import annotations

import json
import logging
import traceback
from datetime import datetime, timezone
from typing import Any

from arcwise.errors import ArcwiseError

__all__ = ["configure_logs"]

_QUIET = ("uvicorn.access",)


class _JSONFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[1] is not None:
            entry["exception"] = _described(record.exc_info[1])
        return json.dumps(entry)


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = f"{self.formatTime(record)} {record.levelname} {record.name}: {record.getMessage()}"
        if record.exc_info and record.exc_info[1] is not None:
            described = _described(record.exc_info[1])
            line += f" [{described['type']}{described.get('words', '')}]"
            line += "".join(f"\n    {place}" for place in described["places"])
        return line


def configure_logs(form: str, level: str) -> None:
    """Send everything that is logged to standard error.

    Parameters
    ----------
    form
        "json" or "text".
    level
        "debug", "info", "warning" or "error".
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_JSONFormatter() if form == "json" else _TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).disabled = True
    # Levels below would have addresses in their lines.
    logging.getLogger("uvicorn.error").setLevel(max(root.level, logging.INFO))


def _described(error: BaseException) -> dict[str, Any]:
    described: dict[str, Any] = {
        "type": type(error).__name__,
        "places": [
            f"{frame.filename}:{frame.lineno} {frame.name}"
            for frame in traceback.extract_tb(error.__traceback__)
        ],
    }
    if isinstance(error, ArcwiseError):
        described["words"] = f": {error}"
    return described
