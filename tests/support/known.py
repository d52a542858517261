"""Results that a test knows to exist, without a None for the type checker."""

from __future__ import annotations

from typing import TypeVar, cast

from arcwise.analysis import Value

__all__ = ["Bounded", "Known", "bounded", "ends", "known", "there", "width"]

Part = TypeVar("Part")


class Bounded(Value):
    """A value that has an interval."""

    low: float
    high: float


class Known(Bounded):
    """A value that has a number and an interval."""

    value: float


def there(part: Part | None) -> Part:
    """Return a part of a result, which must exist."""
    assert part is not None
    return part


def bounded(value: Value | None) -> Bounded:
    """Return a value, which must have an interval."""
    assert None not in (there(value).low, there(value).high), value
    return cast("Bounded", value)


def known(value: Value | None) -> Known:
    """Return a value, which must have a number and an interval."""
    assert bounded(value).value is not None, value
    return cast("Known", value)


def ends(value: Value | None) -> tuple[float, float]:
    return bounded(value).low, bounded(value).high


def width(value: Value | None) -> float:
    return bounded(value).high - bounded(value).low
