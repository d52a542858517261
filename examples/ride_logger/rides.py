"""Read rides from a sensor's lines, or simulate them, until the app is stopped."""

from __future__ import annotations

import logging
import math
import random
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_log = logging.getLogger(__name__)


class Ride(NamedTuple):
    """The mean heading of a ride in degrees from north, and its duration in minutes."""

    heading: float
    minutes: float


def read_rides(lines: Iterable[str]) -> Iterator[Ride]:
    """Yield the rides from lines such as ``350.5,42``; skip all other lines."""
    for number, line in enumerate(lines, start=1):
        try:
            ride = Ride(*map(float, line.split(",")))
        except (TypeError, ValueError):
            ride = Ride(math.nan, math.nan)
        if all(map(math.isfinite, ride)):
            yield ride
        else:
            _log.warning(
                "line %d of the sensor is not a ride", number
            )  # the line itself stays out of the log


def simulated_rides(pause: float) -> Iterator[Ride]:
    """Yield a ride every `pause` seconds: mostly north-east, mostly half an hour."""
    while True:
        yield Ride(random.vonmisesvariate(0.8, 2.0) * 180 / math.pi, random.lognormvariate(3.4, 0.5))
        time.sleep(pause)


class _StopError(Exception):
    pass


def until_stopped(rides: Iterator[Ride]) -> Iterator[Ride]:
    """Yield rides until SIGTERM or SIGINT; a signal ends a wait, but never interrupts work on a ride."""
    waiting = stopped = False

    def stop(_number: int, _frame: object) -> None:
        nonlocal stopped
        stopped = True
        if waiting:
            raise _StopError

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    while True:
        try:
            waiting = True
            ride = None if stopped else next(rides, None)
            waiting = False
        except _StopError:
            return
        if ride is None:
            return
        yield ride
