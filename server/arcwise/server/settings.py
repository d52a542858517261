"""What a server is told: its tasks, its store and its limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Final

from arcwise.errors import ParameterError, TaskError
from arcwise.server.origins import checked_origins
from arcwise.server.store.writer import batch_bytes
from arcwise.tasks import Group, Task
from arcwise.tasks.files import load_json
from arcwise.wire import MAX_BODY_BYTES

__all__ = ["STORED_TASKS", "Settings", "load_tasks"]


class _Stored(tuple[Task, ...]):
    """No task of its own: an object to compare with, so that an empty list stays a mistake."""

    __slots__ = ()


STORED_TASKS: Final = _Stored()
"""Instead of tasks: serve those that the store has, and those that are made over HTTP."""


def load_tasks(directory: str | PathLike[str]) -> tuple[Task, ...]:
    """Read every ``*.json`` in a directory as a task or the tasks of a group, in the order of file names.

    A task that stands in several files, such as its own and that of its group, is one task.

    Raises
    ------
    TaskError
        When there is no such directory, no task in it, or a file that is neither.
    CertificateError
        When a task's kernel does not satisfy its epsilon.
    """
    folder = Path(directory)
    if not folder.is_dir():
        raise TaskError(f"{folder} is not a directory of task files; make one with `arcwise task new`")
    tasks = tuple(dict.fromkeys(task for path in sorted(folder.glob("*.json")) for task in _tasks_in(path)))
    if not tasks:
        raise TaskError(f"{folder} holds no task file (*.json); make one with `arcwise task new`")
    return tasks


def _tasks_in(path: Path) -> tuple[Task, ...]:
    def read(data: Any) -> tuple[Task, ...]:
        if isinstance(data, dict) and "arcwise_group" in data:
            return Group.from_json(data).tasks
        return (Task.from_json(data),)

    return load_json(path, read)


_BOUNDS = {
    "retention_days": (1, 36_500),
    "max_body_bytes": (1, MAX_BODY_BYTES),
    "max_waiting_bytes": (1, 1 << 40),
    "requests_per_minute_per_key": (0, 10**9),
    "requests_per_minute_per_address": (0, 10**9),
    "max_batch_codes": (1, MAX_BODY_BYTES),
    "min_reports": (0, 1 << 53),
    "min_reports_days": (1, 36_500),
    "max_reading_bytes": (1 << 20, 1 << 40),
}
"""The least and the largest value of each limit."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server is set up.

    Parameters
    ----------
    tasks
        The tasks that are served, or the directory that holds their files. Tasks that the store has already,
        and those that are made over HTTP, are served too: `STORED_TASKS`, the default, for these alone.
    store
        Where counts are kept: ``sqlite:///arcwise.db`` (relative to the working directory) or
        ``sqlite:////var/lib/arcwise/arcwise.db`` (absolute), or ``postgresql://user@host/database``.
    retention_days
        For how many days a batch is still taken, and its id remembered; later it gets 410. At least one
        epoch, whatever the task's period.
    max_body_bytes
        Largest request body that is read, at most 1 MiB.
    max_waiting_bytes
        Bytes of batches that may wait for the store, enough for the largest one; beyond that the server
        answers 503.
    allow_origins
        Origins such as "https://app.example" whose pages may report from a browser, ``["*"]`` for all; none
        unless given. Whoever is no browser may report either way.
    open
        True: everybody may report and read, without a key. False: nobody may. None, the default: without a
        key only requests from this machine to itself, and only while the store has never had a key. Managing
        tasks always takes an admin key. ``arcwise key new`` makes keys.
    requests_per_minute_per_key, requests_per_minute_per_address
        How many requests a key, an address (a /64 of IPv6) may make; more get 429. 0, the default: no limit.
        Behind a proxy all have its address, unless `arcwise serve` is told to trust it.
    max_batch_codes
        Most codes in a batch.
    min_reports
        Reports that an estimate must have to be shown, and the difference of any two. 0, the default: any
        number. Each report is private by itself, so this is no matter of privacy; intervals say how little a
        few of them tell.
    min_reports_days
        With `min_reports`: for how many days, from Mondays on, epochs are shown together; what has fewer
        reports is withheld. 7, the default, still shows something of a task with few reports a day; 1 shows
        each day that has enough.
    max_reading_bytes
        Bytes of bodies that may be on their way in at the same moment; beyond that the server answers 503.
    estimates_apart
        Compute estimates in a process of their own, so that readers cannot starve ingestion. It is spawned:
        a program that sets this must not start a server when it is merely imported. `arcwise serve` does.
    body_seconds
        Seconds within which a body must have come.

    Attributes
    ----------
    served
        The tasks, read from their files where a directory was given.
    origins
        The allowed origins.

    Raises
    ------
    ParameterError
        When a limit is not a positive integer, an origin is none, or two tasks share a name.
    TaskError, CertificateError
        When a directory of tasks does not hold valid task files.
    """

    tasks: Iterable[Task] | str | PathLike[str] = STORED_TASKS
    store: str = field(default="sqlite:///arcwise.db", repr=False)  # a URL may hold a password
    retention_days: int = 30
    max_body_bytes: int = MAX_BODY_BYTES
    max_waiting_bytes: int = 64 << 20
    allow_origins: Iterable[str] = ()
    open: bool | None = None
    requests_per_minute_per_key: int = 0
    requests_per_minute_per_address: int = 0
    max_batch_codes: int = MAX_BODY_BYTES
    max_reading_bytes: int = 64 << 20
    body_seconds: float = 30.0
    min_reports: int = 0
    min_reports_days: int = 7
    estimates_apart: bool = False
    served: tuple[Task, ...] = field(init=False, repr=False)
    origins: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name, (least, most) in _BOUNDS.items():
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise ParameterError(f"{name} must be an integer from {least} to {most}, got {value!r}")
        if self.max_waiting_bytes < batch_bytes(self.max_body_bytes):
            raise ParameterError(
                f"max_waiting_bytes must be at least max_body_bytes + {batch_bytes(0)}, here "
                f"{batch_bytes(self.max_body_bytes)}, or a batch of that size is never taken; "
                f"got {self.max_waiting_bytes}"
            )
        seconds = self.body_seconds
        if type(seconds) not in (int, float) or not 0 < seconds <= 3600:
            raise ParameterError(f"body_seconds must be above 0 and at most 3600, got {seconds!r}")
        if type(self.estimates_apart) is not bool:
            raise ParameterError(f"estimates_apart must be True or False, got {self.estimates_apart!r}")
        if self.open not in (True, False, None):
            raise ParameterError(f"open must be True, False or None, got {self.open!r}")
        tasks = self.tasks
        if not isinstance(tasks, (str, PathLike, Iterable)):
            raise ParameterError(f"tasks must be Task objects or a directory, got {tasks!r}")
        served = load_tasks(tasks) if isinstance(tasks, (str, PathLike)) else tuple(tasks)
        for task in served:
            if not isinstance(task, Task):
                raise ParameterError(f"tasks must be Task objects or a directory, got {task!r} among them")
        names = [task.name for task in served]
        if (not names and tasks is not STORED_TASKS) or len(set(names)) < len(names):
            raise ParameterError(f"tasks must be at least one, each with a name of its own; got {names}")
        object.__setattr__(self, "served", served)
        object.__setattr__(self, "origins", checked_origins(self.allow_origins))
