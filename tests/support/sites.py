"""Running servers for tests of pages."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.page_stores import add_keys, fill
from tests.support.server_processes import serving

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from arcwise.tasks import Task
    from tests.support.page_stores import Survey

__all__ = ["Site", "running"]


@dataclass(frozen=True)
class Site:
    """A running server.

    Attributes
    ----------
    url
        Without a slash at its end.
    folder
        The folder of its store, server.db.
    tasks
        Its tasks by name.
    keys
        Its keys by scope, and "revoked"; empty if it serves this machine without keys.
    """

    url: str
    folder: Path
    tasks: dict[str, Task]
    keys: dict[str, str]

    @property
    def store(self) -> str:
        """The URL of its store."""
        return f"sqlite:///{self.folder / 'server.db'}"

    def page(self, name: str, rest: str = "") -> str:
        """Return the URL of a task's page."""
        return f"{self.url}/tasks/{self.tasks[name].id}{rest}"


@contextmanager
def running(folder: Path, each: Iterable[Survey], *options: str, keys: bool = False) -> Iterator[Site]:
    """Run a server with these surveys."""
    tasks = {task.name: task for task in fill(f"sqlite:///{folder / 'server.db'}", each)}
    secrets = add_keys(folder) if keys else {}
    with serving(folder, *options, files=False) as (url, _):
        yield Site(url, folder, tasks, secrets)
