"""Who holds a ledger: a call that is running, or one that an exception has ended before it could let go.

A signal handler may raise at any line, also at one that is about to take or to give back. What such a call
holds would be held for as long as somebody keeps the exception. So a holder is a frame: one that no thread
runs any more holds nothing.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["Holder"]

_GENERATOR = 0x20
"""`inspect.CO_GENERATOR`; devices do not load `inspect`."""


class Holder(NamedTuple):
    """A function that has opened a transaction, and the thread that runs it."""

    thread: int
    frame: FrameType

    @classmethod
    def here(cls) -> Holder:
        """Return who called, through context managers that are generators."""
        frame = sys._getframe(1)
        while frame.f_back is not None and (
            frame.f_code.co_flags & _GENERATOR or frame.f_code.co_filename == contextlib.__file__
        ):
            frame = frame.f_back
        return cls(threading.get_ident(), frame)

    def is_running(self) -> bool:
        """Return whether its thread still runs it."""
        frame = sys._current_frames().get(self.thread)
        while frame is not None and frame is not self.frame:
            frame = frame.f_back
        return frame is not None
