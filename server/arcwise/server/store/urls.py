"""URLs of stores without secrets, for logs, messages and pages."""

from __future__ import annotations

import re
from pathlib import Path

from arcwise.errors import ParameterError
from arcwise.urls import without_password

_LIKE_A_URL = re.compile(r"^\w{2,}(\+\w+)?(:|//)|@|password", re.IGNORECASE)
"""Matches text with a scheme of two or more letters (one letter is a drive), an "@", or "password"."""


def checked_path(text: str) -> str:
    """Return the path of a file; raise `ParameterError` if it looks like the mistyped URL of a database.

    The message does not repeat the text, because it may hold a password.
    """
    if _LIKE_A_URL.search(text) and not Path(text).exists():
        raise ParameterError(
            "this is not an existing file, and neither sqlite:///FILE nor postgresql://USER@HOST/DATABASE"
        )
    return text


def shown_url(url: str) -> str:
    """Return the URL of any store without secrets, or only its scheme if it cannot be parsed."""
    if url.startswith("sqlite:"):
        return url  # a path, which may look like a URL
    try:
        return without_password(url)
    except ValueError:
        return f"{url.partition('://')[0]}://..."
