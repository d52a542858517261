"""Logs on standard error: a JSON object per line, or lines for people.

There is no access log, and senders cannot fill a disk with log lines: the first line from each place in the
code is logged, and then, once a minute, the number of further lines. For an exception, its type and its
places in the code are logged. Its message is logged only if the exception is arcwise's own, because other
libraries may repeat their input.
"""

from __future__ import annotations

import json
import logging
import math
import time
import traceback
from contextlib import nullcontext
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from arcwise.errors import ArcwiseError

if TYPE_CHECKING:
    from collections.abc import Callable

    _StreamHandler = logging.StreamHandler[Any]
else:
    _StreamHandler = logging.StreamHandler  # takes no parameter before Python 3.11

_QUIET = ("uvicorn.access",)

_SECONDS = 60.0
"""Seconds in which each place in the code gets one line."""
_MOST_PLACES = 1000


class _Place:
    """The lines that were left out from one place since its last line."""

    __slots__ = ("last", "left_out", "until")

    def __init__(self, until: float) -> None:
        self.until = until
        self.left_out = 0
        self.last: logging.LogRecord | None = None

    def leave_out(self, record: logging.LogRecord) -> None:
        self.left_out += 1
        # Only the message: arguments and exceptions would keep the contents of requests in memory.
        self.last = logging.LogRecord(
            record.name,
            record.levelno,
            record.pathname,
            record.lineno,
            record.getMessage().strip(),
            None,
            None,
        )


class SparingHandler(_StreamHandler):
    """Writes one line a minute from each place in the code, and how many lines were left out.

    A place is where a line is logged and, with an exception, also its type and where it was raised. The
    number of left-out lines is written with the next line of any kind after the minute, and at the end.
    `stream` is standard error by default, and `clock` counts seconds that only go forward.
    """

    def __init__(self, stream: Any = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._clock = clock
        self._places: dict[tuple[object, ...], _Place] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or count it as left out; called with the handler's lock."""
        now = self._clock()
        key = _place_of(record)
        self._sum_up(now)
        place = self._places.get(key)
        if place is not None:
            place.leave_out(record)
            return
        if len(self._places) >= _MOST_PLACES:
            self._sum_up(math.inf)
            self._places.clear()
        self._places[key] = _Place(now + _SECONDS)
        super().emit(record)

    def finish(self) -> None:
        """Write the numbers of lines that were left out so far."""
        with self.lock or nullcontext():
            self._sum_up(math.inf)

    def _sum_up(self, now: float) -> None:
        """Forget the places whose minute is over, or log how many of their lines were left out, and go on."""
        for key, place in [item for item in self._places.items() if item[1].until <= now]:
            del self._places[key]
            if place.last is not None:
                place.last.msg += f" ({place.left_out} more like this since the last that was logged)"
                self._places[key] = _Place(now + _SECONDS)
                super().emit(place.last)


def finish_logs() -> None:
    """Write the pending lines of the log, before a process ends by a signal."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, SparingHandler):
            handler.finish()


def _place_of(record: logging.LogRecord) -> tuple[object, ...]:
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return record.pathname, record.lineno
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    raised = None if at is None else (at.tb_frame.f_code.co_filename, at.tb_lineno)
    return record.pathname, record.lineno, type(error), raised


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
    """Send all log lines to standard error.

    `form` is "json" or "text", and `level` "debug", "info", "warning" or "error".
    """
    handler = SparingHandler()
    handler.setFormatter(_JSONFormatter() if form == "json" else _TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # At "info" other libraries log lines that no operator needs.
    root.setLevel("WARNING" if level == "info" else level.upper())
    logging.getLogger("arcwise").setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).disabled = True
    # Lower levels would log addresses.
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
