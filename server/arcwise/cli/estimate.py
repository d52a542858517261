"""`arcwise estimate`: estimates from a store or from a bare file of counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from arcwise.analysis import estimate as estimate_counts
from arcwise.analysis.csv_rows import write_rows
from arcwise.analysis.estimators.groups import group_reports
from arcwise.analysis.estimators.inference_target import TARGETS
from arcwise.analysis.plotting.pictures import plot_rows
from arcwise.analysis.robustness.fit_test import fit_test
from arcwise.analysis.tidy import COLUMNS, tidy_rows
from arcwise.analysis.timeseries.epochs import Span, epochs_across, epochs_in_step, merged
from arcwise.analysis.timeseries.series import series
from arcwise.cli.against import Against, against_options
from arcwise.cli.count_file import CountFile
from arcwise.cli.counts import opened_counts, read_counts, read_span, stored_counts
from arcwise.cli.outcomes import Outcome, estimated, nothing, over
from arcwise.cli.picture import checked_picture
from arcwise.cli.terminal import progress_bar
from arcwise.cli.weights import weighted
from arcwise.tasks import Group, Task

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from arcwise.analysis.estimators.inference_target import Target
    from arcwise.analysis.plotting.pictures import Drawing
    from arcwise.typing import IntArray


@click.command()
@click.argument(
    "task_files",
    metavar="TASK_FILE...",
    nargs=-1,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option(
    "--group",
    "group_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The tasks of this group's file, instead of task files; tests whether all were drawn equally often.",
)
@click.option("--store", help="The store that a server fills, for example sqlite:///arcwise.db.")
@click.option(
    "--counts",
    type=click.File("r"),
    help="File with the number of reports per code: a JSON array, or one number a line; or of "
    "`arcwise count -o`, by task and epoch; - reads stdin.",
)
@click.option("--from", "start", metavar="TIME", help="Only epochs that start then or later, see below.")
@click.option("--to", "end", metavar="TIME", help="Only epochs that start before then.")
@click.option(
    "--by", "step", metavar="STEP", help="Estimates over time: every epoch, day, week, month or N epochs."
)
@click.option("--simultaneous", is_flag=True, help="With --by: the level holds for all points together.")
@click.option(
    "--quantiles", is_flag=True, help="With --by: quantiles of every point, too (on a circle: --origin)."
)
@click.option("--level", default=0.95, show_default=True, help="Level of the intervals.")
@click.option(
    "--target",
    type=click.Choice(list(TARGETS)),
    default="population",
    show_default=True,
    help="Target of the intervals: the population, or only the users who reported.",
)
@click.option(
    "--reports-per-device",
    type=float,
    metavar="M",
    help="The most reports that one device may have sent, with --by in a point: intervals allow for it. 1 "
    "unless given, and a note says where caps allow more.",
)
@click.option(
    "--memoised",
    is_flag=True,
    help="With --reports-per-device: devices may have repeated an answer, as clients that memoise do.",
)
@click.option(
    "--bands",
    is_flag=True,
    help="Also a band around the distribution function, bins and the mode with intervals, and quantiles of a "
    "circle; --plot brings them too.",
)
@click.option("--origin", type=float, help="On a circle: quantiles counted upwards from here; implies them.")
@click.option(
    "--share",
    "between",
    multiple=True,
    metavar="LOW:HIGH",
    help="Also estimate the share of values in between. Repeatable.",
)
@against_options
@click.option(
    "--weights",
    type=click.File("r"),
    help="Treat the tasks as strata of one population, and estimate the whole. A JSON object with the "
    'weight of each task in the population, as {"ios": 3, "android": 7}.',
)
@click.option(
    "--plot",
    "plot_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    callback=checked_picture,
    help="Plot the estimates to this file, a row for each task: .png, .svg or .pdf.",
)
@click.option(
    "--fit-test",
    "tested",
    is_flag=True,
    help="Test whether honest devices explain the counts, and bound what liars could do; takes a second at "
    "128 nodes, minutes at 1,000.",
)
@click.option(
    "--csv",
    "csv_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the tidy table, a line for each number, to this file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, as the server's API does.")
def estimate(  # noqa: PLR0917 (click calls it by keyword)
    task_files: tuple[Path, ...],
    group_file: Path | None,
    store: str | None,
    counts: TextIO | None,
    start: str | None,
    end: str | None,
    step: str | None,
    simultaneous: bool,
    quantiles: bool,
    level: float,
    target: Target,
    reports_per_device: float | None,
    memoised: bool,
    bands: bool,
    origin: float | None,
    between: tuple[str, ...],
    weights: TextIO | None,
    plot_file: Path | None,
    tested: bool,
    csv_file: Path | None,
    as_json: bool,
    **against: Any,
) -> None:
    """Estimate from the counts of the task in each TASK_FILE, or of the tasks of a group.

    \b
    arcwise estimate delay.json --store sqlite:///arcwise.db
    arcwise estimate tasks/*.json --store sqlite:///arcwise.db --from 2026-11-01 --to 2026-11-08
    arcwise estimate delay.json --store sqlite:///arcwise.db --by day --plot delay.svg
    arcwise estimate --group vehicle.json --store sqlite:///arcwise.db --target users
    arcwise estimate delay.json --store sqlite:///arcwise.db --to 2026-11-08 --against-from 2026-11-08
    arcwise estimate delay.json --counts counts.json --reference "normal:40,12"
    arcwise estimate ios.json android.json --store sqlite:///arcwise.db --weights devices.json

    TIME is a date or a time in UTC, or the number of an epoch. Several tasks need --store, or a file of
    `arcwise count`; with --json they are an array. A task without reports says so, and the exit code is 1
    only when no task has any. Where devices draw the tasks of a group, --target users is all devices of the
    group.
    """  # noqa: D301 (\b is click's mark for a block that it must not rewrap)
    if (store is None) == (counts is None):
        raise click.UsageError(
            "give one of --store and --counts; `arcwise serve` uses --store sqlite:///arcwise.db by default"
        )
    given, bare = _given(counts, {"--from": start, "--to": end})
    _check_step(step, {"--simultaneous": simultaneous, "--quantiles": quantiles}, wanted=True)
    compare = Against(**against)
    _check_step(
        step, {"--counts": bare, **compare.given(), "--fit-test": tested, "--bands": bands}, wanted=False
    )
    group, tasks = _asked(task_files, group_file)
    alone = {"--counts": bare, **compare.given()}
    if weights is None:
        alone |= {"--share": between, "--origin": origin is not None}
    else:
        unweighted = {"--counts": bare, "--group": group, "--by": step, **compare.given()}
        _refuse(
            {**unweighted, "--fit-test": tested, "--target": target != "population"},
            "does not go with --weights",
        )
    if len(tasks) > 1:
        _refuse(alone, f"takes a single task, got {len(tasks)}")
    repeated: dict[str, Any] = {"reports_per_device": reports_per_device, "memoised": memoised}
    options: dict[str, Any] = {
        "level": level,
        **repeated,
        "origin": origin,
        "between": [_bounds(text) for text in between],
    }
    bands_too = bands or plot_file is not None
    sampled = 1.0 if group is None else group.share
    reports: dict[str, int] = {}

    def outcome_of(task: Task, by_epoch: dict[int, IntArray], span: Span) -> Outcome:
        array = merged(task, by_epoch, span)
        reports[task.name] = int(array.sum())
        if not bare and not array.any():
            return nothing(task, span, level=level, target=target, sampled=sampled)
        if step is not None:
            every = epochs_in_step(task, step, "--by")
            over_time = {"simultaneous": simultaneous, "quantiles": quantiles, **span._asdict()}
            return over(
                series(task, by_epoch, every=every, sampled=sampled, target=target, **over_time, **options)
            )
        here: dict[str, Any] = {
            "bands": bands_too,
            "target": target,
            "epochs": epochs_across(by_epoch, span),
            **options,
        }
        result = estimate_counts(task, array, sampled=sampled, **here)
        comparisons = compare.comparisons(task, array, span, store, **here)
        return estimated(
            task,
            span,
            result,
            comparisons,
            fit=fit_test(task, array, epochs=here["epochs"], **repeated) if tested else None,
        )

    counted = _all_counts(tasks, store, given, start, end, step=step)
    several = len(tasks) > 1 and weights is None
    outcomes: list[Outcome] = []
    for outcome in _shown(
        (outcome_of(*each) for each in counted)
        if weights is None
        else (weighted(counted, weights, bands=bands_too, **options) for _ in (None,)),
        len(tasks) if several else 1,
    ):
        if not as_json:
            click.echo(outcome.words + "\n" * (several and len(outcomes) + 1 < len(tasks)))
        elif not outcome.drawings:
            click.echo(outcome.words, err=True)
        outcomes.append(outcome)
    documents = [outcome.document for outcome in outcomes]
    together = None if group is None else group_reports(group, reports, level=level)
    if together is not None:
        click.echo(f"\n{together}", err=as_json)
    if as_json:
        whole = documents if together is None else {"group": together.to_dict(), "tasks": documents}
        click.echo(json.dumps(whole if several else documents[0], indent=2))
    drawn = [drawing for outcome in outcomes for drawing in outcome.drawings]
    _write(documents, csv_file, drawn, plot_file)
    if not drawn:
        raise click.exceptions.Exit(1)


def _shown(outcomes: Iterator[Outcome], total: int) -> Iterator[Outcome]:
    """Yield the outcomes, and show how far the command is while each is computed."""
    for done in range(total):
        with progress_bar("estimating", counted=total > 1) as show:
            if total > 1:
                show(done, total, "estimating")
            outcome = next(outcomes)
        yield outcome


def _asked(task_files: Sequence[Path], group_file: Path | None) -> tuple[Group | None, Sequence[Task]]:
    if group_file is None:
        if not task_files:
            raise click.UsageError("Missing argument 'TASK_FILE...', or option '--group'.")
        return None, [Task.load(path) for path in task_files]
    if task_files:
        raise click.UsageError("--group has tasks of its own: leave the task files out")
    group = Group.load(group_file)
    return group, group.tasks


def _given(counts: TextIO | None, times: Mapping[str, str | None]) -> tuple[TextIO | CountFile | None, bool]:
    """Return what the file of --counts is, and whether it has numbers without epochs."""
    given = None if counts is None else opened_counts(counts, "--counts")
    bare = given is not None and not isinstance(given, CountFile)
    if bare and any(time is not None for time in times.values()):
        raise click.UsageError(f"{' and '.join(times)} are for --store: this file of counts has no epochs")
    return given, bare


def _write(
    documents: Sequence[dict[str, Any]],
    csv_file: Path | None,
    drawn: Sequence[Drawing],
    plot: Path | None,
) -> None:
    try:
        if csv_file is not None:
            with csv_file.open("w", newline="", encoding="utf-8") as file:
                write_rows(file, COLUMNS, (row for document in documents for row in tidy_rows(document)))
        if plot is not None and drawn:
            plot_rows(drawn).savefig(plot)
    except OSError as error:
        raise click.ClickException(f"cannot write {error.filename}: {error.strerror}") from error


def _check_step(step: str | None, options: Mapping[str, Any], *, wanted: bool) -> None:
    """Refuse options that need --by without it, and options that do not go with it."""
    for name, value in options.items():
        if value and (step is not None) is not wanted:
            raise click.UsageError(f"{name} {'needs' if wanted else 'does not go with'} --by")


def _refuse(options: Mapping[str, Any], why: str) -> None:
    """Refuse the first option that was given."""
    for name, value in options.items():
        if value:
            raise click.UsageError(f"{name} {why}")


def _bounds(text: str) -> tuple[float, float]:
    low, _, high = text.partition(":")
    try:
        return float(low), float(high)
    except ValueError:
        raise click.UsageError(f"--share takes LOW:HIGH, two numbers; got {text!r}") from None


def _all_counts(
    tasks: Sequence[Task],
    store: str | None,
    counts: TextIO | CountFile | None,
    start: str | None,
    end: str | None,
    *,
    step: str | None,
) -> Iterator[tuple[Task, dict[int, IntArray], Span]]:
    """Yield each task with its counts by point and the epochs that are asked for."""
    if counts is not None and not isinstance(counts, CountFile):
        yield tasks[0], {0: read_counts(counts, "--counts")}, Span()
        return
    asked = [(task, read_span(task, start, end)) for task in tasks]
    if counts is not None:
        yield from ((task, counts.by_epoch(task), span) for task, span in asked)
        return
    for (task, span), by_point in zip(asked, stored_counts(store or "", asked, step), strict=True):
        yield task, by_point, span
