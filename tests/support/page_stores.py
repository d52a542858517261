"""Stores behind pages: tasks of every kind; none, one and a million reports; hostile words."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis.simulate import simulate_counts
from arcwise.domains import Circle, Interval
from arcwise.mechanisms import GaussianMechanism, SquareWave
from arcwise.server.access.keys import SCOPES, new_key
from arcwise.server.store import open_store
from arcwise.tasks import DAY, Group, Task
from arcwise.wire import Batch, code_width, pack_codes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

__all__ = ["HOSTILE", "MILLION", "Survey", "add_keys", "fill", "hostile_surveys", "surveys"]

MILLION = "commute"
"""The name of the task with a million reports."""

HOSTILE = (
    "<script>window.hacked=1</script>",
    "\"><img src=x onerror='window.hacked=1'>",
    "' onmouseover='window.hacked=1' onfocus='window.hacked=1",
    "</title></textarea></svg><svg onload=window.hacked=1>",
    "javascript:window.hacked=1",
    "{{ 7*7 }}{% print(1) %}${7*7}",
    "../../operator",
    "estimate?every=day#x&amp;",
    "%2e%2e%2f%00",
    "مدة الرحلة שלום",
    "W" * 64,
    "👩🚀 Ωß ﷽",
)
"""Names that tasks may have."""


class Survey(NamedTuple):
    """A task, the source of its devices' values in the older and in the newer epochs, and their number."""

    task: Task
    before: str = ""
    after: str = ""
    reports: int = 0
    epochs: int = 14
    closed: bool = False


def surveys() -> list[Survey]:
    """Return a survey of every kind of task, and those without reports, with one, and with a million."""
    salary, speed = Interval(0, 200), Interval(0, 180)
    vehicle = Group(
        "vehicle",
        [
            Task("vehicle speed", speed, epsilon=1.0, unit="km/h"),
            Task("vehicle heading", Circle(360), epsilon=1.0, unit="°"),
        ],
        sample=1,
    )
    words = "How long was your way to work today, from door to door?"
    commute = Task(MILLION, Interval(0, 120, clip=True), 1.0, description=words, unit="min")
    return [
        Survey(commute, "normal:38,14", "0.6*normal:38,12 + 0.4*normal:55,10", 1_000_000, 28),
        Survey(
            Task("heading", Circle(360), 1.0, description="Where does the rider look?", unit="°"),
            "0.6*vonmises:45,4 + 0.4*vonmises:140,8",
            "0.6*vonmises:45,4 + 0.4*vonmises:140,8",
            60_000,
        ),
        Survey(Task("score", Interval(0, 10, step=1), 1.0), "normal:7,2", "normal:7,2", 40_000),
        Survey(Task("departure", Circle(24), 1.0, unit="h"), "vonmises:8,3", "vonmises:8,3", 30_000),
        Survey(Task("hour of day", Circle(24, step=1), 2.0), "vonmises:20,2", "vonmises:20,2", 20_000),
        Survey(
            Task("single values", Interval(0, 100), 1.0, goal="value"), "normal:60,15", "normal:60,15", 9_000
        ),
        Survey(
            Task("salary", salary, 1.0, mechanism=GaussianMechanism(salary, 1.0, 1e-5), unit="k€"),
            "normal:60,20",
            "normal:60,20",
            50_000,
        ),
        Survey(
            Task("speed", speed, 1.0, mechanism=SquareWave(speed, 1.0), unit="km/h"),
            "normal:80,20",
            "normal:80,20",
            25_000,
        ),
        Survey(
            Task("load", Interval(0, 100), 1.0, epoch_seconds=3600, unit="%"), "beta:2,5", "beta:2,4", 30_000
        ),
        Survey(vehicle.tasks[0], "normal:90,25", "normal:90,25", 8_000),
        Survey(vehicle.tasks[1], "vonmises:200,1", "vonmises:200,1", 8_000),
        Survey(Task("winter", Interval(0, 10), 2.0), "normal:3,1", "normal:3,1", 5_000, closed=True),
        Survey(Task("one report", Interval(0, 1), 1.0), "normal:0.5,0.1", "normal:0.5,0.1", 1, 1),
        Survey(Task("no report", Circle(360), 1.0)),
    ]


def hostile_surveys() -> list[Survey]:
    """Return surveys with hostile words, and one with another task's id as its name."""
    made = [
        Survey(
            Task(name, Interval(0, 1), 1.0, unit=name[:20].strip(), description=(name * 200)[:200].strip()),
            "normal:0.4,0.1",
            "normal:0.4,0.1",
            3_000,
            3,
        )
        for name in HOSTILE
    ]
    return [*made, Survey(Task(made[0].task.id, Circle(360), 1.0))]


def fill(url: str, each: Iterable[Survey], *, now: float | None = None) -> list[Task]:
    """Make the tasks known to a store, count their reports there, and return the tasks.

    Parameters
    ----------
    url
        The URL of the store.
    each
        The surveys that it will hold; the last epoch is that of `now`.
    now
        Unix seconds; the machine's time unless given.
    """
    now = time.time() if now is None else now
    chosen = list(each)
    with closing(open_store(url)) as store:
        store.register(survey.task for survey in chosen)
        for number, survey in enumerate(chosen):
            store.add(_batches(survey, now, number))
            if survey.closed:
                store.close_task(survey.task.id, int(now) - DAY)
    return [survey.task for survey in chosen]


def _batches(survey: Survey, now: float, seed: int) -> Sequence[Batch]:
    """Return a batch for each epoch; their sizes differ a little."""
    if not survey.reports:
        return []
    task, epochs = survey.task, survey.epochs
    generator = np.random.default_rng(seed)
    width = code_width(task.mechanism.kernel.codes)
    share = 1.0 + 0.3 * np.sin(np.arange(epochs) * 2 * np.pi / 7)
    sizes = generator.multinomial(survey.reports, share / share.sum())
    batches = []
    for index, size in enumerate(sizes.tolist()):
        if size:
            population = survey.before if index < epochs / 2 else survey.after
            counts = simulate_counts(task, population, size, generator)
            codes = np.repeat(np.arange(counts.size), counts).tolist()
            epoch = task.epoch(now) - epochs + 1 + index
            batches.append(
                Batch(bytes.fromhex(task.id), generator.bytes(16), epoch, pack_codes(codes, width))
            )
    return batches


def add_keys(folder: Path, name: str = "server.db") -> dict[str, str]:
    """Give the store in a folder a key of every scope, and one that is revoked; return them."""
    keys = {}
    with closing(open_store(f"sqlite:///{folder / name}")) as store:
        for label in (*SCOPES, "revoked"):
            scope = label if label in SCOPES else "read"
            secret, stored = new_key(scope, label=label, now=time.time())
            store.add_key(stored)
            keys[label] = secret
            if label == "revoked":
                store.revoke_key(stored.id, int(time.time()))
    return keys
