"""URLs of stores without what is secret in them, for logs, messages and pages."""

from __future__ import annotations

import re
from pathlib import Path

from arcwise.errors import ParameterError
from arcwise.urls import without_password

_LIKE_A_URL = re.compile(r"^\w{2,}(\+\w+)?(:|//)|@|password", re.IGNORECASE)
"""What begins with a scheme, of more than the letter of a drive, or has what comes before a host."""


def checked_path(text: str) -> str:
    """Return the path of a file; raise `ParameterError` where it is rather a mistyped URL, of a database.

    The message does not hold it, because it may have a password.
    """
    if _LIKE_A_URL.search(text) and not Path(text).exists():
        raise ParameterError(
            "this is neither a file that exists nor sqlite:///FILE nor postgresql://USER@HOST/DATABASE"
        )
    return text


def shown_url(url: str) -> str:
    """Return the URL of any store without secrets; only its scheme where it cannot be taken apart."""
    if url.startswith("sqlite:"):
        return url  # a path, which may look like anything
    try:
        return without_password(url)
    except ValueError:
        return f"{url.partition('://')[0]}://..."
