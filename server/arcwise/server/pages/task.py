"""The pages of one task: its estimates, a comparison, the fit test and the planner."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup

from arcwise.analysis.charts import charts_of, svg
from arcwise.analysis.counts import same_units
from arcwise.analysis.estimators.inference_target import FEW
from arcwise.analysis.estimators.result import Estimate
from arcwise.analysis.timeseries.epochs import Span, epoch_start, utc
from arcwise.analysis.timeseries.result import Series
from arcwise.digits import written
from arcwise.domains import Circle
from arcwise.server.catalogue import name_in
from arcwise.server.estimates.question import REPEATED, read_question
from arcwise.server.estimates.service import PAGE_AGE
from arcwise.server.pages.later import Wanted
from arcwise.server.pages.overview import PATIENCE, REFRESH, SOON, states_of, wanted_fit
from arcwise.server.pages.rendering import page_tag, still_tag
from arcwise.server.pages.viewer import Viewer
from arcwise.server.pages.words import (
    asked_words,
    duration_words,
    figures_of,
    headline_of,
    notes_of,
    origin_words,
    range_words,
)
from arcwise.server.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from arcwise.analysis.charts import Chart
    from arcwise.analysis.estimators.comparison import Comparison
    from arcwise.server.estimates.question import Question
    from arcwise.server.runtime import Runtime
    from arcwise.tasks import Task

_RANGE = ("from", "to", "level", "share", "target", *REPEATED, "origin")
"""Parameters of the estimate, shared by its downloads and its series."""

_OF_ESTIMATES = ("share", "origin")
"""Parameters in `_RANGE` that a series does not use."""

_FIELDS = (*_RANGE, "against_from", "against_to", "half_width")
"""Fields of the forms on every page of a task."""

_HEAD = ("n", "withheld", "epochs")
"""Keys of the document that the result made from it does not have."""

_MAX_OTHERS = 500
_PLAN_LEVEL = 0.95


class _Around(NamedTuple):
    """The context of a task's page: its viewer, comparable tasks, the server's origin and the day."""

    viewer: tuple[object, ...]
    others: list[tuple[str, str]]
    url: str
    today: date


class _Answer(NamedTuple):
    """A document of the estimates service, and its result: an estimate, a series or a comparison."""

    tag: str
    document: dict[str, Any]
    result: Any


class TaskPages:
    """Shows the pages of a single task."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._later = runtime.pages.later

    async def show(self, request: Request) -> Response:
        """Return the page of a task, with the figures that are ready within a short time."""
        viewer, task = self._seen(request)
        form = _form(request, (*_RANGE, "every"))
        query = [
            (name, value) for name, value in request.query_params.multi_items() if name in _RANGE and value
        ]
        question = read_question(task, [*query, ("bands", "1")])
        steps = _steps(task, form["every"])
        estimate, series = await self._later.get(
            [
                Wanted(
                    question, lambda: self._answer(task, question, Estimate.from_dict), is_empty=_is_empty
                ),
                Wanted(
                    ("series", task.id, tuple(query), steps[0]),
                    lambda: self._series(task, query, steps),
                    is_empty=_is_empty,
                ),
            ],
            PATIENCE,
            viewer.reader,
        )
        n = estimate and estimate.document["n"]
        withheld = estimate is not None and estimate.document.get("withheld", 0) > 0
        states = states_of(self._runtime, task, n=None if query else n, withheld=withheld)
        pending = estimate is None or series is None
        around = self._around(task, viewer, request)
        tag = page_tag(
            "task", around, task.id, query, form, states, estimate and estimate.tag, series and series.tag
        )

        def made() -> dict[str, Any]:
            shown: dict[str, Any] = {
                **self._about(task, viewer, around, form),
                "states": states,
                "n": n,
                "withheld": withheld,
                "computing": estimate is None,
                "range_words": range_words(estimate.document) if estimate else "",
                "charts": [],
                "values": [],
                "quantiles": [],
                "shares": [],
                "headline": None,
                "notes": [],
                "few": False,
                "devices": None,
                "origin": "",
                "level": float(form["level"] or 0.95),
                "target": "",
                "steps": [
                    {"words": words, "chosen": step == steps[0], "href": _link(task, query, every=step)}
                    for step, words in _offered(task).items()
                ],
                "series": None,
                "series_problem": None,
                "series_computing": series is None,
                "ranges": _ranges(task, form, around.today),
                "downloads": _downloads(task, query, steps[0]),
                "cell": _cell(task, around.url, question),
                "pending": pending,
                "refresh": SOON if pending else REFRESH,
            }
            if estimate is not None and estimate.result is not None:
                shown |= _of_estimate(estimate.result)
            if series is not None:
                shown |= _of_series(series)
            return shown

        return await self._runtime.pages.response(request, "task.html", made, tag=tag, reader=viewer.reader)

    async def compare(self, request: Request) -> Response:
        """Return the page of a comparison of two ranges, or of two tasks."""
        viewer, task = self._seen(request)
        form = _form(request, ("from", "to", "against", "against_from", "against_to", "level"))
        other = self._task(viewer, form["against"]) if form["against"] else task
        form["against"] = other.id
        given = [(name, value) for name, value in [*form.items(), ("bands", "1")] if value]

        def wanted() -> Wanted:
            question = read_question(task, given, "difference", other=other)
            return Wanted(question, lambda: self._answer(task, question, _comparison, other))

        def shown(answer: _Answer | None, trouble: str) -> dict[str, Any]:
            shown: dict[str, Any] = {
                "first": _named(task, form["from"], form["to"]),
                "second": _named(other, form["against_from"], form["against_to"]),
                "trouble": trouble,
                "values": [],
            }
            result: Comparison | None = answer and answer.result
            figures = [] if result is None else figures_of(result, task.unit)
            if answer is not None and not figures:
                shown["trouble"] = "Each side needs at least two reports; choose other ranges."
            elif result is not None:
                shown |= {
                    "values": [figure for figure in figures if not figure.name.startswith("bin ")],
                    "headline": headline_of(figures),
                    "level": result.level,
                    "n": result.n,
                    "other_n": result.other_n,
                    "notes": notes_of(result),
                    "charts": _drawn(charts_of(result), "c"),
                }
            return shown

        return await self._asked(request, "compare", viewer, task, form, wanted, shown)

    async def fit(self, request: Request) -> Response:
        """Return the page of the fit test, which is computed only on request."""
        viewer, task = self._seen(request)
        form = _form(request, REPEATED)

        def wanted() -> Wanted:
            question = read_question(task, [pair for pair in form.items() if pair[1]], "fit")
            return wanted_fit(self._runtime, task, question)

        def shown(answer: tuple[str, dict[str, Any]] | None, trouble: str) -> dict[str, Any]:
            test = answer[1] if answer is not None and answer[1]["n"] else None
            return {
                "test": test,
                "p": "" if test is None else f"{test['p_value']:.2g}",
                "trouble": "There is no report to test yet." if answer and test is None else trouble,
            }

        return await self._asked(request, "fit", viewer, task, form, wanted, shown)

    async def plan(self, request: Request) -> Response:
        """Return the page that shows how many more reports a narrower interval needs."""
        viewer, task = self._seen(request)
        form = _form(request, ("half_width",))

        def wanted() -> Wanted:
            question = read_question(task, [*form.items()], "plan")
            return Wanted(question, lambda: self._answer(task, question))

        def shown(answer: _Answer | None, trouble: str) -> dict[str, Any]:
            shown = {"plan": answer and answer.document, "trouble": trouble}
            if answer and answer.document.get("now"):
                shown["half_hint"] = written(answer.document["now"] / 2, digits=2)[0]
            return shown

        return await self._asked(request, "plan", viewer, task, form, wanted, shown)

    async def _asked(  # noqa: PLR0917
        self,
        request: Request,
        name: str,
        viewer: Viewer,
        task: Task,
        form: dict[str, str],
        wanted: Callable[[], Wanted],
        shown: Callable[[Any, str], dict[str, Any]],
    ) -> Response:
        """Return a page with the answer to its form, or with the error in the form.

        `shown` receives the answer (None while it is computed) and the error ("" if there is no error).
        """
        answer, trouble = None, ""
        try:
            (answer,) = await self._later.get([wanted()], PATIENCE, viewer.reader)
        except Problem as problem:
            if problem.status != HTTPStatus.UNPROCESSABLE_ENTITY:
                raise
            trouble = problem.detail
        pending = answer is None and not trouble
        around = self._around(task, viewer, request)
        tag = page_tag(name, around, task.id, form, answer and answer[0], trouble)

        def made() -> dict[str, Any]:
            about = self._about(task, viewer, around, form)
            return (
                about | shown(answer, trouble) | {"pending": pending, "refresh": SOON if pending else REFRESH}
            )

        return await self._runtime.pages.response(
            request, f"{name}.html", made, tag=tag, reader=viewer.reader
        )

    def _seen(self, request: Request) -> tuple[Viewer, Task]:
        """Return the viewer, and the task of the path, which the viewer may see."""
        viewer = Viewer.of(self._runtime, request)
        return viewer, self._task(viewer, name_in(request.scope, request.path_params["task"]))

    def _task(self, viewer: Viewer, name_or_id: str) -> Task:
        # Nobody learns of tasks that they may not see.
        return self._runtime.catalogue.find(name_or_id, viewer.readable(self._runtime))

    def _around(self, task: Task, viewer: Viewer, request: Request) -> _Around:
        tasks = self._runtime.catalogue.tasks
        comparable = [
            (task_id, tasks[task_id].name)
            for task_id in viewer.actor.readable(tasks)
            if tasks[task_id].domain == task.domain and same_units(tasks[task_id], task)
        ]
        today = datetime.fromtimestamp(self._runtime.clock.time(), timezone.utc).date()
        url = self._runtime.public_url or f"{request.url.scheme}://{request.url.netloc}"
        return _Around(viewer.shown, comparable[:_MAX_OTHERS], url, today)

    def _about(self, task: Task, viewer: Viewer, around: _Around, form: Mapping[str, str]) -> dict[str, Any]:
        """Return the fields that every page of a task shows."""
        return {
            "viewer": viewer,
            "asked": _words(task),
            "form": {**dict.fromkeys(_FIELDS, ""), "against": task.id, **form},
            "others": [{"id": task_id, "name": name} for task_id, name in around.others],
            "min_reports": self._runtime.settings.min_reports,
            "live": self._runtime.releasing.is_live(task),
            "level_plan": _PLAN_LEVEL,
            "half_hint": written(task.domain.length / 100, digits=2)[0],
            "device_code": _device_code(task, around.url),
        }

    async def _answer(
        self,
        task: Task,
        question: Question,
        read: Callable[[dict[str, Any]], Any] | None = None,
        other: Task | None = None,
    ) -> _Answer:
        tag, document = await self._runtime.estimates.document(task, question, max_age=PAGE_AGE, other=other)
        tag = await asyncio.to_thread(still_tag, tag, document)
        if read is None or not document["n"]:
            return _Answer(tag, document, None)
        result = await asyncio.to_thread(read, document)
        return _Answer(tag, {name: document[name] for name in _HEAD if name in document}, result)

    async def _series(self, task: Task, query: list[tuple[str, str]], steps: list[str]) -> _Answer:
        kept = [(name, value) for name, value in query if name not in _OF_ESTIMATES]
        for step in steps:
            with suppress(_TooFine):
                return await self._points(task, [*kept, ("every", step)], last=step == steps[-1])
        raise AssertionError("the last step never raises _TooFine")

    async def _points(self, task: Task, query: list[tuple[str, str]], *, last: bool) -> _Answer:
        try:
            return await self._answer(task, read_question(task, query, "series"), Series.from_dict)
        except Problem as problem:
            if problem.status != HTTPStatus.UNPROCESSABLE_ENTITY:
                raise
            if not last:
                raise _TooFine from None
            return _Answer(problem.detail, {"problem": problem.detail}, None)


def _comparison(document: dict[str, Any]) -> Comparison:
    """Return a comparison from its JSON object; call it in a thread, because scipy takes seconds to load."""
    from arcwise.analysis.estimators.comparison import Comparison

    return Comparison.from_dict(document)


def _is_empty(answer: _Answer) -> bool:
    return answer.document.get("n") == 0


class _TooFine(Exception):  # noqa: N818 (names a condition)
    """A series would have too many points."""


_words = lru_cache(maxsize=512)(asked_words)


def _form(request: Request, names: Iterable[str]) -> dict[str, str]:
    """Return the fields of a form as they were sent, "" for missing ones."""
    return {name: request.query_params.get(name, "").strip()[:200] for name in names}


def _offered(task: Task) -> dict[str, str]:
    """Return the point lengths that suit a task, each with its name for people."""
    seconds = task.epoch_seconds
    offered = {} if seconds == 86_400 else {"epoch": f"an epoch ({duration_words(seconds)})"}
    if 86_400 % seconds == 0:
        offered |= {"day": "a day", "week": "a week", "month": "a month"}
    elif 7 * 86_400 % seconds == 0:
        offered["week"] = "a week"
    return offered


def _steps(task: Task, chosen: str) -> list[str]:
    """Return the chosen point length alone; without a choice, the lengths to try until one is long enough."""
    if chosen:
        return [chosen]
    offered = [step for step in _offered(task) if step != "epoch"]
    return offered or ["epoch"]


def _ranges(task: Task, form: Mapping[str, str], today: date) -> list[dict[str, Any]]:
    """Return links to the last days and to all epochs."""
    kept = [(name, value) for name, value in form.items() if value and name not in {"from", "to"}]
    starts = {f"the last {days} days": str(today - timedelta(days - 1)) for days in (7, 30, 90)}
    return [
        {
            "words": words,
            "chosen": (form["from"], form["to"]) == (start, ""),
            "href": _link(task, kept, **({"from": start} if start else {})),
        }
        for words, start in {**starts, "everything": ""}.items()
    ]


def _link(task: Task, query: Iterable[tuple[str, str]], **more: str) -> str:
    sent = [*query, *more.items()]
    return f"/tasks/{task.id}" + (f"?{urlencode(sent)}" if sent else "")


def _downloads(task: Task, query: list[tuple[str, str]], every: str) -> list[dict[str, str]]:
    asked = f"?{urlencode(query)}" if query else ""
    kept = [(name, value) for name, value in query if name not in _OF_ESTIMATES]
    over = f"?{urlencode([*kept, ('every', every)])}"
    files = (
        ("", "", "The task, JSON", "the file that devices have"),
        ("estimate.csv", asked, "Estimates, CSV", "tidy: a line for each number"),
        ("estimate.json", asked, "Estimates, JSON", "as the HTTP API answers"),
        ("series.csv", over, "Series, CSV", "tidy: a line for each number of each point"),
        ("series.json", over, "Series, JSON", "as the HTTP API answers"),
        ("picture.svg", asked, "Picture, SVG", "of the distribution"),
        ("picture.png", asked, "Picture, PNG", "if the server has the plots extra"),
    )
    return [
        {
            "href": f"/v1/tasks/{task.id}{name and '/'}{name}{sent}",
            "name": name or "task.json",
            "words": words,
            "about": about,
        }
        for name, sent, words, about in files
    ]


def _device_code(task: Task, url: str) -> str:
    domain = task.domain
    low = 0.0 if isinstance(domain, Circle) else domain.low
    steps = domain.length / 3 / (domain.step or 1.0)
    value = f"{low + (round(steps) * domain.step if domain.step else steps):.6g}"
    return (
        "from arcwise.client import Client, FileLedger, Task\n\n"
        'task = Task.load("task.json")\n'
        'ledger = FileLedger("telemetry.db", create=True)\n'
        f"with Client({url!r}, tasks=[task], ledger=ledger, max_epsilon={task.epsilon!r}) as client:\n"
        f"    client.report({task.name!r}, {value})\n"
        "    client.flush(timeout=10)"
    )


def _cell(task: Task, url: str, question: Question) -> str:
    """Return the notebook cell that requests the figures of a task's page from the server."""
    asked = [repr(task.id)]
    span = question.span or Span()
    if span.first is not None:
        asked.append(f"start={utc(epoch_start(task, span.first))!r}")
    if span.last is not None:
        asked.append(f"end={utc(epoch_start(task, span.last + 1))!r}")
    options = question.options("level", "between", "target", "reports_per_device", "memoised", "origin")
    asked += [f"{name}={list(value) if name == 'between' else value!r}" for name, value in options.items()]
    return (
        "from arcwise.analysis import Reader\n\n"
        f'with Reader({url!r}, key=None) as reader:  # or key="arcwise_read_..."\n'
        f"    result = reader.estimate({', '.join([*asked, 'bands=True'])})\n"
        "result"
    )


def _named(task: Task, start: str, end: str) -> str:
    words = task.name
    if start:
        words += f" from {start}"
    if end:
        words += f" to {end}"
    return words


def _drawn(charts: Iterable[Chart], prefix: str) -> list[dict[str, Any]]:
    """Return charts in the form that templates use."""
    found = []
    for number, chart in enumerate(charts):
        ident = f"{prefix}{number}"
        picture = Markup(svg(chart, ident=ident))  # noqa: S704 (our own; it escapes text written by people)
        header, rows = chart.table
        drawn = {"ident": ident, "title": chart.title, "summary": chart.summary, "svg": picture}
        found.append(drawn | {"header": header, "rows": rows})
    return found


def _of_estimate(estimate: Estimate) -> dict[str, Any]:
    figures = figures_of(estimate, estimate.unit)
    families = {"quantile": "quantiles", "share": "shares"}
    shown: dict[str, Any] = {"values": [], "quantiles": [], "shares": []}
    for figure in figures:
        family = figure.name.partition(" ")[0]
        if family != "bin":
            shown[families.get(family, "values")].append(figure)
    return {
        **shown,
        "headline": headline_of(figures),
        "notes": notes_of(estimate),
        "origin": origin_words(estimate.quantiles, estimate.unit),
        **_narrower(estimate),
        "few": (estimate.devices or estimate.n) < FEW,
        "devices": estimate.devices,
        "level": estimate.level,
        "target": estimate.target,
        "charts": _drawn(charts_of(estimate), "d"),
    }


def _narrower(estimate: Estimate) -> dict[str, str]:
    """Return the planner's example: half of the present interval's half-width."""
    about = estimate.mean or estimate.direction
    ends = None if about is None else about.ends()
    if ends is None:
        return {}
    return {"half_hint": written((ends[1] - ends[0]) / 4, digits=2)[0]}


def _of_series(answer: _Answer) -> dict[str, Any]:
    if "problem" in answer.document:
        return {"series_problem": answer.document["problem"]}
    series: Series | None = answer.result
    if series is None:
        return {}
    return {"series": {"charts": _drawn(charts_of(series), "t"), "notes": []}}
