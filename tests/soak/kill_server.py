"""SIGKILLs of servers under load: each acknowledged report is counted exactly once, whatever dies when.

Real ``arcwise serve`` processes, on PostgreSQL four on four ports, with senders in a process of their own
that go to another worker when one is gone, as behind a proxy. Workers are killed while they serve, start or
drain, two or all at once; now and then PostgreSQL crashes, or a proxy before it loses its replies. Each batch
has codes of its own, so counts tell what became of it. Exits with 1 when anything is lost, counted twice, or
wrong with a store.

    python -m tests.soak.kill_server --store sqlite|postgresql|both --kills 200 --seed 7
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.soak.kills import CrashingDatabase, EndedError, Figures, Kind, LossyProxy, Soak, Violation, kinds
from tests.support.postgres import OwnServer, fresh_schema

_NEWS_SECONDS = 10.0
_KILLS_PER_FAULT = 10
"""Of the database: a crash, and a loss of replies."""


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


def run(setting: Setting, kills: int, seed: int, senders: int, **options: bool) -> Figures:
    """Kill workers so many times, and return how it went; `options` are those of `Soak`."""
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
        soak = stack.enter_context(
            Soak(
                folder,
                url,
                workers=setting.workers,
                senders=senders,
                seed=seed,
                database=database,
                **options,
            )
        )
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
    """Return how it went, in lines."""
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


def arguments(doc: str | None, *, kills: int, senders: int) -> argparse.Namespace:
    """Return the arguments of a command with these defaults; `stores` is what to run on."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--store", choices=[*SETTINGS, "both"], default="both")
    parser.add_argument("--kills", type=int, default=kills, help="for each number of workers")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--senders", type=int, default=senders, help="requests at once")
    given = parser.parse_args()
    given.stores = list(SETTINGS) if given.store == "both" else [given.store]
    return given


def main() -> None:
    given = arguments(__doc__, kills=200, senders=48)
    failed = [
        setting
        for store in given.stores
        for setting in SETTINGS[store]
        if not passes(setting, given.kills, given.seed, given.senders)
    ]
    sys.exit(1 if failed else 0)


def passes(setting: Setting, kills: int, seed: int, senders: int, **options: bool) -> bool:
    """Run a setting and print how it went; return whether all is right."""
    try:
        print(table(setting, run(setting, kills, seed, senders, **options)), flush=True)
    except (Violation, EndedError) as error:
        print(f"{setting}: VIOLATION\n{error}", flush=True)
        return False
    return True


if __name__ == "__main__":
    main()
