"""New stores of every kind, over each of which the contract of stores runs, and the ways between them."""

from __future__ import annotations

import io
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from typing import TYPE_CHECKING, TypeAlias

from arcwise.server.store import Store, open_store
from arcwise.server.store.export import read_export, write_export
from tests.support.postgres import fresh_schema
from tests.support.store_samples import TASKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from arcwise.server.store.export import Record
    from arcwise.tasks import Task

__all__ = ["MOVES", "URLS", "Opener", "exported", "opened"]

Opener: TypeAlias = "Callable[[], AbstractContextManager[Store]]"

URLS: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "sqlite": lambda path: nullcontext(f"sqlite:///{path}.db"),
    "postgres": lambda _path: fresh_schema(),
}
"""By kind: lends the URL of a store that does not exist yet, at this path if it is a file."""


@contextmanager
def opened(url: str, tasks: Sequence[Task] = TASKS) -> Iterator[Store]:
    """Open a store with these tasks, and close it at the end."""
    with closing(open_store(url)) as store:
        store.register(tasks)
        yield store


def exported(records: Iterator[Record]) -> str:
    """Return the text of an export."""
    file = io.StringIO()
    write_export(file, records)
    return file.getvalue()


MOVES: dict[str, Callable[[Iterator[Record]], Iterator[Record]]] = {
    "directly": iter,
    "as a file": lambda records: read_export(io.StringIO(exported(records)), "export.jsonl"),
}
"""Ways in which the records of an export reach another store."""
