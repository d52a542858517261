"""Which task of a store an argument names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arcwise.server.store import StoredTask


def named_task(stored: Iterable[StoredTask], text: str, argument: str) -> StoredTask | None:
    """Return the task of a store with this name or id; None where there is none.

    Raises
    ------
    ParameterError
        When several tasks have the name; the message names the argument and the ids.
    """
    found = [each for each in stored if text in (each.task.name, each.task.id)]
    if len(found) > 1:
        raise ParameterError(
            f"{argument} must name one task, but {len(found)} have the name {text!r}: give an id, one of "
            f"{', '.join(sorted(each.task.id for each in found))}"
        )
    return found[0] if found else None
