"""An uplink without a thread: it sends only when asked to, so a test controls it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from arcwise.client import Uplink
from tests.support.unlimited import Client

if TYPE_CHECKING:
    from arcwise.tasks import Caps, Group, Task

__all__ = ["SteppedUplink", "stepped"]


class SteppedUplink(Uplink):
    """Its `send` does the work that the thread of an `Uplink` does as time passes."""

    def _start(self) -> None:
        self._check_open()

    def _attends(self) -> bool:
        return True

    def send(self) -> float:
        """Send all that is due; return the seconds until there is more to do."""
        while not (wait := self._step()):
            pass
        return wait

    def expedite(self) -> float:
        """Send all that a flush would; return the seconds until there is more to do."""
        self._expedite()
        return self.send()


def stepped(
    ledger: Any,
    transport: Any,
    *tasks: Task | Group,
    caps: Caps | Literal["unlimited"] = "unlimited",
    **options: Any,
) -> tuple[Client, SteppedUplink]:
    """Return a client of these tasks and its uplink, with the options of an uplink."""
    uplink = SteppedUplink("http://127.0.0.1:1", ledger=ledger, transport=transport, **options)
    return Client(uplink, tasks=tasks, ledger=ledger, caps=caps), uplink
