"""A client's view of its machine: clocks, random bits and processes. Tests can replace it."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from arcwise.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.randomness import Randomness

_NONE = (OSError, NotImplementedError)
"""Exceptions of `os.urandom` when it has no random bytes."""


class NoRandomness(Exception):  # noqa: N818 (it becomes an outcome and never leaves the client)
    """The operating system gave no random bytes."""


@contextmanager
def named() -> Iterator[None]:
    """Raise `NoRandomness` if the block finds that the operating system has no random bytes."""
    try:
        yield
    except _NONE as error:
        raise NoRandomness from error


class Source:
    """A source of draws that raises `NoRandomness` when it has none."""

    __slots__ = ("_randomness",)

    def __init__(self, randomness: Randomness) -> None:
        self._randomness = randomness

    @property
    def secure(self) -> bool:
        """Whether reports made with this source are private."""
        return self._randomness.secure

    def draw(self) -> tuple[int, int]:
        """Return two independent uniform integers."""
        try:  # not `named`, which would take longer than the draw itself
            return self._randomness.draw()
        except _NONE as error:
            raise NoRandomness from error

    def draws(self, count: int) -> bytes:
        """Return the bytes of `count` draws."""
        with named():
            return self._randomness.draws(count)


class Environment:
    """A client's source of times, random bits and process ids; a test can override some of its methods.

    Waits of threads and event loops use the real clock. Reports are drawn with the `randomness` argument of
    `Client`.

    Examples
    --------
    A test that a rolling cap of one day allows another report a day later:

    >>> from arcwise.client import Caps, Circle, Client, MemoryLedger, RecordingTransport, Task
    >>> class Test(Environment):
    ...     now = 1.7e9
    ...
    ...     def time(self):
    ...         return self.now
    >>> test = Test()
    >>> heading = Task("heading", Circle(360), epsilon=1.0, caps=Caps(rolling=1.0, window=86_400))
    >>> with Client(
    ...     "https://reports.example",
    ...     tasks=[heading],
    ...     ledger=MemoryLedger(),
    ...     transport=RecordingTransport(),
    ...     environment=test,
    ... ) as client:
    ...     today = [bool(client.report("heading", 12.0)) for _ in range(2)]
    ...     test.now += 86_400
    ...     today, bool(client.report("heading", 12.0))
    ([True, False], True)
    """

    __slots__ = ()

    def time(self) -> float:
        """Return the Unix time."""
        return time.time()

    def monotonic(self) -> float:
        """Return the time of a monotonic clock in seconds."""
        return time.monotonic()

    def random_bytes(self, count: int) -> bytes:
        """Return `count` bytes from the operating system's CSPRNG, for batch ids and delays."""
        return os.urandom(count)

    def uniform(self) -> float:
        """Return a random number in [0, 1)."""
        return (int.from_bytes(self.random_bytes(8), "little") >> 11) * 2.0**-53

    def process_id(self) -> int:
        """Return the id of this process."""
        return os.getpid()

    def may_be_alive(self, process_id: int) -> bool:
        """Return whether a process with this id may be running; the check does not affect that process."""
        if os.name == "nt":  # os.kill would end the process, so only the end of the lease counts
            return True
        try:
            os.kill(process_id, 0)
        except ProcessLookupError:
            return False
        except OSError:
            return True
        return True


MACHINE = Environment()
"""This machine."""


def unix_time(environment: Environment) -> float:
    """Return the Unix time; raise `LedgerError` if it cannot order charges or epochs."""
    now = environment.time()
    if not 0 <= now < 1e15:  # the bounds of the ledgers' files; they also exclude NaN
        raise LedgerError(f"environment.time() returned {now!r}, which is not a Unix time: correct the clock")
    return now
