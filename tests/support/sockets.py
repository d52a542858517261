"""Raw connections to a server, and the memory of its process, for tests of limits."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["PATIENCE", "connect", "memory", "peak_memory", "rest"]

PATIENCE = 60.0
"""Seconds after which a test that waits for a server fails."""


def connect(url: str, *, receive_buffer: int | None = None) -> socket.socket:
    """Connect to the server of a URL; with a small receive buffer, answers wait at the server."""
    parts = urlsplit(url)
    connection = socket.socket()
    connection.settimeout(PATIENCE)
    if receive_buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.connect((parts.hostname or "", parts.port or 0))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def rest(connection: socket.socket) -> bytes:
    """Return the data that comes before the server closes; fail if it does not close."""
    received = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            received += part
    return bytes(received)


def memory(pid: int) -> int:
    """Return the current memory of a process in bytes."""
    return _status(pid, "VmRSS")


def peak_memory(pid: int) -> int:
    """Return the peak memory of a process in bytes."""
    return _status(pid, "VmHWM")


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {name}")
