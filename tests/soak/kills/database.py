"""A PostgreSQL that crashes and comes back, behind a proxy that loses replies.

If the reply to a commit is lost, the worker does not learn of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import random
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import uvloop
from psycopg.conninfo import conninfo_to_dict

from tests.support.postgres import wait_until_ready

if TYPE_CHECKING:
    from ctypes import c_uint64
    from multiprocessing.connection import Connection

    from tests.support.postgres import OwnServer


_SPAWN = multiprocessing.get_context("spawn")
_START_SECONDS = 60.0
_LOSE_SECONDS = 60.0


class CrashingDatabase:
    """A server of a store in a separate schema; `url` bypasses the proxy that workers use."""

    def __init__(self, server: OwnServer, url: str, proxy: LossyProxy) -> None:
        self._server = server
        self.proxy = proxy
        self._url = url

    def crash(self, how: signal.Signals) -> None:
        """End it immediately by SIGQUIT, without writing anything, or its first process by SIGKILL."""
        if how is signal.SIGQUIT:
            self._server.crash()
            return
        pid = self._server.pid
        os.kill(pid, signal.SIGKILL)
        while _runs(pid):
            time.sleep(0.01)

    def start(self) -> None:
        """Start it again, and wait until it accepts connections."""
        until = time.monotonic() + _START_SECONDS
        while True:
            try:
                self._server.start()
                break
            # Processes that its first process left behind are ending, or it recovers for more than ten
            # seconds.
            except (subprocess.SubprocessError, AssertionError):
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


class LossyProxy:
    """A process that forwards everything, until asked to lose one reply of several; while entered.

    Its `url` is that of the same store behind the proxy.
    """

    def __init__(self, url: str, *, among: int = 4) -> None:
        stated = conninfo_to_dict(url)
        host, port = str(stated.get("host") or "127.0.0.1"), int(stated.get("port") or 5432)
        self._asked = _SPAWN.Value("Q", 0, lock=False)
        self._lost = _SPAWN.Value("Q", 0, lock=False)
        self._down = _SPAWN.Value("Q", 0, lock=False)
        receiver, sender = _SPAWN.Pipe(duplex=False)
        arguments = (host, port, among, self._asked, self._lost, self._down, sender)
        self._process = _SPAWN.Process(target=_pass_on, args=arguments, daemon=True)
        self._process.start()
        sender.close()
        parts = urlsplit(url)
        query = "&".join(part for part in parts.query.split("&") if not part.startswith(("host=", "port=")))
        user = f"{stated['user']}@" if "user" in stated else ""
        self.url = parts._replace(netloc=f"{user}127.0.0.1:{receiver.recv()}", query=query).geturl()
        receiver.close()

    def __enter__(self) -> LossyProxy:
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.kill()
        self._process.join()

    @property
    def lost(self) -> int:
        """Return the number of lost replies so far."""
        return int(self._lost.value)

    def take_down(self, down: bool = True) -> None:
        """Refuse new connections, or accept them again."""
        self._down.value = down

    def lose_next(self) -> None:
        """Lose one of the next replies on every existing connection, and the connection.

        The reply is drawn at random: in a transaction of several statements, it can be any of them.
        """
        self._asked.value += 1

    def lose(self, count: int) -> None:
        """Lose replies, and wait until this many are lost."""
        until = time.monotonic() + _LOSE_SECONDS
        enough = self.lost + count
        self.lose_next()
        while self.lost < enough:
            assert time.monotonic() < until, "too few connections are in use"
            time.sleep(0.005)


def _pass_on(
    host: str, port: int, among: int, asked: c_uint64, lost: c_uint64, down: c_uint64, told: Connection
) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()

    async def connected(client_reader: asyncio.StreamReader, client_writer: asyncio.StreamWriter) -> None:
        born = asked.value
        if down.value:
            client_writer.close()
            return
        try:
            if host.startswith("/"):
                reader, writer = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
            else:
                reader, writer = await asyncio.open_connection(host, port)
        except OSError:  # it has crashed
            client_writer.close()
            return

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, replies: bool) -> None:
            to_pass = random.randrange(among)
            with contextlib.suppress(OSError):
                while data := await source.read(1 << 16):
                    # The rows and the end of a short statement come together, once it is committed.
                    if replies and asked.value != born:
                        to_pass -= 1
                        if to_pass < 0:
                            lost.value += 1
                            break
                    sink.write(data)
                    await sink.drain()
            writer.close()
            client_writer.close()

        await asyncio.gather(
            pump(client_reader, writer, replies=False), pump(reader, client_writer, replies=True)
        )

    async def serve() -> None:
        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(serve())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
