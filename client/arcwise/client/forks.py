"""What a process finishes before it forks, so that its child does not begin with half of it.

Python runs the hooks of a fork, prints what they raise, and forks all the same. A signal handler may raise
at any call in a hook, and every lock must be free afterwards all the same. So a generator holds each lock: it
is suspended within ``with``, and lets go when it is closed or nobody refers to it any more.
"""

from __future__ import annotations

import logging  # noqa: F401 (its hook holds a lock that imports need, so it must run after ours)
import os
import threading
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

Pause: TypeAlias = "Generator[None, None, None]"

_ATTEMPTS = 100
_all_pauses: list[Callable[[], Iterable[Pause]]] = []
_held: list[Pause] = []
_lock = threading.Lock()


def pause_for_forks(pauses: Callable[[], Iterable[Pause]]) -> None:
    """Run generators up to their ``yield`` before each fork, and close them after it, in parent and child."""
    _all_pauses.append(pauses)


def _one_fork() -> Pause:
    """Let other threads wait with their forks."""
    with _lock:
        yield


def _pause_all(held: list[Pause]) -> None:
    for pauses in (lambda: [_one_fork()], *_all_pauses):
        for pause in pauses():
            held.append(pause)
            next(pause)


def _before() -> None:
    interruption = None
    for _ in range(_ATTEMPTS):
        held: list[Pause] = []
        try:
            _pause_all(held)
            _held[:] = held
            break
        except BaseException as error:  # of a signal handler; raised below
            interruption = error
            while held:
                held.pop().close()
    held = []  # whoever keeps what is raised keeps this frame
    if interruption is not None:
        raise interruption


if hasattr(os, "register_at_fork"):
    # Not a Python function: a signal handler could raise when it is called, and nothing would be let go.
    os.register_at_fork(before=_before, after_in_parent=_held.clear, after_in_child=_held.clear)
