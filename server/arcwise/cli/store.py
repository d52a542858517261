"""`arcwise store`: maintain a store, move it, and merge several into one."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from arcwise.cli.main import CommandGroup
from arcwise.cli.stored_tasks import named_task, shows_closed_epochs
from arcwise.cli.terminal import progress_bar, whole_file
from arcwise.digits import counted
from arcwise.errors import StoreError
from arcwise.server.access.administration import audited
from arcwise.server.estimates.releasing import checked_records, released_records
from arcwise.server.store import migrate_store, open_store
from arcwise.server.store.export import BatchIds, Counts, Header, read_export, write_export
from arcwise.server.store.staging import StagingStore, staging
from arcwise.server.store.urls import checked_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from arcwise.server.archive.folder import Folder
    from arcwise.server.store import DeletedData, Store
    from arcwise.server.store.export import Record

_URL = click.argument("url", metavar="STORE")


@click.group(cls=CommandGroup)
def store() -> None:
    """Inspect and maintain a store: sqlite:///FILE or postgresql://USER@HOST/DATABASE.

    Put a PostgreSQL password into ~/.pgpass or PGPASSWORD: others can see a command line.
    """


@store.command()
@_URL
def info(url: str) -> None:
    """Show the contents of a store: its tasks, reports and epochs, keys and size."""
    with _existing(url) as opened:
        tasks = opened.tasks()
        for each in tasks:
            epochs = list(opened.reports_by_epoch(each.task))
            state = "open" if each.closed is None else f"closed since {_time(each.closed)[:10]}"
            click.echo(f"{each.task.name}  ({state})")
            click.echo(f"  id        {each.task.id}")
            click.echo(f"  reports   {opened.report_count(each.task):,}")
            if shows_closed_epochs(opened, each.task):
                epochs_released = counted(len(opened.released(each.task)), "epoch")
                click.echo(f"  released  {epochs_released}; the other numbers are live")
            if epochs:
                click.echo(f"  epochs    {epochs[0]} to {epochs[-1]}, {len(epochs):,} with reports")
            if each.open_from > 0:
                click.echo(f"  refused   epochs before {each.open_from}, whose batch ids were deleted")
        good = sum(key.revoked is None for key in opened.keys())  # noqa: SIM118 (a store is not a dict)
        if isinstance(opened, StagingStore) and (waiting := opened.staged_size()).batches:
            click.echo(f"{waiting.batches:,} batches wait for the archive")
        click.echo(f"{counted(len(tasks), 'task')}, {counted(good, 'key')}, {opened.size:,} bytes")


@store.command()
@_URL
@click.option("--to", type=int, metavar="N", help="Stop at schema N; the newest unless given.")
@click.option(
    "--dry-run", is_flag=True, help="Run the migration and roll it back, to see whether it would fail."
)
def migrate(url: str, to: int | None, dry_run: bool) -> None:
    """Bring the tables of an older arcwise up to date.

    All steps are one transaction: they succeed, or the store is unchanged. Only a backup can undo a
    migration, so make one first. Also stop the servers on the store: an older arcwise cannot use the new
    tables.
    """
    with progress_bar("migrating", counted=False):
        steps = migrate_store(url, to=to, dry_run=dry_run)
    for step in steps:
        click.echo(f"schema {step.version}: {step.title}")
    if not steps:
        click.echo("nothing to do")
    elif dry_run:
        click.echo("nothing was changed: this was a dry run")


@store.command()
@_URL
def check(url: str) -> None:
    """Read everything in a store and report problems; exit with 1 if there are any."""
    with _existing(url) as opened, progress_bar("reading the store", counted=False):
        problems = opened.check()
        known = [] if problems else opened.keys()
    for problem in problems:
        click.echo(problem)
    if problems:
        raise click.ClickException(
            f"{counted(len(problems), 'problem')}: restore a backup, or export what is left"
        )
    click.echo("the store is whole")
    if admins := sum(key.scope == "admin" and key.revoked is None for key in known):
        click.echo(f"{counted(admins, 'admin key')}, which `arcwise key list` names")


@store.command()
@_URL
def vacuum(url: str) -> None:
    """Reclaim the space of deleted batch ids.

    SQLite rewrites the file. This needs free disk space of the same size, and servers wait meanwhile.
    PostgreSQL keeps the space and reuses it, and the counts of ended workers are combined.
    """
    with _existing(url) as opened:
        before = opened.size
        with progress_bar("rewriting the store", counted=False):
            opened.vacuum()
        click.echo(f"{before:,} bytes before, {opened.size:,} after")


@store.command()
@_URL
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--ids", is_flag=True, help="Include batch ids, which identify replays: 35 bytes a batch.")
@click.option(
    "--released",
    is_flag=True,
    help="Export only released epochs, as readers see them; without this option, live counts.",
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def export(url: str, file: Path, ids: bool, released: bool, force: bool) -> None:
    """Write the tasks and counts of a store to a file, as of one moment, while servers go on.

    The file is JSON lines, for `arcwise store merge` and for people. It contains no keys. Without --ids, a
    store that merges the file cannot recognise batches that are sent again.
    """
    if ids and released:
        raise click.UsageError("--ids does not go with --released: the ids of closed epochs are forgotten")
    if file.exists() and not force:
        raise click.ClickException(f"{file} already exists; name another file, or use --force")
    tally = _Tally()
    with (
        _existing(url) as opened,
        closing(released_records(opened) if released else opened.export(ids=ids)) as records,
        whole_file(file) as part,
        progress_bar() as show,
        open(part, "x", encoding="utf-8", opener=_private) as text,
    ):
        write_export(text, tally.watch(records, show))
    click.echo(f"wrote {file}: {tally}")


def _private(path: str, flags: int) -> int:
    """Open a file that only its owner may read, as it may hold batch ids."""
    return os.open(path, flags, 0o600)


@store.command()
@click.argument("target", metavar="STORE")
@click.argument("others", metavar="OTHER...", nargs=-1, required=True)
@click.option(
    "--without-ids", is_flag=True, help="Ignore batch ids: batches that are in both stores count twice."
)
def merge(target: str, others: tuple[str, ...], without_ids: bool) -> None:
    """Add the reports of other stores to STORE, which is created if it does not exist.

    OTHER is a file of `arcwise store export` or the URL of a store. Each is added completely or not at all,
    and only once: STORE recognises a merged store later under any name. Before you merge, stop the servers on
    OTHER and send its devices to STORE: reports that OTHER accepts after the merge cannot be merged.

    A merge is refused if a batch is in both stores. This is noticed only while both stores have the id of the
    batch. In epochs whose ids one of the stores has deleted, the batch counts twice. If OTHER has no batch
    ids (an export without --ids), a batch that a device sends again, now to STORE, counts twice. So wait
    until the devices have nothing left to send to OTHER. Keys are not merged.
    """
    for other in others:
        _check_readable(other)  # before STORE is created: a mistyped name must not leave an empty store
    with closing(open_store(target)) as opened:
        for other in others:
            tally = _Tally()
            with _records(other, ids=not without_ids) as records, progress_bar() as show:
                kept = (each for each in records if not (without_ids and isinstance(each, BatchIds)))
                checked = checked_records(opened, tally.watch(kept, show))
                left_out = opened.merge(checked, int(time.time()))
            click.echo(f"merged {other if '://' not in other else 'a store'}: {tally}")
            if left_out:
                click.echo(f"left out {counted(left_out, 'report')} of epochs that are released here")
            if not tally.batches and tally.reports:
                click.echo("it has no batch ids: its batches count twice if devices send them again")


@store.command()
@_URL
def sources(url: str) -> None:
    """List the sources of a store: their counts of each task, and when they were replaced.

    `arcwise count --into STORE --source NAME` creates a source, or replaces an existing one.
    """
    with _existing(url) as opened:
        names = {each.task.id: each.task.name for each in opened.tasks()}
        for source in opened.sources():
            reports = counted(sum(task.reports for task in source.tasks), "report")
            click.echo(f"{source.name}  (replaced {_time(source.replaced)}, {reports})")
            for task in source.tasks:
                epochs = f"epochs {task.first} to {task.last}, {task.epochs:,} with reports"
                click.echo(
                    f"  {names[task.task_id]}  {counted(task.reports, 'report')}, {epochs}  {task.task_id}"
                )


@store.command("drop-source")
@_URL
@click.argument("name")
@click.option(
    "--closed-too", is_flag=True, help="Also drop counts of closed epochs, which cannot be counted again."
)
def drop_source(url: str, name: str, closed_too: bool) -> None:
    """Remove the counts of a source from a store, and forget the ids of its batches."""
    with _existing(url) as opened:
        reports = opened.drop_source(name, closed_too=closed_too)
    click.echo(f"dropped source {name}: {counted(reports, 'report')}")


@store.command()
@_URL
@click.option("--most", type=click.IntRange(1), default=100, show_default=True, help="Most entries to list.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
def audit(url: str, most: int, as_json: bool) -> None:
    """List, newest first, who made, closed and opened tasks, made and revoked keys, and logged in as admin.

    Servers delete entries after audit_retention_days. An outcome "unknown" means that the process died.
    """
    with _existing(url) as opened:
        names = {each.task.id: each.task.name for each in opened.tasks()}
        for _, action in opened.actions(most):
            if as_json:
                click.echo(json.dumps(asdict(action)))
                continue
            by = action.key_id or "command"
            subject = " ".join(filter(None, (action.subject, names.get(action.subject))))
            click.echo(f"{_time(action.time)}  {by:<12}  {action.action}  {subject}  {action.outcome}")


def _check_readable(other: str) -> None:
    """Open a store or an export and read its header; raise the errors that reading all of it would raise.

    A pipe is skipped because it can be read only once.
    """
    if not Path(other).is_fifo():
        with _records(other, ids=False) as records:
            next(iter(records))


_WRITING_SECONDS = 10.0


@store.command("forget-archive")
@_URL
def forget_archive(url: str) -> None:
    """Let the next `arcwise serve --archive` begin another archive, in a new folder.

    Batches that wait in the store go to the new archive. Workers that still run with the old folder write
    nothing more to it; restart them. If a server was writing a file when it crashed, or took more than ten
    seconds to write it, the batches of this file may also be in the old folder.
    """
    with _existing(url) as opened:
        until = time.monotonic() + _WRITING_SECONDS
        while not staging(opened).forget_archive(begun_too=time.monotonic() >= until):
            time.sleep(0.05)  # servers finish their files meanwhile
        batches = staging(opened).staged_size().batches
    click.echo(f"the archive is forgotten; {batches:,} batches wait for another one")


@store.command("delete-data")
@_URL
@click.argument("task")
@click.option(
    "--archive",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Also delete the task's files in this archive, if servers wrote an archive.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def delete_data(url: str, task: str, archive: Path | None, yes: bool) -> None:
    """Delete all data of a closed task permanently: counts, batch ids, and its files in an archive.

    TASK is its name or its id. Stop servers that write an archive first. The task itself stays, closed, so
    that devices that still hold reports of it learn to drop them. The entries of the audit log stay too.
    """
    with _existing(url) as opened:
        found = named_task(opened.tasks(), task, "TASK")
        if found is None:
            raise click.ClickException(
                f"the store has no task {task!r}; `arcwise store info` lists its tasks"
            )
        task_id, name = found.task.id, found.task.name
        if found.closed is None:
            raise click.ClickException(
                f"task {name} is open: close it first, with POST /v1/tasks/{task_id}/close or on the page "
                "for operators"
            )
        folder = None if archive is None else _archive(archive, opened)
        reports = opened.report_count(found.task)
        if not yes:
            where = "" if archive is None else f" and in {archive}"
            click.confirm(
                f"Delete {counted(reports, 'report')} of task {name} ({task_id}) in {url}{where} for ever?",
                abort=True,
            )

        def delete() -> DeletedData:
            if folder is not None:
                folder.remove_task(task_id)  # first: the store must not record the deletion too early
            return opened.delete_data(task_id)

        try:
            deleted = audited(opened, "delete data", task_id, delete, now=time.time())
        except OSError as error:
            raise click.ClickException(f"cannot delete in the archive {archive}: {error}") from error
        finally:
            if folder is not None:
                folder.unlock()
        click.echo(
            f"deleted: {counted(deleted.reports, 'report')}, {counted(deleted.batch_ids, 'batch id')}, "
            f"{deleted.staged:,} batches that waited for an archive"
        )
        try:
            opened.vacuum()
        except StoreError as error:
            raise click.ClickException(
                f"the data is deleted, but its bytes are still on the disk: {error}. Run `arcwise "
                "store vacuum` until it succeeds"
            ) from error
    if folder is None:
        copies = "archives of batches, which need --archive DIR; tables that were made from them"
    else:
        copies = "copies of the archive, and tables that were made from it"
    pages = "the database's free pages, write-ahead log, archive and replicas, until they are overwritten"
    left = [copies, *_STAYS, *([] if url.startswith("sqlite:") else [pages])]
    click.echo("\n  ".join(["not deleted, because this command cannot reach it:", *left]))


_STAYS = (
    "backups and exports of this store, and other stores into which it was merged",
    "estimates that were downloaded, and logs of servers and proxies",
    "entries of the audit log, until audit_retention_days have passed; keys that were made for the task",
    "reports that wait on devices: they drop them when the server answers that the task is closed",
    "freed sectors of the disk",
)


def _archive(path: Path, opened: Store) -> Folder:
    """Return the folder of this store's archive. It raises errors before anything is asked or deleted."""
    from arcwise.server.archive.folder import Folder

    archived = staging(opened)
    if archived.archive_id() is None:
        raise click.ClickException("the store has no archive: leave --archive out")
    folder = Folder(path, archived)
    if not folder.lock():
        raise click.ClickException(f"a server writes to {path}: stop it first")
    return folder


@contextmanager
def _records(other: str, *, ids: bool) -> Iterator[Iterable[Record]]:
    """Open an export or another store for reading."""
    if "://" in other:
        with _existing(other) as opened, closing(opened.export(ids=ids)) as records:
            yield records
        return
    try:
        file = Path(checked_path(other)).open(encoding="ascii", errors="replace")  # noqa: SIM115 (closed below; only opening is guarded)
    except OSError as error:
        raise click.ClickException(f"cannot read {other}: {error.strerror}") from error
    with file:
        yield read_export(file, other)


class _Tally:
    """Counts the records that pass through, and shows the progress."""

    def __init__(self) -> None:
        self.tasks = self.reports = self.batches = 0

    def watch(self, records: Iterable[Record], show: Callable[[int, int, str], None]) -> Iterator[Record]:
        total = 0
        for record in records:
            if isinstance(record, Header):
                total = record.reports
            elif isinstance(record, Counts):
                self.reports += int(record.counts.sum())
            elif isinstance(record, BatchIds):
                self.batches += len(record.ids)
            else:
                self.tasks += 1
            show(self.reports, total, counted(self.batches, "batch id"))
            yield record

    def __str__(self) -> str:
        reports, batches = counted(self.reports, "report"), counted(self.batches, "batch id")
        return f"{counted(self.tasks, 'task')}, {reports}, {batches}"


@contextmanager
def _existing(url: str) -> Iterator[Store]:
    with closing(open_store(url, create=False)) as opened:
        yield opened


def _time(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime(seconds))
