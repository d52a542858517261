"""The state of a task in words: open or closed, what it waits for, whether its reports fit."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from arcwise.server.pages.later import Later
    from arcwise.server.runtime import Runtime
    from arcwise.tasks import Task

__all__ = ["State", "fit_key", "states_of"]


class State(NamedTuple):
    """A state: its kind, which has a colour, and its words."""

    kind: str
    words: str


def fit_key(task: Task) -> tuple[str, str]:
    """Return the key under which pages keep the fit test of all reports of a task."""
    return "fit", task.id


def states_of(
    runtime: Runtime, later: Later, task: Task, *, n: int | None = None, withheld: int = 0
) -> list[State]:
    """Return the states of a task.

    Parameters
    ----------
    runtime, later, task
        Of the server.
    n, withheld
        The reports behind what is shown, and those that are withheld; None: not known yet.
    """
    closed = runtime.catalogue.closed.get(task.id)
    states = [State("good", "open")]
    if closed is not None:
        states = [State("off", f"closed on {datetime.fromtimestamp(closed, timezone.utc):%Y-%m-%d}")]
    if n == 0:
        least = f"waiting for {runtime.settings.min_reports:,} reports"
        states.append(State("wait", least if withheld else "no report yet"))
    test = later.peek(fit_key(task))
    if test is not None and test.document.get("rejected"):
        states.append(State("bad", "reports do not fit"))
    return states
