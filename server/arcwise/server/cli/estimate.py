"""`arcwise estimate`: estimates from a store or from a bare file of counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click
import numpy as np

from arcwise.server.cli.picture import checked_picture
from arcwise.server.estimators import check_counts
from arcwise.server.estimators import estimate as estimate_counts
from arcwise.server.estimators.difference import mean_difference
from arcwise.server.estimators.fit_test import fit_test
from arcwise.server.store import open_store
from arcwise.tasks import Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["estimate"]


@click.command()
@click.argument("task_file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--store", help="The store that a server fills, for example sqlite:///arcwise.db.")
@click.option(
    "--counts",
    type=click.File("r"),
    help="File of the number of reports per code: a JSON array, or one number a line; - reads stdin.",
)
@click.option("--level", default=0.95, show_default=True, help="Level of the intervals.")
@click.option(
    "--share",
    "between",
    multiple=True,
    metavar="LOW:HIGH",
    help="Estimate the share of values in between, too; may be given again.",
)
@click.option(
    "--against",
    type=click.File("r"),
    help="Counts of other devices, as for --counts: the difference of their mean to this one.",
)
@click.option(
    "--plot",
    "plot_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    callback=checked_picture,
    help="Draw the estimates to this file: .png, .svg or .pdf.",
)
@click.option(
    "--fit-test",
    "tested",
    is_flag=True,
    help="Test whether honest reports explain the counts, and say what liars could do; takes a second.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, as the server's API does.")
def estimate(  # noqa: PLR0917 (click calls it by keyword)
    task_file: Path,
    store: str | None,
    counts: TextIO | None,
    level: float,
    between: tuple[str, ...],
    against: TextIO | None,
    plot_file: Path | None,
    tested: bool,
    as_json: bool,
) -> None:
    """Estimate from the counts of the task in TASK_FILE."""
    task = Task.load(task_file)
    if (store is None) == (counts is None):
        raise click.UsageError("give one of --store and --counts")
    array = _stored(task, store) if store is not None else _read(counts.read() if counts else "")
    result = estimate_counts(task, array, level=level, between=[_bounds(text) for text in between])
    shown = result.to_dict()
    words = str(result)
    if against is not None:
        mechanism = task.mechanism
        pairs = [(mechanism, check_counts(a, mechanism.kernel.codes)) for a in (array, _read(against.read()))]
        difference = mean_difference(*pairs, level=level)
        shown["mean_difference"] = difference.to_dict()
        words += f"\n  {'mean difference':<17} {difference}"
    if tested:
        fit = fit_test(task.mechanism, array)
        shown["fit"] = fit.to_dict()
        words += f"\n{fit}"
    click.echo(json.dumps(shown, indent=2) if as_json else words)
    if plot_file is not None:
        try:
            result.plot().savefig(plot_file)
        except OSError as error:
            raise click.ClickException(f"cannot write {plot_file}: {error.strerror}") from error


def _bounds(text: str) -> tuple[float, float]:
    low, _, high = text.partition(":")
    try:
        return float(low), float(high)
    except ValueError:
        raise click.UsageError(f"--share takes LOW:HIGH, two numbers; got {text!r}") from None


def _stored(task: Task, url: str) -> NDArray[np.int64]:
    store = open_store(url, create=False)  # an empty one helps nobody who mistyped its name
    try:
        return store.counts(task)
    finally:
        store.close()


def _read(text: str) -> NDArray[np.int64]:
    try:
        numbers = json.loads(text) if text.lstrip().startswith("[") else [int(line) for line in text.split()]
        array = np.asarray(numbers)
        if array.dtype.kind not in "iu":
            raise ValueError
    except (ValueError, OverflowError):
        raise click.ClickException(
            "--counts must hold whole numbers, as a JSON array or one a line"
        ) from None
    return array.astype(np.int64)
