"""Questions of readers: parameters of a query, checked once, the same for /v1 and for pages.

The names, values and defaults are those of `arcwise estimate`. A problem names the parameter and its bound,
but never repeats the value that was sent.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from arcwise.analysis.counts import same_units
from arcwise.analysis.estimators.inference_target import TARGETS
from arcwise.analysis.estimators.quantiles import MOST_LEVELS, checked_levels
from arcwise.analysis.estimators.shares import unit_ends
from arcwise.analysis.robustness import MOST_CODES
from arcwise.analysis.timeseries.epochs import Span, epochs_in_step, read_epoch
from arcwise.errors import ParameterError
from arcwise.server.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from arcwise.analysis.estimators.inference_target import Target
    from arcwise.analysis.timeseries.epochs import Every
    from arcwise.tasks import Task

Kind: TypeAlias = Literal["estimate", "series", "difference", "fit", "plan"]

MAX_SHARES: Final = 20
"""Most shares in a question: each share takes some milliseconds of a core, at every point of a series."""

_TIME = "a date (2026-11-01), a time (2026-11-01T06:00Z, UTC unless it has an offset) or an epoch's number"


class Question(NamedTuple):
    """A question about a task, which has the same answer as long as the counts are the same.

    A `span` of None covers all epochs. `every` is the length of a point of a series, and `other_id` and
    `other_span` name the other reports of a difference; in other questions they are 0, "" and None.
    `half_width` is the half-width that a plan wants for the interval of the mean or the direction.
    `quantiles` holds the levels of further quantiles; in a series, True asks for the usual ones.
    `simultaneous` is an option of `series`; all other options are options of `estimate`.
    """

    task_id: str
    kind: Kind = "estimate"
    span: Span | None = None
    every: Every = 0
    level: float = 0.95
    between: tuple[tuple[float, float], ...] = ()
    target: Target = "population"
    reports_per_device: float | None = None
    memoised: bool = False
    bands: bool = False
    origin: float | None = None
    quantiles: bool | tuple[float, ...] = False
    simultaneous: bool = False
    other_id: str = ""
    other_span: Span | None = None
    half_width: float | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it is the task's plain estimate: from all reports, with default options."""
        return self == Question(self.task_id)

    def options(self, *names: str) -> dict[str, Any]:
        """Return the given options, by the names of the arguments of `estimate`, without defaults."""
        defaults = Question._field_defaults
        return {name: getattr(self, name) for name in names if getattr(self, name) != defaults[name]}


class _Parameter(NamedTuple):
    """A parameter of a query: its JSON schema and its purpose."""

    schema: dict[str, Any]
    description: str


_NUMBER, _FLAG = {"type": "number"}, {"type": "boolean", "default": False}

_PARAMETERS: Final = {
    "from": _Parameter({"type": "string"}, f"Epochs that start at this time or later: {_TIME}."),
    "to": _Parameter({"type": "string"}, f"Epochs that start before this time: {_TIME}."),
    "every": _Parameter(
        {"type": "string", "default": "epoch"},
        "Length of a point: epoch, day, week, month (of the calendar), or a whole number of epochs.",
    ),
    "level": _Parameter(
        {**_NUMBER, "minimum": 0.5, "maximum": 0.9999, "default": 0.95}, "Level of the intervals."
    ),
    "share": _Parameter(
        {"type": "array", "items": {"type": "string"}, "maxItems": MAX_SHARES},
        "LOW:HIGH, two values: adds the share of the population between them. Repeatable.",
    ),
    "target": _Parameter(
        {"type": "string", "enum": list(TARGETS), "default": "population"},
        "Target of the intervals: the population, or only the users who reported.",
    ),
    "reports_per_device": _Parameter(
        {**_NUMBER, "minimum": 1},
        "The most reports that one device may have sent, in a series for each point; intervals allow for it. "
        "Default 1; a note says where caps allow more.",
    ),
    "memoised": _Parameter(
        _FLAG,
        "With reports_per_device: devices may have repeated an answer, as clients that memoise the task do.",
    ),
    "bands": _Parameter(
        _FLAG,
        "Adds a band around the distribution function, bins and the mode with intervals, and quantiles of a "
        "circle.",
    ),
    "origin": _Parameter(_NUMBER, "On a circle: counts quantiles upwards from here; implies quantiles."),
    "quantile": _Parameter(
        {"type": "array", "items": {**_NUMBER, "exclusiveMinimum": 0, "exclusiveMaximum": 1}}
        | {"maxItems": MOST_LEVELS},
        "A number between 0 and 1: adds the quantile of this level, in a series at every point. Repeatable.",
    ),
    "quantiles": _Parameter(_FLAG, "Adds quantiles of every point; on a circle only with origin."),
    "simultaneous": _Parameter(_FLAG, "The level holds for all points together."),
    "against": _Parameter(
        {"type": "string"}, "The task of the other reports, its id or name; by default the same task."
    ),
    "against_from": _Parameter(
        {"type": "string"}, f"The other reports are of epochs that start at this time or later: {_TIME}."
    ),
    "against_to": _Parameter(
        {"type": "string"}, f"The other reports are of epochs that start before this time: {_TIME}."
    ),
    "half_width": _Parameter(
        {**_NUMBER, "exclusiveMinimum": 0},
        "The half-width wanted for the interval of the mean or the direction, in the unit of the values.",
    ),
}

_EPOCHS = ("from", "to")
REPEATED = ("reports_per_device", "memoised")
"""Parameters, in all questions except "plan", for devices that may have reported more than once."""

_ESTIMATE = (*_EPOCHS, "level", "share", "target", *REPEATED, "bands", "origin")

_SEVERAL = ("share", "quantile")
"""Parameters that may be given several times."""

KINDS: Final[dict[Kind, tuple[str, ...]]] = {
    "estimate": (*_ESTIMATE, "quantile"),
    "series": (
        *(*_EPOCHS, "every", "level", "share", "target", *REPEATED, "origin"),
        *("quantile", "quantiles", "simultaneous"),
    ),
    "difference": (*_ESTIMATE, "against", "against_from", "against_to"),
    "fit": (*_EPOCHS, *REPEATED),
    "plan": (*_EPOCHS, "level", "target", "half_width"),
}
"""The parameters of each kind of question, in the order of their descriptions."""


def parameters_of(kind: Kind) -> list[dict[str, Any]]:
    """Return the parameters of a kind of question as OpenAPI describes them."""
    return [
        {
            "name": name,
            "in": "query",
            "required": kind == "plan" and name == "half_width",
            "description": _PARAMETERS[name].description,
            "schema": _PARAMETERS[name].schema,
        }
        for name in KINDS[kind]
    ]


def read_question(
    task: Task,
    query: Iterable[tuple[str, str]],
    kind: Kind = "estimate",
    *,
    other: Task | None = None,
    also: Collection[str] = (),
) -> Question:
    """Return the question that the parameters of a query ask about a task.

    `query` holds pairs of a name and a text, as from `request.query_params.multi_items()`. The caller reads
    the parameters named in `also` itself. `other` is the task that `against` names in a difference, by
    default the same task. Raises a 422 `Problem` when a parameter is unknown, given twice or out of its
    bounds.
    """
    names = KINDS[kind]
    given: dict[str, str] = {}
    several: dict[str, list[str]] = {name: [] for name in _SEVERAL if name in names}
    # Unknown parameters are refused: a range with a mistyped name must not be taken for all epochs.
    for name, text in query:
        if name in also:
            continue
        if name in several:
            several[name].append(text)
        elif name not in names or name in given:
            known = ", ".join(sorted({*names, *also}))
            raise _invalid(
                f"The only parameters are {known}, each at most once"
                + (f", except for {' and '.join(several)}." if several else ".")
            )
        else:
            given[name] = text
    read = _Reader(task, given)
    question = Question(
        task.id,
        kind,
        span=read.span(task, "from", "to", needed=kind == "series"),
        every=read.every() if kind == "series" else 0,
        level=read.number("level", "a number from 0.5 to 0.9999", lambda x: 0.5 <= x <= 0.9999) or 0.95,
        between=read.shares(several.get("share", [])),
        target=read.target(),
        reports_per_device=read.number("reports_per_device", "a number from 1 on", lambda x: x >= 1),
        memoised=read.flag("memoised"),
        bands=read.flag("bands"),
        origin=read.origin(),
        quantiles=read.levels(several.get("quantile", [])) or read.flag("quantiles"),
        simultaneous=read.flag("simultaneous"),
    )
    if question.memoised and question.reports_per_device in {None, 1.0}:
        raise _invalid("reports_per_device must be above 1 with memoised: how often an answer may come.")
    if kind == "series" and task.domain.circular and question.quantiles and question.origin is None:
        raise _invalid("origin must be given for quantiles on a circle: they are counted from it.")
    if kind == "fit" and task.mechanism.kernel.codes > MOST_CODES:
        raise _invalid(f"The fit test takes a task with at most {MOST_CODES} codes; this one has more.")
    if kind == "plan":
        width = read.number("half_width", "a number above 0, and must be given", lambda x: x > 0, needed=True)
        return question._replace(half_width=width)
    if kind == "difference":
        return _against(question, task, task if other is None else other, read)
    return question


def _against(question: Question, task: Task, other: Task, read: _Reader) -> Question:
    if not read.has("against", "against_from", "against_to"):
        raise _invalid(
            "One of against, against_from and against_to must be given: the reports to compare with."
        )
    if other.domain != task.domain or not same_units(task, other):
        raise _invalid("against must be a task on the same domain and in the same unit.")
    span = read.span(other, "against_from", "against_to")
    if other.id == task.id and _overlap(question.span or Span(), span or Span()):
        raise _invalid(
            "No report may be in both samples: give from and to, or against_from and against_to, that do not "
            "overlap with the other sample."
        )
    return question._replace(other_id=other.id, other_span=span)


def _overlap(one: Span, other: Span) -> bool:
    """Return whether two ranges of epochs have an epoch in common."""
    firsts = [span.first for span in (one, other) if span.first is not None]
    lasts = [span.last for span in (one, other) if span.last is not None]
    return not firsts or not lasts or max(firsts) <= min(lasts)


class _Reader:
    """Reads the parameters of a question about a task, each given at most once, and converts them."""

    def __init__(self, task: Task, given: dict[str, str]) -> None:
        self._task = task
        self._given = given

    def has(self, *names: str) -> bool:
        """Return whether one of the parameters was given."""
        return any(name in self._given for name in names)

    def span(self, task: Task, start: str, end: str, *, needed: bool = False) -> Span | None:
        """Return the epochs from the first parameter to before the second; None if neither was given."""
        if not needed and not self.has(start, end):
            return None
        try:
            first = read_epoch(task, self._given[start], start) if start in self._given else None
            last = read_epoch(task, self._given[end], end) - 1 if end in self._given else None
        except ParameterError:
            raise _invalid(f"{start} and {end} take: {_TIME}, from 1970 to the year 9999.") from None
        return Span(first, last)

    def every(self) -> Every:
        """Return the length of a point."""
        try:
            return epochs_in_step(self._task, self._given.get("every", "epoch"), "every")
        except ParameterError:
            raise _invalid(
                "every must be epoch, day, week, month or a whole number of epochs from 1 on; a day or a "
                "week must be a whole number of the task's epochs, and for months a day must be, too."
            ) from None

    def flag(self, name: str) -> bool:
        """Return a parameter that is true or false."""
        text = self._given.get(name, "false")
        if text not in _FLAGS:
            raise _invalid(f"{name} must be true or false.")
        return _FLAGS[text]

    def number(
        self, name: str, bound: str, holds: Callable[[float], bool], *, needed: bool = False
    ) -> float | None:
        """Return a finite number for which `holds` is true; None if it was not given."""
        if name not in self._given and not needed:
            return None
        number = _number(self._given.get(name, ""))
        if number is None or not holds(number):
            raise _invalid(f"{name} must be {bound}.")
        return number

    def target(self) -> Target:
        """Return the target of the intervals."""
        for name in TARGETS:
            if self._given.get("target", "population") == name:
                return name  # type: ignore[return-value]
        raise _invalid(f"target must be {' or '.join(TARGETS)}.")

    def origin(self) -> float | None:
        """Return the origin of quantiles on a circle."""
        domain = self._task.domain
        if self.has("origin") and not domain.circular:
            raise _invalid("origin must be left out: this task's domain is an interval, which has no origin.")
        return self.number("origin", "a finite number", lambda x: math.isfinite(x / domain.length))

    def levels(self, texts: list[str]) -> tuple[float, ...]:
        """Return the levels of the quantiles that were requested, each once."""
        try:
            return checked_levels([_number(text) for text in texts])
        except ParameterError:
            raise _invalid(
                "quantile must be a number between 0 and 1 with at most six significant digits, given at "
                f"most {MOST_LEVELS} times."
            ) from None

    def shares(self, texts: list[str]) -> tuple[tuple[float, float], ...]:
        """Return the pairs of values that shares were requested for, each pair once."""
        if len(texts) > MAX_SHARES:
            raise _invalid(f"share must be given at most {MAX_SHARES} times.")
        found: dict[tuple[float, float], None] = {}
        for text in texts:
            low, _, high = text.partition(":")
            ends = _number(low), _number(high)
            try:
                if None in ends:
                    raise ParameterError("not two numbers")
                units = unit_ends(self._task.mechanism, *ends)  # type: ignore[arg-type]
                if not all(math.isfinite(unit) for unit in units):
                    raise ParameterError("beyond the floats")
            except ParameterError:
                raise _invalid(
                    f"share must be LOW:HIGH, two numbers. LOW must be smaller than HIGH or, on a circle, "
                    f"different from HIGH. The domain {self._task.domain} must have values between the two."
                ) from None
            found[ends] = None  # type: ignore[index]
        return tuple(found)


_FLAGS = {"true": True, "1": True, "false": False, "0": False}


def _number(text: str) -> float | None:
    """Return the finite number that a text holds; None for any other text."""
    try:
        number = float(text) + 0.0  # turns -0 into 0
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None


def _invalid(detail: str) -> Problem:
    return Problem(422, "invalid-request", detail)
