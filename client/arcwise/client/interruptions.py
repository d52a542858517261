"""Helpers that keep locks and state correct across forks and exceptions of signal handlers."""

from __future__ import annotations

import os
import threading
from functools import partial, wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from contextlib import AbstractContextManager
    from types import TracebackType

    from typing_extensions import ParamSpec

    P = ParamSpec("P")


Pause: TypeAlias = "Generator[None, None, None]"

T = TypeVar("T")
_Living = TypeVar("_Living")

_ATTEMPTS = 100


class Hooks(NamedTuple):
    """The fork hooks of one registration."""

    before: Callable[[], None]
    after: Callable[[], None]


def pause_for_forks(pauses: Callable[[], Iterable[Pause]]) -> Hooks:
    """Run generators up to their ``yield`` before each fork, and close them after it, in parent and child.

    So a child does not begin with a half-finished operation of its parent. The last registration runs first.

    Python runs the fork hooks, prints their exceptions, and forks all the same. A signal handler may raise at
    any call in a hook, and every lock must still be free afterwards. So each lock is held by a generator that
    is suspended within ``with``. It releases the lock when it is closed or no longer referenced.
    """
    lock = threading.Lock()
    all_held: list[Pause] = []

    def one_fork() -> Pause:
        """Make other threads wait before they fork."""
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
                while held:  # from an interrupted attempt; this clean-up may be interrupted too
                    held[-1].close()
                    held.pop()
                held = []  # an exception of an earlier attempt keeps that attempt's list
                pause_all(held)
                all_held[:] = held
                break
            except BaseException as error:  # from a signal handler; raised below
                interruption = error
        held = []  # a kept exception would keep this frame alive
        if interruption is not None:
            raise interruption

    # Not a Python function: a signal handler could raise when it is called, and no lock would be released.
    after = all_held.clear
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=after, after_in_child=after)
    return Hooks(before, after)


def renew_in_children(living: Iterable[_Living], renew: Callable[[_Living], None]) -> None:
    """Call `renew` in each forked child for every object that is alive at the fork."""

    def renew_all() -> None:
        for each in list(living):
            renew(each)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew_all)


def holding(function: Callable[P, Iterator[T]]) -> Callable[P, AbstractContextManager[T]]:
    """Act like `contextlib.contextmanager`, for a generator that swallows no exception.

    The block releases its locks even if a signal handler raises and the exception is kept.

    A handler may raise at any call of a Python function, also while `contextlib` enters or leaves a block.
    The exception's traceback then keeps the frame of `__enter__` or `__exit__`, and the frame keeps the
    generator suspended with its lock for as long as the exception exists. Here no frame refers to the
    generator. Only the ``with`` statement does, inside the interpreter, where no traceback refers to it. The
    statement drops this reference in every case when the block ends.
    """

    @wraps(function)
    def block(*args: P.args, **kwargs: P.kwargs) -> Any:
        return _Block(function(*args, **kwargs))

    return block


class _Block:
    __slots__ = ("_enter", "_exit")

    # Both properties are C code, so the interpreter handles no signal before it has their results.
    __enter__ = property(attrgetter("_enter"))
    __exit__ = property(attrgetter("_exit"))

    def __init__(self, generator: Any) -> None:
        self._enter = generator.__next__
        self._exit = _Exit(_leave, ref(generator))
        self._exit.generator = generator


class _Exit(partial[None]):
    """The exit function that a ``with`` statement keeps and calls at its end."""

    __slots__ = ("generator",)

    generator: object


def _leave(
    generator: Callable[[], Any], _: object, error: BaseException | None, trace: TracebackType | None
) -> None:
    try:
        if error is None:
            next(generator(), None)
        else:
            generator().throw(error)
    except BaseException as raised:
        if raised is not error:
            raise
        error.__traceback__ = trace  # without the generator's frames, as in contextlib
