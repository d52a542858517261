"""`arcwise count`: count the reports in files, in a lake or in a warehouse."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from arcwise.analysis import count_table
from arcwise.analysis.timeseries.epochs import epoch_start, utc
from arcwise.cli.counts import write_counts
from arcwise.cli.options import NEW
from arcwise.cli.terminal import new_path, number_table, progress_bar, whole_file, wide_console
from arcwise.digits import counted
from arcwise.extras import check_extra
from arcwise.server.estimates.releasing import check_new
from arcwise.server.settings import load_tasks
from arcwise.server.store import open_store
from arcwise.server.store.sources import checked_name
from arcwise.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.analysis import BatchCounts


@click.command()
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option(
    "--task",
    "task_files",
    metavar="FILE",
    multiple=True,
    required=True,
    type=click.Path(exists=True, path_type=Path),
    help="A task's file, or a folder of them. Repeatable.",
)
@click.option(
    "--layout",
    type=click.Choice(["columns", "bodies"]),
    default="columns",
    show_default=True,
    help="The layout of the rows: task_id, epoch, batch_id and codes, or raw wire bodies in `body`.",
)
@click.option(
    "--engine",
    metavar="URL",
    help="Engine that counts, in place of an embedded DuckDB: spark, postgresql://USER@HOST/DATABASE, or "
    "another URL of Ibis. SOURCE is then a table's name, or Parquet files that the engine can read.",
)
@click.option("--memory-limit", metavar="SIZE", help="Memory of the embedded DuckDB, for example 1GB.")
@click.option(
    "--threads", type=click.IntRange(min=1), help="Threads of the embedded DuckDB; all cores unless given."
)
@click.option(
    "--output",
    "-o",
    type=NEW,
    help="Write the counts to this file: .csv, or JSON, for `arcwise estimate --counts`.",
)
@click.option("--force", is_flag=True, help="Replace the file of --output if it exists.")
@click.option("--into", metavar="STORE", help="Put the counts into this store, under the name of --source.")
@click.option("--source", metavar="NAME", help="Name of the source in the store of --into.")
def count(  # noqa: PLR0917 (click calls it by keyword)
    sources: tuple[str, ...],
    task_files: tuple[Path, ...],
    layout: str,
    engine: str | None,
    memory_limit: str | None,
    threads: int | None,
    output: Path | None,
    force: bool,
    into: str | None,
    source: str | None,
) -> None:
    """Count the reports in each SOURCE by task and epoch: Parquet, CSV or JSON lines, or a table.

    \b
    arcwise count reports/ --task tasks/ -o counts.json
    arcwise count "reports/2026-11-*.parquet" --task delay.json --into sqlite:///arcwise.db --source lake
    arcwise count landed --layout bodies --engine duckdb://landed.db --task delay.json
    arcwise count public.reports --engine postgresql://me@db/lake --task delay.json -o counts.csv
    arcwise estimate delay.json --counts counts.json --by day

    Each batch id is counted once. Reports that are not counted are listed below the counts, by reason. With
    --into, the new counts replace earlier counts of the same source, task and epoch, so you can count a
    source again when it has grown. Batches that the server itself has counted are refused. Put the password
    of a database into ~/.pgpass or PGPASSWORD: others can see a command line.
    """  # noqa: D301 (\b is click's mark for a block that it must not rewrap)
    check_extra("lake", "ibis", "pyarrow", user="arcwise count")
    if (into is None) != (source is None):
        raise click.UsageError("--into and --source go together")
    if source is not None:
        checked_name(source)  # before the long count, and before a store is created
    if output is not None:
        new_path("counts", output, force)  # fail before the engine runs
    tasks = [
        task for path in task_files for task in (load_tasks(path) if path.is_dir() else [Task.load(path)])
    ]
    options: dict[str, Any] = {"engine": engine, "memory_limit": memory_limit, "threads": threads}
    table = sources[0] if len(sources) == 1 else list(sources)
    with progress_bar("counting", counted=False):
        result = count_table(table, list(dict.fromkeys(tasks)), layout=layout, **options)  # type: ignore[arg-type]
    _print(result)
    if output is not None:
        with whole_file(output) as part:
            write_counts(part, result, as_csv=output.suffix.lower() == ".csv")
        click.echo(f"wrote {output}", err=True)
    if into is not None and source is not None:
        with progress_bar("storing", counted=False):
            words, warnings = _store(result, into, source)
        click.echo(words)
        for warning in warnings:
            click.echo(f"warning: {warning}", err=True)
    if not result.counts:
        raise click.exceptions.Exit(1)


def _print(result: BatchCounts) -> None:
    console = wide_console(100)
    rows = number_table("task", ["epoch", "starts", "reports"])
    for task in result.tasks:
        for epoch, counts in result.by_epoch(task).items():
            start = utc(epoch_start(task, epoch))
            rows.add_row(task.name, str(epoch), start, f"{int(counts.sum()):,}")
    console.print(rows, highlight=False)
    console.print(f"{result.reports:,} reports", highlight=False)
    if result.rejected:
        rejected = number_table("not counted", ["batches", "reports"])
        for row in result.rejected:
            rejected.add_row(row.reason, f"{row.batches:,}", f"{row.reports:,}")
        console.print(rejected, highlight=False)


def _store(result: BatchCounts, url: str, name: str) -> tuple[str, list[str]]:
    """Put the counts into the store; return a summary, and warnings if they seem to be incomplete."""
    with closing(open_store(url)) as opened:
        check_new(opened, result.tasks)
        opened.register(result.tasks)
        report = opened.replace_source(
            name,
            {(bytes.fromhex(task), epoch): counts for (task, epoch), counts in result.counts.items()},
            ((bytes.fromhex(task), epoch, batch_id) for task, epoch, batch_id in result.batch_ids),
        )
        stored = next(each for each in opened.sources() if each.name == name)
    words = (
        f"source {report.name}: {report.added:+,} reports, {_epochs(report.changed)} changed, "
        f"{report.unchanged:,} as before"
    )
    words += f"; {_epochs(report.closed)} closed, and left as before" if report.closed else ""
    warnings = []
    if shrunk := [change for change in report.changed if change.after < change.before]:
        lost = sum(change.before - change.after for change in shrunk)
        warnings.append(
            f"{_epochs(shrunk)} of source {name} shrank, by {lost:,} reports: the new counts replace those "
            "that the source had. If you count parts of a lake one by one, give each part its own source name"
        )
    tasks = {task.id for task in result.tasks}
    present = report.unchanged + sum(change.after > 0 for change in report.changed)
    present += sum(change.before > 0 for change in report.closed)
    kept = sum(each.epochs for each in stored.tasks if each.task_id in tasks) - present
    if kept > 0:
        warnings.append(
            f"{counted(kept, 'epoch')} of source {name} {'is' if kept == 1 else 'are'} not in these "
            f"counts, and stay{'s' * (kept == 1)}"
        )
    return words, warnings


def _epochs(changes: Sequence[object]) -> str:
    return counted(len(changes), "epoch")
