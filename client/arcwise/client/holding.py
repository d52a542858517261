"""Blocks that let go of what they hold whatever a signal handler raises, and whoever keeps what it raised.

A handler may raise at any call of a Python function, so also as `contextlib` enters or leaves a block. The
generator then stays suspended with its lock for as long as somebody keeps the exception: its traceback has
the frame of `__enter__` or `__exit__`, and that has the generator. Here no frame has it. The ``with``
statement alone does, in a place of the interpreter that no traceback shows, and lets go of it when it ends,
however it ends.
"""

from __future__ import annotations

from functools import partial, wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import TracebackType

    from typing_extensions import ParamSpec

    P = ParamSpec("P")

T = TypeVar("T")


def holding(function: Callable[P, Iterator[T]]) -> Callable[P, AbstractContextManager[T]]:
    """Make what `contextlib.contextmanager` makes, of a generator that swallows no exception."""

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
