"""Extras that a command needs: looked for before its work, which may take minutes."""

from __future__ import annotations

from importlib.util import find_spec

from arcwise.errors import MissingExtraError

__all__ = ["check_extra"]


def check_extra(extra: str, *modules: str) -> None:
    """Raise `MissingExtraError`, which names the command to install the extra, where it is not there."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"this needs {', '.join(missing)}, which the extra brings: pip install 'arcwise[{extra}]'"
        )
