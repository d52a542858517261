"""Checks of arguments; the errors name the argument and its bounds."""

from __future__ import annotations

import math
from os import PathLike
from typing import TYPE_CHECKING

from arcwise.checks import did_you_mean, real_or_nan, shown
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable


def check_options(cls: type, given: Iterable[str], options: type) -> None:
    """Raise `TypeError` for the first keyword argument of `cls` that the typed dictionary `options` lacks."""
    for name in given:
        if name not in options.__annotations__:
            from inspect import signature  # slow to import, and needed only for an error

            own = [each.name for each in signature(cls).parameters.values() if each.kind is each.KEYWORD_ONLY]
            known = [*own, *options.__annotations__]
            hint = did_you_mean(name, known) or f"; it takes {', '.join(dict.fromkeys(known))}"
            raise TypeError(f"{cls.__name__}() has no option {name!r}{hint}")


def ledger_error(ledger: object) -> ParameterError:
    """Return the error for an argument that is not a ledger; the most common mistake is a path."""
    hint = f": give FileLedger({ledger!r})" if isinstance(ledger, (str, PathLike)) else ""
    if hasattr(ledger, "create_account"):
        hint = ": give the ledger of one account, ledgers.account(name)"
    return ParameterError(f"ledger must be None, a FileLedger or a MemoryLedger, got {shown(ledger)}{hint}")


def checked_integer(name: str, value: object, most: int) -> int:
    """Return the value if it is an integer from 1 to `most`, else raise `ParameterError`."""
    if type(value) is not int or not 1 <= value <= most:
        raise ParameterError(f"{name} must be an integer from 1 to {most}, got {value!r}")
    return value


def checked_number(name: str, value: object, *, above_zero: bool = False) -> float:
    """Return a finite number of at least 0 (or above 0) as a float, else raise `ParameterError`."""
    number = real_or_nan(value)
    if not math.isfinite(number):
        raise ParameterError(f"{name} must be a finite number, got {shown(value)}")
    if number < 0 or (above_zero and number == 0):
        raise ParameterError(f"{name} must be {'above' if above_zero else 'at least'} 0, got {value!r}")
    return number
