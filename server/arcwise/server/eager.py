"""Awaitables that start at once, so that what never waits needs no deadline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Generator

_Result = TypeVar("_Result")


class Eager(Generic[_Result]):
    """An awaitable that has already run to its first wait; await it to continue from there.

    Make it in the task that will await it. An exception raised before the first wait is raised here. A timer
    costs several microseconds of event loop, and a request that came in one piece never waits: `is_done` says
    whether a timer is needed.
    """

    def __init__(self, awaitable: Awaitable[_Result]) -> None:
        self._steps: Generator[Any, None, _Result] = awaitable.__await__()
        self._result: list[_Result] = []
        try:
            self._waits_for = next(self._steps)
        except StopIteration as end:
            self._result.append(end.value)

    @property
    def is_done(self) -> bool:
        """Whether it ended without waiting."""
        return bool(self._result)

    def __await__(self) -> Generator[Any, None, _Result]:
        if self._result:
            return self._result[0]
        try:
            yield self._waits_for
        except GeneratorExit:
            self._steps.close()
            raise
        except BaseException as error:  # cancelled: pass it on, and wait once more if asked to
            try:
                self._waits_for = self._steps.throw(error)
            except StopIteration as end:
                value: _Result = end.value
                return value
            return (yield from self.__await__())
        return (yield from self._steps)
