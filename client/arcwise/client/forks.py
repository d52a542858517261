"""What a process finishes before it forks, so that its child does not begin with half of it.

Python runs the hooks of a fork, prints what they raise, and forks all the same. A signal handler may raise
at any call in a hook, and every lock must be free afterwards all the same. So a generator holds each lock: it
is suspended within ``with``, and lets go when it is closed or nobody refers to it any more.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

Pause: TypeAlias = "Generator[None, None, None]"

_Living = TypeVar("_Living")

_ATTEMPTS = 100


class Hooks(NamedTuple):
    """The hooks of a fork that are registered together."""

    before: Callable[[], None]
    after: Callable[[], None]


def pause_for_forks(pauses: Callable[[], Iterable[Pause]]) -> Hooks:
    """Run generators up to their ``yield`` before each fork, and close them after it, in parent and child.

    What is registered later runs earlier.
    """
    lock = threading.Lock()
    all_held: list[Pause] = []

    def one_fork() -> Pause:
        """Let other threads wait with their forks."""
        with lock:
            yield

    def pause_all(held: list[Pause]) -> None:
        for some in (lambda: [one_fork()], pauses):
            for pause in some():
                held.append(pause)
                next(pause)

    def before() -> None:
        interruption = None
        held: list[Pause] = []
        for _ in range(_ATTEMPTS):
            try:
                while held:  # of an attempt that was interrupted, as its clean-up may be
                    held[-1].close()
                    held.pop()
                held = []  # what an earlier attempt raised keeps its own
                pause_all(held)
                all_held[:] = held
                break
            except BaseException as error:  # of a signal handler; raised below
                interruption = error
        held = []  # whoever keeps what is raised keeps this frame
        if interruption is not None:
            raise interruption

    # Not a Python function: a signal handler could raise when it is called, and nothing would be let go.
    after = all_held.clear
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=after, after_in_child=after)
    return Hooks(before, after)


def renew_in_children(living: Iterable[_Living], renew: Callable[[_Living], None]) -> None:
    """Let each of these that lives at a fork begin anew in the child."""

    def renew_all() -> None:
        for each in list(living):
            renew(each)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew_all)
