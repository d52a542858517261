"""The first lines of the log of `arcwise serve`: what is served, from which store, and where."""

from __future__ import annotations

import logging
import platform
from typing import TYPE_CHECKING

from arcwise.server.keys import SCOPES
from arcwise.server.store.urls import shown_url
from arcwise.version import __version__

if TYPE_CHECKING:
    from arcwise.server.runtime import Runtime
    from arcwise.server.settings import Settings

_MOST_TASKS = 20
_ID_DIGITS = 8

_log = logging.getLogger("arcwise.server")


def log_start(runtime: Runtime, settings: Settings, url: str) -> None:
    """Log the store, the tasks, the keys and the addresses of a server that has just started.

    Each line is logged from a place of its own, because `SparingHandler` writes only one line a minute from
    each place. Secrets in the store's URL are left out.
    """
    _log.info("arcwise %s on Python %s", __version__, platform.python_version())
    _log.info("store: %s, %s bytes", shown_url(settings.store), f"{runtime.store_bytes:,.0f}")
    _log.info("tasks: %s", _tasks(runtime))
    _log.info("keys: %s", _keys(runtime))
    _log.info("listening on %s", url)
    _log.info("dashboard: %s/", settings.public_url or _of_this_machine(url))


def _tasks(runtime: Runtime) -> str:
    tasks, closed = runtime.catalogue.tasks, runtime.catalogue.closed
    # Open ones first: of many, those are what is left out last.
    ids = sorted(tasks, key=lambda task_id: task_id in closed)
    words = [
        f"{tasks[task_id].name} ({task_id[:_ID_DIGITS]}{', closed' if task_id in closed else ''})"
        for task_id in ids[:_MOST_TASKS]
    ]
    left_out = len(ids) - len(words)
    return ", ".join(words) + (f" and {left_out:,} more" if left_out else "") or "none"


def _keys(runtime: Runtime) -> str:
    number = runtime.keys_by_scope
    words = [f"{number[scope]} {scope}" for scope in SCOPES if number[scope]]
    return ", ".join(words) or "none"


def _of_this_machine(url: str) -> str:
    """Return a URL that a browser on this machine can open, for a server on all addresses."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
