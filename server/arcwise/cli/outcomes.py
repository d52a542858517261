"""The result of `arcwise estimate` for a task: an estimate, a time series, or that there are no reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from arcwise.analysis.estimators.estimation import empty_estimate
from arcwise.analysis.timeseries.epochs import Span, span_to_dict
from arcwise.cli.central import reader_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from arcwise.analysis import Estimate
    from arcwise.analysis.estimators.comparison import Comparison
    from arcwise.analysis.plotting.pictures import Drawing
    from arcwise.analysis.robustness.fit_test import FitTest
    from arcwise.analysis.timeseries.result import Series
    from arcwise.tasks import Task


class Outcome(NamedTuple):
    """As JSON, in words, and what can draw itself: nothing where there were no reports."""

    document: dict[str, Any]
    words: str
    drawings: Sequence[Drawing] = ()


def nothing(task: Task, span: Span, **options: Any) -> Outcome:
    """Return that a task has no reports in these epochs; `options` are those of `empty_estimate`."""
    words = f"{task.name}: no reports {_words(task, span) or 'yet'}"
    return Outcome(empty_estimate(task, **options).to_dict() | _epochs(task, span), words)


def estimated(
    task: Task,
    span: Span,
    result: Estimate,
    comparisons: Mapping[str, Comparison],
    *,
    fit: FitTest | None,
) -> Outcome:
    """Return an estimate from these epochs, with the comparisons, by name, and the test asked for."""
    document, words = result.to_dict() | _epochs(task, span), str(result)
    if epochs := _words(task, span):
        words += f"\n  {'epochs':<18} {epochs}"
    if task.central is not None:
        document["readers"] = task.readers
        words = "\n".join([words, *reader_lines(task, result.n)])
    for name, comparison in comparisons.items():
        document[name] = comparison.to_dict()
        words += f"\n{comparison}"
    if fit is not None:
        document["fit"] = fit.to_dict()
        words += f"\n{fit}"
    return Outcome(document, words, [result, *comparisons.values()])


def over(result: Series) -> Outcome:
    """Return a time series."""
    return Outcome(result.to_dict(), str(result), [result])


def _epochs(task: Task, span: Span) -> dict[str, Any]:
    return {} if span == Span() else {"epochs": span_to_dict(task, span)}


def _words(task: Task, span: Span) -> str:
    """Return a range of epochs in words, "" for all of them."""
    ends = span_to_dict(task, span)
    start = "" if ends["start"] is None else f"from {ends['start']}"
    return start if ends["end"] is None else f"{start} to before {ends['end']}".strip()
