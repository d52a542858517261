"""Checks of numbers and truth values in arguments. Errors name the argument, the bound and the value."""

from __future__ import annotations

import math
from functools import wraps
from numbers import Real
from operator import index
from typing import TYPE_CHECKING, TypeVar

from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def as_float(value: object) -> float | None:
    """Return a real number as a float, which may be infinite or NaN; None for anything else.

    The following are not numbers here: a bool; a numpy duration, although Python treats it as an integer; a
    number whose class fails to convert it. Raises `OverflowError` if the number is too large for a float.
    """
    if type(value) is float:
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        if getattr(getattr(value, "dtype", None), "kind", "f") not in "fiu":
            return None
        return float(value)
    except OverflowError:
        raise
    except Exception:  # a user's class may raise anything
        return None


def real_or_nan(value: object) -> float:
    """Return a real number as a float, infinite if it is too large for a float; NaN for anything else."""
    try:
        number = as_float(value)
    except OverflowError:  # an integer beyond the range of a float
        return math.inf
    return math.nan if number is None else number


def checked_bool(name: str, value: object) -> bool:
    """Return a truth value, Python's or numpy's, as a bool; raise `ParameterError` for anything else.

    Other objects are refused, because Python treats strings such as "no" and "false" as true.
    """
    if type(value) is bool:
        return value
    if getattr(getattr(value, "dtype", None), "kind", "") == "b" and getattr(value, "shape", None) == ():
        return bool(value)
    raise ParameterError(f"{name} must be True or False, got {shown(value)}")


def checked_real(
    name: str,
    value: object,
    *,
    least: float = -math.inf,
    most: float = math.inf,
    above: float = -math.inf,
    below: float = math.inf,
    advice: str = "",
) -> float:
    """Return a finite real number as a float; for anything else raise a `ParameterError` with `advice`.

    The number may equal `least` and `most`, but not `above` and `below`. -0.0 becomes 0.0, so that equal
    values have equal bytes.
    """
    number = value if type(value) is float else real_or_nan(value)  # the usual case is fast
    if least <= number <= most and above < number < below:  # false for NaN
        return number + 0.0
    bound = _bound(least, most, above, below)
    try:
        found = as_float(value)
    except OverflowError:
        raise ParameterError(
            f"{name} must be {bound}, got an integer beyond the range of a float{advice}"
        ) from None
    if found is None:
        bound = "" if bound == "finite" else f", {bound}"
        raise ParameterError(f"{name} must be a real number{bound}, got {shown(value)}{advice}")
    raise ParameterError(f"{name} must be {bound}, got {found!r}{advice}")


def checked_integer(
    name: str,
    value: object,
    least: int,
    most: int | None = None,
    *,
    advice: str = "",
    error: type[Exception] = ParameterError,
) -> int:
    """Return an integer, Python's or numpy's, of at least `least` and, if given, at most `most`.

    Raises `error` for anything else, with a message that ends in `advice`.
    """
    number = value if type(value) is int else _index(value)
    if number is None or number < least or (most is not None and number > most):
        bound = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise error(f"{name} must be an integer {bound}, got {shown(value)}{advice}")
    return number


def _index(value: object) -> int | None:
    """Return an integer such as numpy's as an int; None for a bool, a duration and anything else."""
    if isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "i") not in "iu":
        return None
    try:
        return index(value)  # type: ignore[arg-type]  # the call itself checks the type
    except Exception:  # a user's class may raise anything
        return None


def _bound(least: float, most: float, above: float, below: float) -> str:
    if -math.inf < least and most < math.inf:
        return f"from {least:.12g} to {most:.12g}"
    lower = f"more than {above:.12g}" if above > -math.inf else f"at least {least:.12g}"
    if below < math.inf or most < math.inf:
        return f"{lower} and " + (f"less than {below:.12g}" if below < math.inf else f"at most {most:.12g}")
    if above == 0:
        return "positive and finite"
    return "finite" if lower == "at least -inf" else f"finite and {lower}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question for the end of a message that suggests a similar known name; "" if none is similar.

    Examples
    --------
    >>> did_you_mean("batchsize", ["interval", "batch_size"])
    '; did you mean batch_size?'
    """
    from difflib import get_close_matches

    found = get_close_matches(name, known, n=1)
    return f"; did you mean {found[0]}?" if found else ""


_FunctionT = TypeVar("_FunctionT", bound="Callable[..., object]")


def explained(function: _FunctionT) -> _FunctionT:
    """Decorate a public function so that calls with wrong arguments raise a helpful `TypeError`.

    Python's own message is "Task.__init__() got an unexpected keyword argument". Only calls that raise a
    `TypeError` are inspected.

    Examples
    --------
    >>> @explained
    ... def plan(domain, *, epsilon=None, error=None):
    ...     pass
    >>> plan((0, 1), eror=0.5)
    Traceback (most recent call last):
    TypeError: plan() has no option 'eror'; did you mean error?
    """

    @wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # the arguments fit: the error comes from inside the call
            raise TypeError(_misfit(function, args, kwargs) or str(error)) from None

    return call  # type: ignore[return-value]


def _misfit(function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> str:
    """Return why a call's arguments do not fit, naming the public class or function; "" if unknown."""
    from inspect import signature  # slow to import, and needed only for errors

    takes = list(signature(function).parameters.values())
    name = function.__name__
    if takes and takes[0].name in ("self", "cls"):
        name, takes, args = type(args[0]).__name__ if name == "__init__" else name, takes[1:], args[1:]
    by_name = [each.name for each in takes if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)]
    by_place = [each.name for each in takes if each.kind is each.POSITIONAL_OR_KEYWORD]
    others = any(each.kind is each.VAR_KEYWORD for each in takes)
    unknown = next((each for each in kwargs if each not in by_name and not others), None)
    if unknown is not None:
        hint = did_you_mean(unknown, by_name) or f"; it takes {', '.join(by_name) or 'nothing'}"
        return f"{name}() has no option {unknown!r}{hint}"
    if len(args) > len(by_place):
        rest = ", ".join(each for each in by_name if each not in by_place)
        words = f"{name}() takes {', '.join(by_place) or 'nothing'} by position, got {len(args)} arguments"
        return words + (f"; give the others by name: {rest}" if rest else "")
    given = {*by_place[: len(args)], *kwargs}
    missing = [each.name for each in takes if each.default is each.empty and each.name in by_name]
    missing = [each for each in missing if each not in given]
    if missing:
        return f"{name}() needs {' and '.join(missing)}; it takes {', '.join(by_name)}"
    return ""


def shown(value: object) -> str:
    """Return ``repr(value)`` for a message, shortened if it is long; only the type if it cannot be shown.

    Examples
    --------
    >>> shown("7"), shown([10**5000])
    ("'7'", 'a list')
    >>> shown("a long story " * 100)
    "'a long story a long story a long story a...' of 1,300 characters"
    """
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return f"{value[: _LONGEST_TEXT // 2] + '...'!r} of {len(value):,} characters"
    try:
        text = repr(value)
    except Exception:  # such as an integer of too many digits, in a list
        return f"a {type(value).__name__}"
    if "\n" in text:  # such as an array of many numbers
        return f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST_REPR else f"{text[:_LONGEST_REPR]}..."


_LONGEST_TEXT = 80
_LONGEST_REPR = 1000
