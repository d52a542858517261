"""`arcwise estimate --weights`: one estimate of a population whose strata have a task each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TextIO

import click

from arcwise.analysis.counts import same_codes, same_units
from arcwise.analysis.estimators.devices import most_reports
from arcwise.analysis.estimators.poststratification import post_stratify
from arcwise.analysis.timeseries.epochs import epochs_across, merged
from arcwise.cli.outcomes import Outcome, estimated

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arcwise.analysis.timeseries.epochs import Span
    from arcwise.tasks import Task
    from arcwise.typing import IntArray


def weighted(
    counted: Iterable[tuple[Task, dict[int, IntArray], Span]], file: TextIO, **options: Any
) -> Outcome:
    """Return the estimate for the population that the populations of some tasks make up.

    Each task comes with its counts by epoch and the epochs that are asked for. `file` holds a JSON object
    with the name of each task and its weight in the population; `options` are those of `post_stratify`, which
    takes the task whose caps allow a device the most reports.
    """
    try:
        weights = json.load(file)
    except (ValueError, RecursionError):
        weights = None
    if not isinstance(weights, dict):
        raise click.ClickException(
            '--weights must hold a JSON object of task names and numbers, as {"ios": 3, "android": 7}'
        )
    strata: dict[str, IntArray] = {}
    asked: list[tuple[Task, Span]] = []
    epochs = 1
    for task, by_epoch, span in counted:
        asked.append((task, span))
        epochs = max(epochs, epochs_across(by_epoch, span))
        first = asked[0][0]
        if not (same_codes(task, first) and same_units(task, first)):
            raise click.UsageError(
                "--weights takes tasks of one domain, unit and mechanism: "
                f"{task.name} and {first.name} differ"
            )
        if task.name in strata:
            raise click.UsageError(f"--weights takes tasks of different names, got {task.name} twice")
        strata[task.name] = merged(task, by_epoch, span)
    task, span = max(asked, key=lambda each: most_reports(each[0], epochs))
    result = post_stratify(task, strata, weights, epochs=epochs, **options)
    return estimated(task, span, result, {}, fit=None)
