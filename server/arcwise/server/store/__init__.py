"""Where counts are kept: an interface, its stores, and the writer that shares commits between requests."""

from __future__ import annotations

from pathlib import Path

from arcwise.errors import ParameterError
from arcwise.server.store.base import Outcome, Store
from arcwise.server.store.sqlite import SQLiteStore
from arcwise.server.store.writer import Busy, Writer

__all__ = ["Busy", "Outcome", "SQLiteStore", "Store", "Writer", "open_store"]


def open_store(url: str, *, create: bool = True) -> Store:
    """Open the store that a URL names: ``sqlite:///relative.db`` or ``sqlite:////absolute.db``.

    Parameters
    ----------
    url
        Which store.
    create
        Make the store when it does not exist; False: that is an error.

    Raises
    ------
    ParameterError
        When the URL names no store that this version has.
    StoreError
        When the store cannot be opened.
    """
    scheme, separator, path = url.partition(":///")
    if scheme != "sqlite" or not separator or not path or path == ":memory:":
        raise ParameterError(f"store must be sqlite:///FILE, got {url!r}")
    return SQLiteStore(Path(path), create=create)
