"""What becomes of reports: logged at once, and handed to the app's `on_event` where that can run."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from arcwise.client.outcomes import Event
from arcwise.digits import counted

if TYPE_CHECKING:
    from collections.abc import Callable

_MESSAGES = {
    "sent": "{about}: sent {reports}; {detail}",
    "retry": "{about}: {reports} will be sent again later; {detail}",
    "kept": "{about}: the server does not have this task, so the client keeps {reports}; {detail}. Give the"
    " server the same task file: any difference makes another task",
    "paused": "{about}: the server refuses this client, so it keeps {reports} and sends nothing for 30 to 60"
    " minutes; {detail}. Check Client(..., key=...)",
    "dropped": "{about}: dropped {reports}; {detail}",
    "expired": "{about}: dropped {reports} that {detail}",
    "closed": "{about}: closed with {reports} not sent; {detail}",
    "failed": "{about}: {detail}",
}


_REPEATED = {"retry", "kept", "paused", "failed"}
"""What comes again and again while something lasts: told once at the level of a warning."""


class EventLog:
    """A log of events, which are also kept for the app's callback until `emit` calls it.

    An exception that the callback raises is logged and goes no further.
    """

    __slots__ = ("_last", "_on_event", "_waiting")

    def __init__(self, on_event: Callable[[Event], object] | None) -> None:
        self._on_event = on_event
        self._waiting: deque[Event] = deque()
        self._last: dict[str | None, tuple[str, str]] = {}

    def add(self, kind: str, task: str | None, reports: int, detail: str) -> None:
        """Log what happened, and keep it for `emit`."""
        if self._on_event is not None:
            self._waiting.append(Event(kind, task, reports, detail))
        # A full disk, or a server that is away, would fill the log with one line.
        again = self._last.get(task) == (kind, detail)
        self._last[task] = kind, detail
        from logging import DEBUG, WARNING, getLogger  # not while the client is imported

        about = "arcwise" if task is None else f"task {task!r}"
        level = DEBUG if kind == "sent" or (again and kind in _REPEATED) else WARNING
        logger = getLogger("arcwise.client")
        if logger.isEnabledFor(level):
            logger.log(
                level, _MESSAGES[kind].format(about=about, reports=counted(reports, "report"), detail=detail)
            )

    def emit(self) -> None:
        """Call the app's callback with what happened since the last time."""
        while self._waiting and self._on_event is not None:
            try:
                event = self._waiting.popleft()
            except IndexError:  # another thread was quicker
                return
            try:
                self._on_event(event)
            except (Exception, SystemExit):  # an app's mistake must not end the sender
                from logging import getLogger

                getLogger("arcwise.client").exception("on_event failed")
