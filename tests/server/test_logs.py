"""The log of `arcwise serve`: no sender can fill it, and omitted lines are counted."""

from __future__ import annotations

import io
import logging
from typing import TYPE_CHECKING

import pytest

from arcwise.server.process import logs
from arcwise.server.process.logs import SparingHandler

if TYPE_CHECKING:
    from collections.abc import Iterator


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Log:
    """A logger with readable lines, and a clock that a test moves."""

    def __init__(self) -> None:
        self.clock = Clock()
        self._text = io.StringIO()
        self.handler = SparingHandler(self._text, clock=self.clock)
        self.logger = logging.getLogger("arcwise.test")
        self.logger.propagate = False
        self.logger.handlers[:] = [self.handler]

    def warn(self, number: int) -> None:
        self.logger.warning("number %d", number)

    def fail(self, error: Exception) -> None:
        try:
            raise error
        except Exception:
            self.logger.exception("failed")

    @property
    def lines(self) -> list[str]:
        return [
            line
            for line in self._text.getvalue().splitlines()
            if line.startswith(("number", "failed", "other"))
        ]


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log()
    yield made
    made.logger.handlers.clear()
    made.logger.propagate = True


def test_a_place_gets_a_line_a_minute_and_a_count(log: Log) -> None:
    for second in range(150):
        log.clock.now = float(second)
        for number in range(100):
            log.warn(number)
    log.handler.finish()
    assert log.lines == [
        "number 0",
        "number 99 (5999 more like this since the last that was logged)",
        "number 99 (6000 more like this since the last that was logged)",
        "number 99 (3000 more like this since the last that was logged)",
    ]


def test_other_places_are_not_left_out_and_say_what_was(log: Log) -> None:
    log.warn(1)
    log.warn(2)
    log.logger.warning("other")
    log.clock.now = 61.0
    log.logger.warning("other one")
    log.clock.now = 200.0
    log.warn(3)
    assert log.lines == [
        "number 1",
        "other",
        "number 2 (1 more like this since the last that was logged)",
        "other one",
        "number 3",
    ]


def test_exceptions_are_told_apart_by_type_and_place(log: Log) -> None:
    for _ in range(10):
        log.fail(ValueError("a"))
        log.fail(KeyError("b"))
    assert log.lines == ["failed", "failed"]


def test_nothing_is_kept_of_what_is_left_out_but_its_words(log: Log) -> None:
    log.warn(1)
    log.warn(2)
    (place,) = log.handler._places.values()
    assert place.last is not None
    assert (place.last.msg, place.last.args, place.last.exc_info) == ("number 2", None, None)


def test_places_are_bounded(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_MOST_PLACES", 10)
    for line in range(100):
        log.handler.handle(
            logging.LogRecord("name", logging.WARNING, "path", line, "number %d", (line,), None)
        )
    assert len(log.handler._places) <= 10
    assert len(log.lines) == 100
