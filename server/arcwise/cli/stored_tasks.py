"""Which task of a store an argument names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arcwise.server.store import StoredTask


def named_task(stored: Iterable[StoredTask], text: str, argument: str) -> StoredTask | None:
    """Return the task of a store with this name or id, or None where there is none.

    Raises `ParameterError`, with the argument and the ids, when several tasks have the name.
    """
    found = [each for each in stored if text in (each.task.name, each.task.id)]
    if len(found) > 1:
        raise ParameterError(
            f"{argument} must name one task, but {len(found)} have the name {text!r}: give an id, one of "
            f"{', '.join(sorted(each.task.id for each in found))}"
        )
    return found[0] if found else None
