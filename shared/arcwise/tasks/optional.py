"""The optional ninth item of a task: a map of the optional fields that are set.

A reader refuses a task with an unknown key, so it never mistakes one task for another. A new key needs a line
in `OPTIONAL`, and an argument and an attribute of `Task` with its name.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from arcwise.checks import checked_integer, shown
from arcwise.errors import TaskError
from arcwise.tasks.caps import MAX_PERIOD, SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_NAME: Final = 64
"""The largest number of characters of a task's name."""

_PARTS: Final = 4
"""NFC combines at most this many characters into one, so a longer text stays too long."""

_NOT_PRINTABLE: Final = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Zs")
"""The Unicode categories of characters that a text may not contain, except the space."""


def normalised(text: str, *, most: int) -> str | None:
    """Return a text in NFC; None if its length alone shows that it has more than `most` characters.

    The length is checked first, because normalising combining marks takes time quadratic in their number.
    """
    if text.isascii():
        return text  # already in NFC
    if len(text) > _PARTS * most:
        return None
    import unicodedata  # imported only for texts that are not ASCII

    return unicodedata.normalize("NFC", text)


def _is_printable(text: str) -> bool:
    """Return whether a text is printable as the protocol defines it.

    `str.isprintable` also refuses characters that are newer than this Python, so a task that one version
    accepts would be refused by another.
    """
    if text.isprintable():
        return True
    import unicodedata  # imported only for texts that are refused, or newer than the interpreter

    return all(each == " " or unicodedata.category(each) not in _NOT_PRINTABLE for each in text)


def checked_text(text: object, name: str, *, most: int) -> str:
    """Return a text in NFC; raises `TaskError` unless it is 1 to `most` printable characters."""
    if not isinstance(text, str):
        raise TaskError(f"{name} must be a string, got {shown(text)}")
    normal = normalised(text, most=most)
    if normal is None or not (
        1 <= len(normal) <= most and _is_printable(normal) and normal == normal.strip()
    ):
        raise TaskError(
            f"{name} must be 1 to {most} printable characters without outer spaces, got {shown(text)}"
        )
    return normal


def check_known(**texts: str | None) -> None:
    """Raise `TaskError` if a text of a new task has a character that this Python does not know.

    A later version of Unicode may order such characters otherwise or not print them, and refuse the task.
    """
    for name, text in texts.items():
        if text is not None and not text.isprintable():
            raise TaskError(
                f"{name} has a character that is newer than this Python: leave it out, or make the task with "
                f"a newer Python; got {shown(text)}"
            )


def _checked_lateness(value: object, name: str) -> int:
    return checked_integer(name, value, 0, MAX_PERIOD, advice=SECONDS, error=TaskError)


def _checked_central(value: object, name: str) -> Any:
    from arcwise.tasks.central import checked_central  # imported only for tasks with a statement

    return checked_central(value, name)


def _checked_release(value: object, name: str) -> str:
    from arcwise.tasks.central import checked_release

    return checked_release(value, name)


OPTIONAL: Final[dict[str, Callable[[object, str], Any]]] = {
    "central": _checked_central,
    "description": partial(checked_text, most=200),
    "lateness_seconds": _checked_lateness,
    "release": _checked_release,
    "unit": partial(checked_text, most=20),
}
"""For each key, a function of its value and its name: it returns the attribute or raises `TaskError`. Bytes
and JSON hold the attribute, or the result of its `to_fields`."""


def checked_optional(given: Mapping[str, object]) -> dict[str, Any]:
    """Return the values of all keys as attributes of a task, with None for missing keys."""
    return {
        key: None if (value := given.get(key)) is None else check(value, key)
        for key, check in OPTIONAL.items()
    }


def optional_to_fields(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the items after the eighth: one map with sorted keys, or nothing if no value is set."""
    said = {
        key: value.to_fields() if hasattr(value, "to_fields") else value
        for key, value in sorted(values.items())
        if value is not None
    }
    return [said] if said else []


def optional_from_fields(items: list[Any]) -> dict[str, Any]:
    """Return the map after a task's eighth item, or an empty map; only values of None are refused here.

    Raises `TaskError` if the map is empty, is not the only further item, or has an unknown key.
    """
    if not items:
        return {}
    if len(items) > 1 or not isinstance(items[0], dict) or not items[0]:
        raise TaskError("after its eighth item a task may have one map that is not empty, and nothing else")
    said: dict[str, Any] = items[0]
    for key, value in said.items():
        if key not in OPTIONAL:
            raise TaskError(
                f"the key {key!r} of a task is not known to this arcwise, which knows {', '.join(OPTIONAL)}: "
                "read the task with a later version"
            )
        if value is None:
            raise TaskError(f"{key} must have a value, or be left out of the task; got none")
    return said


def optional_from_json(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the items after the eighth of a task, read from its JSON object.

    An unknown key is ignored here. The id of the task then differs from the id in the file.
    """
    said = {key: data[key] for key in sorted(OPTIONAL) if key in data}
    return [said] if said else []
