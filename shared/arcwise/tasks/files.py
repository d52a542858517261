"""Reading JSON files, with errors that name the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from arcwise.checks import shown
from arcwise.errors import CertificateError, TaskError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

T = TypeVar("T")

_MOST_CHARACTERS = 256 << 20
"""Limit of a file's size. Even the file of the largest possible group, with 256 tasks, is smaller."""


def each_once(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """Return a dict; raise `ValueError` for a repeated key, since readers may pick different values."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name appears twice in one object")
    return found


def load_json(path: str | os.PathLike[str], from_json: Callable[[Any], T]) -> T:
    """Return the result of `from_json` for the content of a JSON file.

    Raises `TaskError` if the file is invalid or cannot be read, `CertificateError` if a kernel in it does not
    satisfy its epsilon, and `FileNotFoundError` if there is no such file. The messages name the file.
    """
    import json
    from os import PathLike

    if not isinstance(path, (str, PathLike)):  # open() would take a number for an open file
        raise TaskError(f"path must be the path of a file, got {shown(path)}")
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 (devices load no pathlib)
            text = file.read(_MOST_CHARACTERS + 1)
        if len(text) > _MOST_CHARACTERS:
            raise TaskError("the file is too large for a task")
        return from_json(json.loads(text, object_pairs_hook=each_once))
    except CertificateError as error:
        raise CertificateError(f"{path}: {error}") from None
    except FileNotFoundError as error:
        words = f"{error.strerror}; `arcwise task new` and `arcwise group new` make such files"
        raise FileNotFoundError(error.errno, words, error.filename) from None
    except (IsADirectoryError, PermissionError) as error:  # Windows raises PermissionError for a folder
        raise TaskError(f"{path}: cannot be read: {error.strerror}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise TaskError(f"{path}: the file is not JSON in UTF-8: {error}") from error
    except (ValueError, ArithmeticError, RecursionError) as error:  # includes TaskError and deep nesting
        raise TaskError(f"{path}: {error}") from error
