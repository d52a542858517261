"""The computations of answers: JSON objects from tasks, counts and options, in any process.

Heavy modules are imported only when a computation is called, because the server itself does not need them.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from arcwise.analysis.timeseries.epochs import Every
    from arcwise.tasks import Task
    from arcwise.typing import IntArray

PICTURES = {"svg": "image/svg+xml", "png": "image/png"}
"""Media types of pictures, by their names."""


def compute(
    name: str, tasks: Sequence[Task], counts: Sequence[Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the JSON object of a computation, named by the kind of question.

    Counts have shape (K,); those of a series are mappings from epochs to such arrays.
    """
    return _COMPUTATIONS[name](tasks, counts, options)


def no_estimate(task: Task, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object of an estimate without reports."""
    from arcwise.analysis.estimators.estimation import empty_estimate

    return empty_estimate(task, **_named(options, "level", "target")).to_dict()


def no_series(
    task: Task, spans: Iterable[tuple[int, int]], every: Every, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the JSON object of a series without reports, with a point for each range of epochs."""
    from arcwise.analysis.timeseries.series import PointSpan, empty_series

    points = [PointSpan(*span) for span in spans]
    named = _named(options, "level", "target", "simultaneous")
    return empty_series(task, points, every=every, **named).to_dict()


def picture(document: Mapping[str, Any], form: str) -> bytes:
    """Return the picture of an answer, as a complete file.

    Raises `ParameterError` when there is nothing to draw, and `MissingExtraError` when the format needs an
    extra that is not installed.
    """
    from arcwise.errors import ParameterError

    if document["n"] < 1 or ("difference" in document and _VALUES.isdisjoint(document["difference"])):
        raise ParameterError("document must have numbers to draw, got none")
    result = _result(document)
    if form == "png":
        file = BytesIO()
        result.plot().savefig(file, format="png")
        return file.getvalue()
    from arcwise.analysis.charts import charts_of, svg

    charts = charts_of(result)
    if not charts:
        raise ParameterError("document must have something to draw, got none")
    text: str = svg(charts, standalone=True)
    return text.encode()


_VALUES = {"mean", "direction"}
"""Fields of a comparison's document; a comparison that has numbers has at least one of these."""


def _result(document: Mapping[str, Any]) -> Any:
    from arcwise.analysis.estimators.comparison import Comparison
    from arcwise.analysis.estimators.result import Estimate
    from arcwise.analysis.timeseries.result import Series

    kind: Any = Series if "points" in document else Comparison if "difference" in document else Estimate
    return kind.from_dict(document)


def _named(options: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: options[name] for name in names if name in options}


def _estimate(
    tasks: Sequence[Task], counts: Sequence[IntArray], options: Mapping[str, Any]
) -> dict[str, Any]:
    from arcwise.analysis import estimate

    ((task,), (mine,)) = tasks, counts
    return estimate(task, mine, **options).to_dict()


def _series(
    tasks: Sequence[Task], counts: Sequence[Mapping[int, IntArray]], options: Mapping[str, Any]
) -> dict[str, Any]:
    from arcwise.analysis.timeseries.series import series

    ((task,), (by_epoch,)) = tasks, counts
    return series(task, by_epoch, **options).to_dict()


def _difference(
    tasks: Sequence[Task], counts: Sequence[IntArray], options: Mapping[str, Any]
) -> dict[str, Any]:
    from arcwise.analysis.estimators.comparison import compare_samples, no_comparison
    from arcwise.analysis.estimators.survey import are_enough, least_devices

    (task, other), (mine, others) = tasks, counts
    fewer = float(min(mine.sum(), others.sum()))
    if not are_enough(least_devices(fewer, options.get("reports_per_device", 1.0))):
        return no_comparison(task, mine, others, **_named(options, "level")).to_document()
    return compare_samples(task, mine, others, other_task=other, **options).to_document()


def _fit(tasks: Sequence[Task], counts: Sequence[IntArray], options: Mapping[str, Any]) -> dict[str, Any]:
    from arcwise.analysis.robustness.fit_test import fit_test

    ((task,), (mine,)) = tasks, counts
    head = {"task": task.name, "task_id": task.id}
    return head | ({"n": 0} if not mine.any() else fit_test(task, mine, **options).to_dict())


def _plan(tasks: Sequence[Task], counts: Sequence[IntArray], options: Mapping[str, Any]) -> dict[str, Any]:
    from arcwise.analysis.planning.further import further_reports

    ((task,), (mine,)) = tasks, counts
    return further_reports(task, mine, **options).to_dict()


_COMPUTATIONS: dict[str, Callable[[Any, Any, Any], dict[str, Any]]] = {
    "estimate": _estimate,
    "series": _series,
    "difference": _difference,
    "fit": _fit,
    "plan": _plan,
}
