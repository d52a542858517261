"""Waiting on an event loop for what other threads bring about."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["until"]


async def until(condition: Callable[[], object]) -> None:
    """Let the loop go on until a condition holds, for ten seconds at most."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen within ten seconds")
