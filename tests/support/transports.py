"""The transport of a connection without a socket."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["Transport"]


class Transport(asyncio.Transport):
    """Keeps the written bytes; records how it ended, "closed" or "cut", and whether it is being read."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.ended = ""
        self.is_read = True

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("127.0.0.1", 8000) if name in ("sockname", "peername") else default

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return bool(self.ended)

    def close(self) -> None:
        self.ended = self.ended or "closed"

    def abort(self) -> None:
        self.ended = "cut"

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True
