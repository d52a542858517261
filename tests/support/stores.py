"""A new store of every kind: the contract of stores runs over each of them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from tests.support.postgres import fresh_schema

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["URLS"]

URLS: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "sqlite": lambda path: nullcontext(f"sqlite:///{path}.db"),
    "postgres": lambda _path: fresh_schema(),
}
"""By kind: lends the URL of a store that does not exist yet, at this path where it is a file."""
