"""Checks that an extra's libraries are installed, before work that may take minutes."""

from __future__ import annotations

from importlib.util import find_spec

from arcwise.errors import MissingExtraError


def check_extra(extra: str, *libraries: str, user: str = "this") -> None:
    """Raise `MissingExtraError`, which names the command that installs the extra, if a library is missing.

    `libraries` are names of packages, and `user` is the feature that needs them.
    """
    missing = [name for name in libraries if not installed(name)]
    if missing:
        raise MissingExtraError(f"{user} needs {', '.join(missing)}: pip install 'arcwise[{extra}]'")


def installed(library: str) -> bool:
    """Return whether the package of a library is installed, without importing it."""
    return find_spec(library) is not None
