"""The page of all tasks: the subject of each task, its mean or direction, and its state."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup

from arcwise.analysis.charts import small_chart, svg
from arcwise.analysis.estimators.inference_target import FEW
from arcwise.analysis.estimators.result import Estimate
from arcwise.server.estimates.question import Question
from arcwise.server.estimates.service import PAGE_AGE
from arcwise.server.pages.later import Wanted
from arcwise.server.pages.rendering import page_number, page_tag, still_tag
from arcwise.server.pages.viewer import Viewer
from arcwise.server.pages.words import figures_of, headline_of, values_words
from arcwise.server.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from arcwise.server.pages.words import Figure
    from arcwise.server.runtime import Runtime
    from arcwise.tasks import Task

_log = logging.getLogger("arcwise.server")

PATIENCE = 0.8
"""Seconds that a page waits for estimates: it is sent within a second, with the estimates that are ready."""

_PER_PAGE = 48
REFRESH = 10
"""Seconds until a page requests itself again."""

SOON = 0.3
"""Seconds until an incomplete page requests itself again; the script doubles them each time."""

_MOST_CODES = 300
_FIT_SECONDS = 3600.0
"""Least seconds between two tests of a task with at most `_MOST_CODES` codes, since a test takes a second."""

_MAX_QUERY = 200
_LEAST_OF_ID = 6
"""Least number of digits of an id that find its task; fewer digits would match too many tasks."""


class _Known(NamedTuple):
    """The part of a task's estimate that its card shows."""

    tag: str
    n: int
    withheld: bool
    level: float
    headline: Figure | None
    svg: Markup
    failed: bool = False


async def show_overview(runtime: Runtime, request: Request) -> Response:
    """Return the page, with the estimates that are ready within a short time."""
    later = runtime.pages.later
    viewer = Viewer.of(runtime, request)
    tasks = [runtime.catalogue.tasks[task_id] for task_id in viewer.readable(runtime)]
    query = request.query_params.get("q", "")[:_MAX_QUERY].strip()
    found = [task for task in tasks if _matches(task, query)]
    found.sort(key=lambda task: task.id in runtime.catalogue.closed)  # a stable sort: open tasks come first
    number, pages = page_number(request, len(found), _PER_PAGE)
    shown = found[(number - 1) * _PER_PAGE : number * _PER_PAGE]
    known: list[_Known | None] = await later.get(
        [_wanted(runtime, task) for task in shown], PATIENCE, viewer.reader
    )
    for task, each in zip(shown, known, strict=True):
        if each is not None and each.n >= FEW and task.mechanism.kernel.codes <= _MOST_CODES:
            later.want(wanted_fit(runtime, task, rank=2, seconds=_FIT_SECONDS), viewer.reader)
    states = [_states(runtime, task, each) for task, each in zip(shown, known, strict=True)]
    closed = sum(task.id in runtime.catalogue.closed for task in tasks)
    pending = None in known
    tag = page_tag(
        "overview",
        viewer.shown,
        query,
        number,
        len(tasks),
        closed,
        [(task.id, each and each.tag, state) for task, each, state in zip(shown, known, states, strict=True)],
    )

    def link(to: int) -> str:
        return "/?" + urlencode({"q": query, "page": to} if query else {"page": to})

    def made() -> dict[str, Any]:
        return {
            "viewer": viewer,
            "query": query,
            "total": len(tasks),
            "found": len(found),
            "closed": closed,
            "cards": [_card(*each) for each in zip(shown, known, states, strict=True)],
            "number": number,
            "pages": pages,
            "link": link,
            "pending": pending,
            "refresh": SOON if pending else REFRESH,
        }

    return await runtime.pages.response(request, "overview.html", made, tag=tag, reader=viewer.reader)


def _matches(task: Task, query: str) -> bool:
    text = f"{task.name}\n{task.unit or ''}\n{task.description or ''}".casefold()
    return all(
        word in text or (len(word) >= _LEAST_OF_ID and task.id.startswith(word))
        for word in query.casefold().split()
    )


def _wanted(runtime: Runtime, task: Task) -> Wanted:
    async def known() -> _Known:
        try:
            tag, document = await runtime.estimates.document(task, Question(task.id), max_age=PAGE_AGE)
            return await asyncio.to_thread(_read, tag, document)
        except Problem:
            raise
        except Exception:
            # The cards of other tasks are still shown.
            _log.exception("the figures of task %r on the page of all tasks could not be computed", task.name)
            return _Known("failed", 0, False, 0.95, None, Markup(), failed=True)

    return Wanted(("card", task.id), known, rank=1, is_empty=lambda card: card.n == 0)


def _read(tag: str, document: dict[str, Any]) -> _Known:
    tag = still_tag(tag, document)
    withheld = document.get("withheld", 0) > 0
    if not document["n"]:
        return _Known(tag, 0, withheld, 0.95, None, Markup())
    estimate = Estimate.from_dict(document)
    chart = small_chart(estimate)
    drawn = "" if chart is None else svg(chart, ident=f"s{estimate.task_id[:12]}")
    headline = headline_of(figures_of(estimate, estimate.unit))
    return _Known(tag, estimate.n, withheld, estimate.level, headline, Markup(drawn))  # noqa: S704 (our own)


def _states(runtime: Runtime, task: Task, known: _Known | None) -> list[State]:
    if known is None:
        return states_of(runtime, task)
    return states_of(runtime, task, n=known.n, withheld=known.withheld)


def _card(task: Task, known: _Known | None, states: list[State]) -> dict[str, Any]:
    words = ""
    if known is not None and known.failed:
        words = "The figures could not be computed because of an error in the server; see its log."
    elif known is not None and not known.n:
        words = "Shown once there are enough reports."
        if not known.withheld:
            words = f"{next(state.words for state in states if state.kind == 'wait').capitalize()}."
    return {
        "id": task.id,
        "name": task.name,
        "description": task.description,
        "domain": values_words(task),
        "states": states,
        "pending": known is None,
        "words": words,
        "headline": known and known.headline,
        "few": known is not None and 0 < known.n < FEW,
        "level": known and known.level,
        "n": known and known.n,
        "svg": known and known.svg,
    }


class State(NamedTuple):
    """A state: its kind, which determines the colour, and its words."""

    kind: str
    words: str


def wanted_fit(runtime: Runtime, task: Task, asked: Question | None = None, **given: Any) -> Wanted:
    """Return the request of a page for the fit test of a task, by default a test of all reports.

    Its result is an entity tag and the test's JSON object.
    """
    question = asked or Question(task.id, "fit")

    async def make() -> tuple[str, dict[str, Any]]:
        tag, document = await runtime.estimates.document(task, question, max_age=PAGE_AGE)
        return still_tag(tag, document), document

    return Wanted(question, make, **given)


def states_of(runtime: Runtime, task: Task, *, n: int | None = None, withheld: bool = False) -> list[State]:
    """Return the states of a task, such as open, closed or waiting for reports.

    `n` is the number of reports in the shown estimate, None while it is unknown, and `withheld` says whether
    other reports are withheld. Readers do not learn how many: that number changes with each report.
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
