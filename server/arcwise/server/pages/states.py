"""The state of a task in words: open or closed, what it waits for, whether its reports fit."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from arcwise.server.estimates.question import Question
from arcwise.server.estimates.service import PAGE_AGE
from arcwise.server.pages.later import Wanted
from arcwise.server.pages.rendering import still_tag

if TYPE_CHECKING:
    from arcwise.server.runtime import Runtime
    from arcwise.tasks import Task


class State(NamedTuple):
    """A state: its kind, which has a colour, and its words."""

    kind: str
    words: str


def wanted_fit(runtime: Runtime, task: Task, asked: Question | None = None, **given: Any) -> Wanted:
    """Return the fit test of a task as pages want it, of all reports unless another one is asked for.

    It is an entity tag and the test's JSON object.
    """
    question = asked or Question(task.id, "fit")

    async def make() -> tuple[str, dict[str, Any]]:
        tag, document = await runtime.estimates.document(task, question, max_age=PAGE_AGE)
        return still_tag(tag, document), document

    return Wanted(question, make, **given)


def states_of(runtime: Runtime, task: Task, *, n: int | None = None, withheld: bool = False) -> list[State]:
    """Return the states of a task, such as open, closed or waiting for reports.

    `n` is the number of reports behind what is shown, None while it is unknown, and `withheld` says whether
    others are withheld. Readers are not told how many: that number changes with each report.
    """
    closed = runtime.catalogue.closed.get(task.id)
    states = [State("good", "open")]
    if closed is not None:
        states = [State("off", f"closed on {datetime.fromtimestamp(closed, timezone.utc):%Y-%m-%d}")]
    if n == 0:
        least = f"waiting for {runtime.settings.min_reports:,} reports"
        nothing = "no report yet" if runtime.releasing.is_live(task) else "no epoch released yet"
        states.append(State("wait", least if withheld else nothing))
    test = runtime.pages.later.peek(Question(task.id, "fit"))
    if n != 0 and test is not None and test[1].get("rejected"):
        unless = ", unless answers are repeated" if test[1]["note"] else ""
        states.append(State("bad", f"reports do not fit{unless}"))
    return states
