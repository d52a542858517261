"""Randomness that says by one exception that there is none, so that a report can end without a charge."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.randomness import Randomness

_NONE = (OSError, NotImplementedError)
"""What `os.urandom` raises where it has nothing."""


class NoRandomness(Exception):  # noqa: N818 (it becomes an outcome, and never leaves the client)
    """The operating system gave no random bytes."""


@contextmanager
def named() -> Iterator[None]:
    """Raise `NoRandomness` where the operating system has no random bytes."""
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
        try:  # not `named`, which takes longer than the draw
            return self._randomness.draw()
        except _NONE as error:
            raise NoRandomness from error

    def draws(self, count: int) -> bytes:
        """Return the bytes of so many draws."""
        with named():
            return self._randomness.draws(count)
