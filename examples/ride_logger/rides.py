"""Rides, from a sensor's lines or made up, until somebody asks the app to stop."""

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
    """Its mean heading in degrees from north, and its duration in minutes."""

    heading: float
    minutes: float


def read_rides(lines: Iterable[str]) -> Iterator[Ride]:
    """Yield the rides of lines such as ``350.5,42``; what is not one is skipped."""
    for number, line in enumerate(lines, start=1):
        try:
            ride = Ride(*map(float, line.split(",")))
        except (TypeError, ValueError):
            ride = Ride(math.nan, math.nan)
        if all(map(math.isfinite, ride)):
            yield ride
        else:
            _log.warning("line %d of the sensor is no ride", number)  # the line itself stays out of the log


def simulated_rides(pause: float) -> Iterator[Ride]:
    """Yield a ride every so many seconds: mostly to the north-east, mostly half an hour."""
    while True:
        yield Ride(random.vonmisesvariate(0.8, 2.0) * 180 / math.pi, random.lognormvariate(3.4, 0.5))
        time.sleep(pause)


class _StopError(Exception):
    pass


def until_stopped(rides: Iterator[Ride]) -> Iterator[Ride]:
    """Yield rides until SIGTERM or SIGINT, which end a wait and never interrupt what is done with a ride."""
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
