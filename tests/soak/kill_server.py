"""SIGKILLs of servers under load: each acknowledged report is counted exactly once.

Real ``arcwise serve`` processes run, on PostgreSQL four on four ports. The senders are a separate process and
go to another worker when one is gone, as behind a proxy. Workers are killed while they serve, start or drain,
two or all together; sometimes PostgreSQL crashes, or a proxy before it loses its replies. Each batch has its
own codes, so counts show its fate. The program exits with 1 if anything is lost, counted twice, or wrong with
a store.

With ``--archive`` fewer workers write one. When all are dead, each counted batch must be in a file or wait
for one, and in both only if the file is unfinished; at the end each is in one file, as it was sent. With
``--relays`` senders know only relays, one before each worker, which are killed too; retries are encrypted
again, and no relay may acknowledge a batch.

    python -m tests.soak.kill_server --store sqlite|postgresql|both --kills 200 --seed 7 [--archive|--relays]
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from tests.soak.kills.database import CrashingDatabase, LossyProxy
from tests.soak.kills.soak import Figures, Kind, Soak, Violation, kinds
from tests.soak.kills.workers import EndedError
from tests.support.postgres import OwnServer, fresh_schema

_NEWS_SECONDS = 10.0
_KILLS_PER_FAULT = 10
"""Faults of the database: a crash, and a loss of replies."""


class Setting(NamedTuple):
    """Workers on a store."""

    store: str
    workers: int

    def __str__(self) -> str:
        return f"{self.store}, {self.workers} worker{'s' if self.workers > 1 else ''}"


SETTINGS = {
    "sqlite": [Setting("SQLite", 1), Setting("SQLite", 2)],
    "postgresql": [Setting("PostgreSQL", 4)],
}
FEW = {"sqlite": [Setting("SQLite", 1)], "postgresql": [Setting("PostgreSQL", 2)]}
"""Workers of which one writes the archive: at least half of the kills end that one."""


def run(setting: Setting, kills: int, seed: int, senders: int, **options: bool) -> Figures:
    """Kill workers this many times, and return the figures; `options` are those of `Soak`."""
    generator = random.Random(seed)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        database = None
        url = f"sqlite:///{folder / 'kill.db'}"
        if setting.store == "PostgreSQL":
            server = OwnServer()
            stack.callback(server.stop)
            url = stack.enter_context(fresh_schema(server.url))
            database = CrashingDatabase(server, url, stack.enter_context(LossyProxy(url)))
        faults = 0 if database is None else -(-kills // _KILLS_PER_FAULT)
        given: dict[str, Any] = {"workers": setting.workers, "senders": senders, "database": database}
        soak = stack.enter_context(Soak(folder, url, seed=seed, **given | options))
        todo = kinds(kills, setting.workers, faults, generator, oblivious=options.get("oblivious", False))
        news = time.monotonic()
        while todo or soak.figures.kills.total() < kills:  # a worker may drain before its SIGKILL
            soak.end(todo.pop() if todo else Kind.RUNNING)
            if time.monotonic() > news + _NEWS_SECONDS:
                news = time.monotonic()
                now = f"{soak.figures.kills.total()} kills, {soak.made:,} batches, {len(todo)} times to go"
                print(f"{setting}: {now}", file=sys.stderr, flush=True)
        return soak.finish()


def table(setting: Setting, figures: Figures) -> str:
    """Return the figures, in lines."""
    kills = figures.kills.total()
    killed = ", ".join(f"{count} {kind.value}" for kind, count in figures.kills.most_common() if count)
    idle = figures.in_flight.count(0)
    rows = {
        "kills": f"{killed}; {figures.drained} more ended by SIGTERM in time",
        "in flight": f"{statistics.mean(figures.in_flight):.1f} requests at a kill of a worker that took any,"
        f" on average of {len(figures.in_flight)}; none at {idle} of them",
        "all workers dead": f"{figures.unanswered:,} batches without an answer, {figures.counted:,} of them"
        " counted all the same",
        "batches": f"{figures.batches:,}, all acknowledged; {figures.batches / figures.seconds:,.0f} a s",
        "sent again": f"{figures.replays:,} that were acknowledged, {figures.twins:,} twice at once;"
        f" {figures.lost:,} requests lost, {figures.busy:,} answered 503",
        "compared": f"{figures.looks} times with what was sent, each time with the store's own check",
    }
    if figures.crashes:
        crashed = ", ".join(f"{count} by {name}" for name, count in figures.crashes.most_common())
        rows["database"] = (
            f"crashed {crashed}, with {statistics.mean(figures.in_flight_at_crashes):.1f} requests in flight"
            f" on average; {figures.replies_lost} of its replies lost"
        )
    if figures.archived:
        rows["archive"] = (
            f"{figures.archived:,} batches in files, each once; with all workers dead {figures.waiting:,}"
            f" waited for one, and {figures.begun:,} files were begun"
        )
    first = f"{setting}: {kills} kills in {figures.seconds:.0f} s, nothing lost, nothing counted twice"
    return "\n".join([first, *(f"  {name:17}{what}" for name, what in rows.items())])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", choices=[*SETTINGS, "both"], default="both")
    parser.add_argument("--kills", type=int, default=200, help="for each number of workers")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--senders", type=int, help="requests at once; by default 48, or 24 of few workers")
    few = parser.add_mutually_exclusive_group()
    few.add_argument("--archive", action="store_true", help="have the workers write an archive")
    few.add_argument("--relays", action="store_true", help="send through relays, and kill them too")
    given = parser.parse_args()
    options = {"archive": given.archive, "oblivious": given.relays}
    settings = FEW if any(options.values()) else SETTINGS
    senders = given.senders or (48 if settings is SETTINGS else 24)
    chosen = chain(*(settings[store] for store in settings if given.store in (store, "both")))
    results = [passes(setting, given.kills, given.seed, senders, **options) for setting in chosen]
    sys.exit(0 if all(results) else 1)


def passes(setting: Setting, kills: int, seed: int, senders: int, **options: bool) -> bool:
    """Run a setting and print its figures; return whether all is right."""
    try:
        print(table(setting, run(setting, kills, seed, senders, **options)), flush=True)
    except (Violation, EndedError) as error:
        print(f"{setting}: VIOLATION\n{error}", flush=True)
        return False
    return True


if __name__ == "__main__":
    main()
