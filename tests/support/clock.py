"""A clock that moves only when it is told to, in place of the two that the client or the server reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.client import Environment

if TYPE_CHECKING:
    from types import ModuleType

    import pytest

__all__ = ["Clock"]


class Clock(Environment):
    """An environment with a clock of its own; stands for the module `time`, too, where the server asks it.

    What waits for a thread goes on by the real clock. The monotonic one is ahead of that of any machine:
    a test that mixes the two fails everywhere, and not only where the machine has just been started.
    """

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._wall = now
        self._monotonic = 1e9

    def time(self) -> float:
        return self._wall

    def monotonic(self) -> float:
        return self._monotonic

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._wall += seconds
        self._monotonic += seconds

    def step(self, seconds: float) -> None:
        """Set the time of day forward, or back; no time passes."""
        self._wall += seconds

    def restart(self) -> None:
        """Begin the monotonic clock anew, as a restart of the machine does."""
        self._monotonic = 7.0

    def install(self, monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
        """Let these modules of the server read this clock."""
        for module in modules:
            monkeypatch.setattr(module, "time", self)
