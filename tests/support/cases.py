"""The choice of cases that run every time, and of those that run only with the slow tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def mostly_slow(cases: Iterable[Any], *, every: int, ids: Callable[[Any], str] | None = None) -> list[Any]:
    """Return the cases with the mark `slow`, except the first of each `every`.

    A case that is a tuple holds a value for each of several arguments.
    """
    return [
        pytest.param(
            *(case if type(case) is tuple else (case,)),
            id=ids(case) if ids else None,
            marks=pytest.mark.slow if number % every else (),
        )
        for number, case in enumerate(cases)
    ]
