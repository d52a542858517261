"""The parts of an answer: for each estimate in it, its epochs and the number of withheld reports."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from arcwise.analysis.timeseries.epochs import Span, blocks_of, epochs_in
from arcwise.analysis.timeseries.series import HIGHEST_LEVEL, MONDAY, point_spans
from arcwise.errors import ParameterError
from arcwise.server.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from arcwise.analysis.timeseries.epochs import Every
    from arcwise.server.estimates.question import Question
    from arcwise.tasks import Task

MAX_POINTS = 400
"""Most points of a series: a year of days, which takes up to a second of a core."""

_MAX_COUNTS = 1 << 22
"""Most counts of a series, one for each code of each point: 32 MB to read, send to a process and estimate."""


_MAX_WHOLE_POINTS = 60
_MAX_WHOLE_COUNTS = 20_000
"""Most points with reports, and most counts of these, in a series with a whole estimate for each point.
Such a series takes some fifteen seconds of a core at most."""


class Part(NamedTuple):
    """A point of a series, or the only estimate of an answer.

    A block of epochs counts in the part in which it begins: `epochs` are the epochs of its blocks that have
    reports, and `across` holds the first and last epoch of each block that crosses an end of `span`.
    `withheld` is the number of reports in epochs of the span that are in no block.
    """

    span: Span
    epochs: list[int]
    withheld: int
    across: list[tuple[int, int]]


def block_size(task: Task, least: int, days: int) -> tuple[int, int]:
    """Return how many epochs are shown together, and an epoch at which a block begins; see `parts_of`."""
    return (epochs_in(days, task), MONDAY // task.epoch_seconds) if least > 1 else (1, 0)


def in_whole_blocks(
    task: Task, reports: Mapping[int, int], before: int, least: int, days: int
) -> dict[int, int]:
    """Return the reports of the epochs whose whole block lies below epoch `before`; see `parts_of`.

    A block that grew with each released epoch would reveal the counts of single epochs.
    """
    size, anchor = block_size(task, least, days)
    whole = anchor + (before - anchor) // size * size
    return {epoch: n for epoch, n in reports.items() if epoch < whole}


def epochs_needed(task: Task, span: Span | None, days: int) -> Span:
    """Return the epochs whose numbers of reports `parts_of` needs, including blocks that cross an end."""
    first, last = span or Span()
    size = epochs_in(days, task)
    return Span(None if first is None else max(first - size, 0), None if last is None else last + size)


def parts_of(  # noqa: PLR0917
    task: Task, reports: Mapping[int, int], span: Span | None, every: Every, least: int, days: int = 1
) -> list[Part]:
    """Return the parts of an answer; this needs only the number of reports of each epoch.

    `every` is the length of a point in epochs or months, or 0 for a single estimate. Every estimate that is
    shown, and the difference of any two of them, has at least `least` reports. If `least` is above 1, epochs
    are shown together in blocks of `days` days, counted from a Monday. Raises a 422 `Problem` when there are
    more points than a series of this task may have.
    """
    size, anchor = block_size(task, least, days)
    blocks = blocks_of(reports, least, size=size, anchor=anchor)
    firsts = [block.first for block in blocks]
    shown: list[int] = []
    withheld: list[int] = []
    for epoch in sorted(epoch for epoch, n in reports.items() if n):
        place = bisect_right(firsts, epoch) - 1
        (shown if place >= 0 and epoch in blocks[place] else withheld).append(epoch)

    def part(span: Span) -> Part:
        mine = blocks[_within(firsts, span)]
        before = blocks[: bisect_left(firsts, span.first)][-1:] if span.first is not None else []
        across = [block[:2] for block in before if span.first in block]
        across += [block[:2] for block in mine[-1:] if block.last not in span]
        epochs = shown[_within(shown, Span(mine[0].first, mine[-1].last))] if mine else []
        return Part(span, epochs, sum(reports[epoch] for epoch in withheld[_within(withheld, span)]), across)

    if not every:
        return [part(span or Span())]
    span = span or Span()
    known = {epoch for epoch in (*firsts, *shown, *withheld) if epoch in span}
    return [part(each) for each in _points(task, known, span, every)]


def check_points(task: Task, question: Question, filled: int) -> None:
    """Refuse a series that needs a whole estimate for each of too many points with reports.

    Raises a 422 `Problem`. It also does so when no interval has the level that these points need together.
    """
    if not (
        question.between or question.quantiles or question.origin is not None or question.target == "users"
    ):
        return
    most = min(_MAX_WHOLE_POINTS, _MAX_WHOLE_COUNTS // task.mechanism.kernel.codes)
    if filled > max(most, 1):
        raise Problem(
            422,
            "too-many-points",
            f"With share, quantiles, origin or target=users a series of this task has at most {max(most, 1)} "
            "points with reports, because each takes a whole estimate: request fewer of them.",
        )
    if question.simultaneous and 1 - (1 - question.level) / filled > HIGHEST_LEVEL:
        raise Problem(
            422,
            "invalid-request",
            "simultaneous must be false for share, quantiles, origin or target=users at this many points: no "
            f"interval has a level above {HIGHEST_LEVEL}. Request longer points, or fewer epochs.",
        )


def _within(epochs: Sequence[int], span: Span) -> slice:
    """Return the slice of sorted epochs that lie in a range."""
    start = 0 if span.first is None else bisect_left(epochs, span.first)
    return slice(start, len(epochs) if span.last is None else bisect_right(epochs, span.last))


def _points(task: Task, known: Collection[int], span: Span, every: Every) -> list[Span]:
    if not known:
        return []
    most = min(MAX_POINTS, _MAX_COUNTS // task.mechanism.kernel.codes)
    try:
        return [Span(*point) for point in point_spans(task, known, every=every, span=span, most=most)]
    except ParameterError:  # too many points, or a point without an end
        raise Problem(
            422,
            "too-many-points",
            f"A series of this task has at most {most} points, and no point may end after the year 9999: "
            "request longer points, or fewer epochs.",
        ) from None
