"""The limit on open files: a connection takes one, and beyond the limit it waits."""

from __future__ import annotations

import logging
import sys

_OTHERS = 256
"""Those that are no connections: the store's, the log, libraries, the process of estimates."""

_log = logging.getLogger("arcwise.server")


def allow_files(connections: int) -> None:
    """Raise this process's limit on open files, often 1024, to what so many connections take.

    It goes no higher than the administrator lets it; the log says where that is too low.
    """
    if sys.platform == "win32":  # it has no such limit
        return
    import resource

    needed = connections + _OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    within = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (within, hard))
    if within < needed:
        _log.warning(
            "%d connections need %d open files, but the limit is %d: set max_connections lower or the limit "
            "(ulimit -n, LimitNOFILE) higher, or new ones will wait",
            connections,
            needed,
            within,
        )
