"""A clock that a test moves, in place of the two that the client or the server reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.client import Environment

if TYPE_CHECKING:
    from types import ModuleType

    import pytest

__all__ = ["Clock"]


class Clock(Environment):
    """An environment with a simulated clock; it also replaces the module `time` where the server uses it.

    Waits for a thread follow the real clock. The monotonic clock is ahead of that of any machine, so a test
    that mixes the two always fails, and not only on a machine that has just been started.
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
        """Restart the monotonic clock, as a restart of the machine does."""
        self._monotonic = 7.0

    def install(self, monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
        """Make these modules of the server read this clock."""
        for module in modules:
            monkeypatch.setattr(module, "time", self)
