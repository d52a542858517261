"""An uplink without a thread: it sends when it is told to, so a test knows what has happened."""

from __future__ import annotations

from arcwise.client import Uplink

__all__ = ["SteppedUplink"]


class SteppedUplink(Uplink):
    """Does in `send` what the thread of an `Uplink` does as time passes."""

    def _start(self) -> None:
        self._check_open()

    def _attends(self) -> bool:
        return True

    def send(self) -> float:
        """Send all that is due; return for how many seconds there is nothing more to do."""
        while not (wait := self._step()):
            pass
        return wait

    def expedite(self) -> float:
        """Send all that a flush would; return for how many seconds there is nothing more to do."""
        self._expedite()
        return self.send()
