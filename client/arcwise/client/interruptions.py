"""What must be right whenever a process forks, and whatever a signal handler raises."""

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
    """The hooks of a fork that are registered together."""

    before: Callable[[], None]
    after: Callable[[], None]


def pause_for_forks(pauses: Callable[[], Iterable[Pause]]) -> Hooks:
    """Run generators up to their ``yield`` before each fork, and close them after it, in parent and child.

    So a child does not begin with half of what a process had begun. What is registered later runs earlier.

    Python runs the hooks of a fork, prints what they raise, and forks all the same. A signal handler may
    raise at any call in a hook, and every lock must be free afterwards all the same. So a generator holds
    each lock: it is suspended within ``with``, and lets go when it is closed or nobody refers to it any more.
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


def holding(function: Callable[P, Iterator[T]]) -> Callable[P, AbstractContextManager[T]]:
    """Make what `contextlib.contextmanager` makes, of a generator that swallows no exception.

    The block lets go of what it holds whatever a signal handler raises, and whoever keeps what it raised.

    A handler may raise at any call of a Python function, so also as `contextlib` enters or leaves a block.
    The generator then stays suspended with its lock for as long as somebody keeps the exception: its
    traceback has the frame of `__enter__` or `__exit__`, and that has the generator. Here no frame has it.
    The ``with`` statement alone does, in a place of the interpreter that no traceback shows, and lets go of
    it when it ends, however it ends.
    """

    @wraps(function)
    def block(*args: P.args, **kwargs: P.kwargs) -> Any:
        return _Block(function(*args, **kwargs))

    return block


class _Block:
    __slots__ = ("_enter", "_exit")

    # Both are C code for the interpreter, which looks for no signal before it has what they return.
    __enter__ = property(attrgetter("_enter"))
    __exit__ = property(attrgetter("_exit"))

    def __init__(self, generator: Any) -> None:
        self._enter = generator.__next__
        self._exit = _Exit(_leave, ref(generator))
        self._exit.generator = generator


class _Exit(partial[None]):
    """What a ``with`` statement keeps, and calls at its end."""

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
        error.__traceback__ = trace  # without the frames of the generator, as with contextlib
