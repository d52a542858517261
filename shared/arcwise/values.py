"""Small immutable objects, without the modules that `dataclasses` loads (inspect, ast, tokenize)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_):
        """Leave a class unchanged where typing_extensions is missing."""
        return lambda cls: cls


@dataclass_transform(frozen_default=True)  # so that type checkers refuse assignments too
class Value:
    """Base of classes with immutable objects that are equal if their fields are equal.

    A subclass names its fields in ``__match_args__``, in the order of its constructor's arguments, and sets
    them in the constructor with `_set`. `__slots__` may hold more names, for attributes that are derived from
    the fields. Objects are compared, hashed, shown, matched, copied and pickled by their fields. A copy goes
    through the constructor, so an invalid object cannot be unpickled.

    Examples
    --------
    >>> class Span(Value):
    ...     __slots__ = __match_args__ = ("first", "last")
    ...
    ...     def __init__(self, first, last):
    ...         self._set(first=first, last=last)
    >>> Span(1, last=2)
    Span(first=1, last=2)
    >>> Span(1, 2) == Span(1, 2) != Span(1, 3)
    True
    >>> Span(1, 2).first = 0
    Traceback (most recent call last):
    AttributeError: a Span is immutable; cannot set 'first'
    """

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()

    def _set(self, **fields: object) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _key(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.__match_args__])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Value) or type(other) is not type(self):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"{type(self).__name__}({fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._key()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable; cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable; cannot delete {name!r}")
