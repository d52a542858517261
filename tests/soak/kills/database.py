"""A PostgreSQL that crashes and comes back, behind a proxy that loses replies."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from tests.support.postgres import wait_until_ready

if TYPE_CHECKING:
    from tests.soak.kills.proxy import LossyProxy
    from tests.support.postgres import OwnServer

__all__ = ["CrashingDatabase"]

_START_SECONDS = 60.0


class CrashingDatabase:
    """A server of `tests/support/postgres.py`, as a store has it: in a schema of its own.

    Parameters
    ----------
    server
        The server.
    url
        The store's URL, past the proxy.
    proxy
        What workers reach it through.
    """

    def __init__(self, server: OwnServer, url: str, proxy: LossyProxy) -> None:
        self._server = server
        self.proxy = proxy
        self._url = url

    def crash(self, how: signal.Signals) -> None:
        """End it by SIGQUIT, at once and without writing anything, or its first process by SIGKILL."""
        if how is signal.SIGQUIT:
            self._server.crash()
            return
        pid = self._server.pid
        os.kill(pid, signal.SIGKILL)
        while _runs(pid):
            time.sleep(0.01)

    def start(self) -> None:
        """Start it again, and wait until it takes connections."""
        until = time.monotonic() + _START_SECONDS
        while True:
            try:
                self._server.start()
                break
            except subprocess.SubprocessError:  # those that its first process left behind are ending
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)
        wait_until_ready(self._url, _START_SECONDS)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
