"""`arcwise estimate`: estimate from a store or from a file of counts, and compare estimates."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import click

from arcwise.analysis import estimate as estimate_counts
from arcwise.analysis.counts import same_codes, same_units
from arcwise.analysis.csv_rows import write_csv
from arcwise.analysis.estimators.comparison import compare_reference, compare_samples
from arcwise.analysis.estimators.estimation import empty_estimate
from arcwise.analysis.estimators.groups import group_reports
from arcwise.analysis.estimators.inference_target import TARGETS
from arcwise.analysis.estimators.poststratification import post_stratify
from arcwise.analysis.estimators.survey import most_reports
from arcwise.analysis.plotting.pictures import plot_rows
from arcwise.analysis.robustness.fit_test import fit_test
from arcwise.analysis.tidy import COLUMNS, tidy_rows
from arcwise.analysis.timeseries.epochs import (
    Span,
    epoch_start,
    epochs_across,
    epochs_in_step,
    merged,
    span_to_dict,
    utc,
)
from arcwise.analysis.timeseries.series import series
from arcwise.cli.counts import CountFile, opened_counts, read_counts, read_span, stored_counts
from arcwise.cli.options import EXISTING, NEW, checked_picture, together
from arcwise.cli.stored_tasks import reports_of_namesakes
from arcwise.cli.terminal import progress_bar, reader_lines, writing_files
from arcwise.server.store import open_store
from arcwise.tasks import Group, Task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from arcwise.analysis import Estimate
    from arcwise.analysis.estimators.comparison import Comparison
    from arcwise.analysis.estimators.inference_target import Target
    from arcwise.analysis.plotting.pictures import Drawing
    from arcwise.analysis.robustness.fit_test import FitTest
    from arcwise.typing import IntArray


_against_options = together(
    click.option(
        "--against",
        type=click.File("r"),
        help="Counts of other devices, in the format of --counts. Shows the differences between the "
        "estimates of both, with intervals, and tests whether both come from one population.",
    ),
    click.option(
        "--against-task",
        type=EXISTING,
        help="The task of the other devices, on the same domain; its reports are in --store unless --against "
        "has them.",
    ),
    click.option(
        "--against-from",
        metavar="TIME",
        help="With --store: take the other reports from epochs that start at this time or later.",
    ),
    click.option(
        "--against-to",
        metavar="TIME",
        help="With --store: take the other reports from epochs that start before this time.",
    ),
    click.option(
        "--reference",
        metavar="DISTRIBUTION",
        help='A given population such as "normal:40,12" (see arcwise simulate --help). Shows how far it is '
        "from these estimates, and tests whether the reports come from it.",
    ),
)


class _Against(NamedTuple):
    """The options that `_against_options` adds: other reports, or a reference, to compare estimates with."""

    against: TextIO | None
    against_task: Path | None
    against_from: str | None
    against_to: str | None
    reference: str | None

    def given(self) -> dict[str, Any]:
        """Return the values by option names, such as ``--against-task``."""
        return {f"--{name.replace('_', '-')}": value for name, value in self._asdict().items()}

    def others(self, task: Task, span: Span, store: str | None) -> tuple[Task, IntArray, int] | None:
        """Return the task, the counts and the number of epochs of the other reports, or None.

        `task`, `span` and `store` belong to the first sample; no report may be in both samples.
        """
        times = self.against_from, self.against_to
        other_task = task if self.against_task is None else Task.load(self.against_task)
        if self.against is not None:
            if times != (None, None):
                raise click.UsageError("--against-from and --against-to are for --store, not for --against")
            given = opened_counts(self.against, "--against")
            if isinstance(given, CountFile):
                by_epoch = given.by_epoch(other_task)
                return other_task, merged(other_task, by_epoch, Span()), epochs_across(by_epoch)
            return other_task, read_counts(given, "--against"), 1
        if self.against_task is None and times == (None, None):
            return None
        if store is None:
            raise click.UsageError(
                "--against-task, --against-from and --against-to need --store or --against"
            )
        others = read_span(other_task, *times, options=("--against-from", "--against-to"))
        with closing(open_store(store, create=False)) as opened:
            epochs = list(opened.reports_by_epoch(other_task, *others))
            (counts,) = opened.sums(other_task, dict.fromkeys(epochs, 0))
            namesakes = reports_of_namesakes(opened, other_task)
        both = [epoch for epoch in epochs if epoch in span]
        if task == other_task and both:
            raise click.UsageError(
                f"no report may be in both samples, but those of {utc(epoch_start(task, both[0]))} are: give "
                "--from and --to, or --against-from and --against-to, to separate the samples"
            )
        if not counts.any():
            raise click.ClickException(
                f"{other_task.name}: {namesakes or 'no other reports to compare with'}"
            )
        return other_task, counts, epochs_across(epochs)

    def comparisons(
        self, task: Task, counts: IntArray, span: Span, store: str | None, **options: Any
    ) -> dict[str, Comparison]:
        """Return the requested comparisons by name; `options` are passed to `compare_samples`."""
        found = {}
        other = self.others(task, span, store)
        if other is not None:
            other_task, others, epochs = other
            found["difference"] = compare_samples(
                task, counts, others, other_task=other_task, other_epochs=epochs, **options
            )
        if self.reference is not None:
            found["reference"] = compare_reference(task, counts, self.reference, **options)
        return found


class Outcome(NamedTuple):
    """A result as JSON, in words, and as a drawing; the drawing is missing if there were no reports."""

    document: dict[str, Any]
    words: str
    drawings: Sequence[Drawing] = ()


@click.command()
@click.argument("task_files", metavar="TASK_FILE...", nargs=-1, type=EXISTING)
@click.option(
    "--group",
    "group_file",
    type=EXISTING,
    help="The tasks of this group's file, instead of task files; tests whether all were drawn equally often.",
)
@click.option("--store", help="The store that a server fills, for example sqlite:///arcwise.db.")
@click.option(
    "--counts",
    type=click.File("r"),
    help="File with the number of reports per code: a JSON array, one number a line, or the output of "
    "`arcwise count -o`, by task and epoch; - reads stdin.",
)
@click.option("--from", "start", metavar="TIME", help="Only epochs that start at TIME or later, see below.")
@click.option("--to", "end", metavar="TIME", help="Only epochs that start before TIME.")
@click.option(
    "--by", "step", metavar="STEP", help="Estimates over time, by epoch, day, week, month or N epochs."
)
@click.option("--simultaneous", is_flag=True, help="With --by: make the level hold for all points together.")
@click.option(
    "--quantiles", is_flag=True, help="With --by: also quantiles of every point (on a circle: --origin)."
)
@click.option(
    "--quantile",
    "levels",
    type=float,
    multiple=True,
    metavar="LEVEL",
    help="Also estimate the quantile of this level, such as 0.9; with --by at every point. Repeatable.",
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
    help="Largest number of reports that one device may have sent (with --by: in one point); intervals "
    "allow for it. "
    "1 unless given; a note warns if caps allow more.",
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
    "circle; included with --plot.",
)
@click.option("--origin", type=float, help="On a circle: show quantiles, counted upwards from this origin.")
@click.option(
    "--share",
    "between",
    multiple=True,
    metavar="LOW:HIGH",
    help="Also estimate the share of values between LOW and HIGH. Repeatable.",
)
@_against_options
@click.option(
    "--weights",
    type=click.File("r"),
    help="Treat the tasks as strata of one population, and estimate the whole. A JSON object with the "
    'weight of each task in the population, such as {"ios": 3, "android": 7}.',
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
    help="Test whether honest devices explain the counts, and bound the effect of false reports; takes a "
    "second at 128 nodes, minutes at 1,000.",
)
@click.option("--csv", "csv_file", type=NEW, help="Write a tidy table, a line for each number, to this file.")
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
    levels: tuple[float, ...],
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
    `arcwise count`; with --json they are an array. A task without reports gets a notice; the exit code is 1
    only if no task has any. If devices draw the tasks of a group, --target users means all devices of the
    group.
    """  # noqa: D301 (\b is click's mark for a block that it must not rewrap)
    if (store is None) == (counts is None):
        raise click.UsageError(
            "give one of --store and --counts; `arcwise serve` uses --store sqlite:///arcwise.db by default"
        )
    given = None if counts is None else opened_counts(counts, "--counts")
    if (bare := isinstance(given, str)) and (start is not None or end is not None):
        raise click.UsageError("--from and --to are for --store: this file of counts has no epochs")
    compare = _Against(**against)
    alone = {"--counts": bare, **compare.given()}
    over_time = {"simultaneous": simultaneous, "quantiles": quantiles}
    _check_step(step, over_time, {**alone, "--fit-test": tested, "--bands": bands})
    group, tasks = _asked(task_files, group_file)
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
            return _nothing(task, span, level=level, target=target, sampled=sampled)
        if step is not None:
            asked: dict[str, Any] = {
                "every": epochs_in_step(task, step, "--by"),
                **span._asdict(),
                **over_time,
                "quantiles": levels or quantiles,
            }
            points = series(task, by_epoch, sampled=sampled, target=target, **asked, **options)
            return Outcome(points.to_dict(), str(points), [points])
        here: dict[str, Any] = {
            "bands": bands_too,
            "target": target,
            "epochs": epochs_across(by_epoch, span),
            **options,
        }
        result = estimate_counts(task, array, sampled=sampled, quantiles=levels, **here)
        comparisons = compare.comparisons(task, array, span, store, **here)
        fit = fit_test(task, array, epochs=here["epochs"], **repeated) if tested else None
        return _estimated(task, span, result, comparisons, fit)

    counted = _all_counts(tasks, store, given, start, end, step=step)
    outcomes = _printed(
        (outcome_of(*each) for each in counted)
        if weights is None
        else (_weighted(counted, weights, bands=bands_too, quantiles=levels, **options) for _ in (None,)),
        len(tasks) if weights is None else 1,
        as_json=as_json,
    )
    documents = [outcome.document for outcome in outcomes]
    together = None if group is None else group_reports(group, reports, level=level)
    if together is not None:
        click.echo(f"\n{together}", err=as_json)
    if as_json:
        whole = documents if together is None else {"group": together.to_dict(), "tasks": documents}
        click.echo(json.dumps(whole if len(outcomes) > 1 else documents[0], indent=2))
    drawn = [drawing for outcome in outcomes for drawing in outcome.drawings]
    _write(documents, csv_file, drawn, plot_file)
    if not drawn:
        raise click.exceptions.Exit(1)


def _nothing(task: Task, span: Span, **options: Any) -> Outcome:
    """Return a no-reports notice for a task in these epochs; `options` are passed to `empty_estimate`."""
    words = f"{task.name}: no reports {_words(task, span) or 'yet'}"
    return Outcome(empty_estimate(task, **options).to_dict() | _epochs(task, span), words)


def _estimated(
    task: Task, span: Span, result: Estimate, comparisons: Mapping[str, Comparison], fit: FitTest | None
) -> Outcome:
    """Return an estimate from these epochs, with the comparisons by name and the fit test, if requested."""
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


def _epochs(task: Task, span: Span) -> dict[str, Any]:
    return {} if span == Span() else {"epochs": span_to_dict(task, span)}


def _words(task: Task, span: Span) -> str:
    """Return a range of epochs in words, or "" for all epochs."""
    ends = span_to_dict(task, span)
    start = "" if ends["start"] is None else f"from {ends['start']}"
    return start if ends["end"] is None else f"{start} to before {ends['end']}".strip()


def _weighted(
    counted: Iterable[tuple[Task, dict[int, IntArray], Span]], file: TextIO, **options: Any
) -> Outcome:
    """Return the estimate for one population, whose strata are the populations of these tasks.

    Each task comes with its counts by epoch and the requested epochs. `file` holds a JSON object with the
    name of each task and its weight in the population. `options` are passed to `post_stratify`, together with
    the task whose caps allow a device the most reports.
    """
    try:
        weights = json.load(file)
    except (ValueError, RecursionError):
        weights = None
    if not isinstance(weights, dict):
        raise click.ClickException(
            '--weights must hold a JSON object of task names and numbers, such as {"ios": 3, "android": 7}'
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
                "--weights takes tasks of the same domain, unit and mechanism: "
                f"{task.name} and {first.name} differ"
            )
        if task.name in strata:
            raise click.UsageError(f"--weights takes tasks of different names, got {task.name} twice")
        strata[task.name] = merged(task, by_epoch, span)
    task, span = max(asked, key=lambda each: most_reports(each[0], epochs))
    result = post_stratify(task, strata, weights, epochs=epochs, **options)
    return _estimated(task, span, result, {}, None)


def _printed(outcomes: Iterator[Outcome], total: int, *, as_json: bool) -> list[Outcome]:
    """Return the outcomes; print each when it is computed, and show a progress bar meanwhile."""
    found: list[Outcome] = []
    for done in range(total):
        with progress_bar("estimating", counted=total > 1) as show:
            if total > 1:
                show(done, total, "estimating")
            outcome = next(outcomes)
        if not as_json:
            click.echo(outcome.words + "\n" * (done + 1 < total))
        elif not outcome.drawings:
            click.echo(outcome.words, err=True)
        found.append(outcome)
    return found


def _write(
    documents: Sequence[dict[str, Any]], csv_file: Path | None, drawn: Sequence[Drawing], plot: Path | None
) -> None:
    with writing_files():
        if csv_file is not None:
            write_csv(csv_file, COLUMNS, (row for document in documents for row in tidy_rows(document)))
        if plot is not None and drawn:
            plot_rows(drawn).savefig(plot)


def _asked(task_files: Sequence[Path], group_file: Path | None) -> tuple[Group | None, Sequence[Task]]:
    if group_file is None:
        if not task_files:
            raise click.UsageError("Missing argument 'TASK_FILE...', or option '--group'.")
        return None, [Task.load(path) for path in task_files]
    if task_files:
        raise click.UsageError("--group already names its tasks: leave the task files out")
    group = Group.load(group_file)
    return group, group.tasks


def _check_step(step: str | None, over_time: Mapping[str, Any], single: Mapping[str, Any]) -> None:
    """Refuse options that need --by if it is missing, and options that cannot be combined with it."""
    if step is None:
        _refuse({f"--{name}": value for name, value in over_time.items()}, "needs --by")
    else:
        _refuse(single, "does not go with --by")


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
    counts: str | CountFile | None,
    start: str | None,
    end: str | None,
    *,
    step: str | None,
) -> Iterator[tuple[Task, dict[int, IntArray], Span]]:
    """Yield each task with its counts by point and the requested epochs."""
    if isinstance(counts, str):
        yield tasks[0], {0: read_counts(counts, "--counts")}, Span()
        return
    asked = [(task, read_span(task, start, end)) for task in tasks]
    if counts is not None:
        yield from ((task, counts.by_epoch(task), span) for task, span in asked)
        return
    for (task, span), by_point in zip(asked, stored_counts(store or "", asked, step), strict=True):
        yield task, by_point, span
