"""Numbers shared by the senders and the process that kills the servers, in a file that both map.

Each number has one writer, and is read at the moment of a kill without asking anybody.
"""

from __future__ import annotations

import mmap
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


SENT, ACKNOWLEDGED = 1, 2
"""States of a batch; 0: not made yet."""
_HEAD = 256


class Number(IntEnum):
    """The places of numbers in `Tally.numbers`; from IN_FLIGHT and TAKEN on there is one for each worker."""

    FINISH = 0
    """1: make no more batches, have all acknowledged, and end."""
    MADE = 1
    """Batches."""
    REPLAYS = 2
    """Batches that were acknowledged again."""
    TWINS = 3
    """Batches that two requests sent at the same moment, both of them acknowledged."""
    BUSY = 4
    """Answers 503."""
    LOST = 5
    """Requests whose connection ended before the answer."""
    IN_FLIGHT = 8
    """Requests without an answer yet."""
    TAKEN = 20
    """Requests that were acknowledged."""


class Tally:
    """The numbers, and the states of this many batches; the file is made if it does not exist."""

    def __init__(self, path: Path, capacity: int) -> None:
        with path.open("r+b" if path.exists() else "w+b") as file:
            file.truncate(_HEAD + capacity)
            self._map = mmap.mmap(file.fileno(), _HEAD + capacity)
        self._view = memoryview(self._map)
        self.numbers = self._view[:_HEAD].cast("q")
        """By `Number`."""
        self.states = self._view[_HEAD:]
        """By the number of a batch."""

    def snapshot(self) -> NDArray[np.uint8]:
        """Return the states of all batches as they are now; shape (capacity,)."""
        return np.array(self.states, np.uint8)

    def close(self) -> None:
        """Release the file."""
        for view in (self.numbers, self.states, self._view):
            view.release()
        self._map.close()
