"""Conversion of columns of numbers: numpy, pandas, Polars, Arrow, lists, single numbers.

None of these libraries is imported. An object is read through its methods, or through pyarrow if pyarrow is
installed and the object supports Arrow's C interface. Missing values (None, NaN, null, NA, masked) become
NaN, so an integer column with missing values keeps its other values, up to 2**53 exactly.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.checks import as_float, shown
from arcwise.errors import DomainError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.typing import FloatArray

_ADVICE = {
    "b": "if 0 and 1 are values, convert it to integers",
    "decimal": "convert it to floats: astype(float), cast(pl.Float64) or cast(pa.float64())",
    "list": "flatten it first; each of its numbers then becomes a separate report",
    "M": "extract the number that the task asks for, such as the hour of the day on Circle(24)",
    "m": "divide it by a unit, such as one minute, to get a number",
    "run_end": "decode it first, with pyarrow.compute.run_end_decode",
    "S": "parse the numbers first",
    "struct": "take the field of numbers out of it",
}
_ADVICE["U"] = _ADVICE["S"]
"""Advice for a column, by numpy's kind of its type, or by a word for types that numpy lacks."""


def read_column(values: Any, name: str = "values") -> FloatArray:
    """Return a column as an array of floats of the same shape, with NaN for missing values.

    The column is a number, None, a sequence (nested to any depth) of numbers and None, an array, or a column
    of pandas, Polars or Arrow (also chunked, nullable or dictionary-encoded). Raises `DomainError`, with
    advice, for a whole table and for everything that is not a number, such as booleans, strings, decimals and
    times.
    """
    if isinstance(values, np.ma.MaskedArray):
        numbers = np.array(_from_array(values.data, name))
        numbers[np.ma.getmaskarray(values)] = np.nan
        return numbers
    if isinstance(values, np.ndarray):
        return _from_array(values, name)
    if hasattr(type(values), "columns") or hasattr(type(values), "column_names"):
        raise DomainError(
            f'{name} must be one column, got a whole {type(values).__name__}: pass table["NAME"]'
        )
    if hasattr(values, "isna") and hasattr(values, "to_numpy") and hasattr(values, "dtype"):
        with _libraries_errors(values, name):
            return _from_pandas(values, name)
    if hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        try:
            import pyarrow
        except ImportError:
            pass  # such a column has __array__ too
        else:
            with _libraries_errors(values, name):
                return _from_arrow(pyarrow, values, name)
    if hasattr(values, "__next__"):
        raise DomainError(
            f"{name} must be a sequence or an array, got a {type(values).__name__}: pass list(...) of it"
        )
    try:
        array = np.asarray(values)
    except Exception:  # lists of unequal lengths, and errors of users' classes
        raise DomainError(f"{name} must be numbers; a {type(values).__name__} fails to convert") from None
    if not hasattr(values, "__array__") and array.dtype.kind in "fiu":
        array = _without_bools(values, array)
    return _from_array(array, name)


@contextmanager
def _libraries_errors(values: Any, name: str) -> Iterator[None]:
    """Replace a library's conversion error by advice."""
    try:
        yield
    except DomainError:
        raise
    except Exception:  # each library raises its own errors, and the message may contain a value
        words = f"a {type(values).__name__} of {getattr(values, 'dtype', 'unknown type')}"
        advice = "cast it to 64-bit integers or floats first"
        raise DomainError(f"{name} must be numbers, got {words}: {advice}") from None


def _from_array(array: Any, name: str) -> FloatArray:
    if array.dtype.kind in "fiu":
        numbers: FloatArray = array.astype(np.float64, copy=False)
        return numbers
    if array.dtype.kind == "O":
        return _from_objects(array, name)
    raise _refused(name, f"dtype {array.dtype}", array.dtype.kind)


def _without_bools(values: Any, array: Any) -> Any:
    """Return a list's items as objects if a bool is among them, since numpy turns bools into numbers."""
    objects = np.asarray(values, dtype=object)
    return array if {bool, np.bool_}.isdisjoint(map(type, objects.ravel().tolist())) else objects


def _from_objects(array: Any, name: str) -> FloatArray:
    items = array.ravel().tolist()
    numbers: list[float] = []
    for item in items:
        number = item if type(item) is float else _number(item)
        if number is None:
            raise _refused(name, f"{shown(item)} at index {len(numbers)}", _kind(item))
        numbers.append(number)
    shaped: FloatArray = np.array(numbers, np.float64).reshape(array.shape)
    return shaped


def _number(item: Any) -> float | None:
    """Return an object as a float, NaN if it marks a missing value; None if it is not a number."""
    if item is None or type(item).__name__ in {"NAType", "NaTType"}:  # the types of pandas
        return np.nan
    try:
        return as_float(item)
    except OverflowError:
        return np.inf if item > 0 else -np.inf  # outside every domain, like the number itself


def _kind(item: object) -> str:
    """Return an object's key in `_ADVICE`, or ""."""
    from datetime import date, time, timedelta
    from decimal import Decimal

    kinds: tuple[tuple[Any, str], ...] = (
        ((bool, np.bool_), "b"),
        (Decimal, "decimal"),
        ((date, time, np.datetime64), "M"),
        ((timedelta, np.timedelta64), "m"),
        ((str, bytes), "S"),
        ((list, tuple, np.ndarray), "list"),
    )
    return next((kind for types, kind in kinds if isinstance(item, types)), "")


def _from_pandas(values: Any, name: str) -> FloatArray:
    """Read a column of one of pandas' own types: nullable, categories, or Arrow's."""
    kind = getattr(values.dtype, "kind", "O")
    if kind not in "fiuO":
        raise _refused(name, f"dtype {values.dtype}", kind)
    if kind == "O" or isinstance(values.dtype, np.dtype):
        return _from_array(np.asarray(values), name)
    numbers: FloatArray = values.to_numpy(dtype=np.float64, na_value=np.nan)
    return numbers


def _from_arrow(pyarrow: Any, values: Any, name: str) -> FloatArray:
    types = pyarrow.types
    column = (
        pyarrow.chunked_array(values)
        if hasattr(values, "__arrow_c_stream__")
        else pyarrow.chunked_array([pyarrow.array(values)])
    )
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind)):
        reasons = {
            "run_end": types.is_run_end_encoded,
            "struct": types.is_struct,
            "b": types.is_boolean,
            "decimal": types.is_decimal,
            "M": lambda kind: types.is_timestamp(kind) or types.is_date(kind) or types.is_time(kind),
            "m": types.is_duration,
            "S": lambda kind: "string" in str(kind) or "binary" in str(kind),
            "list": lambda kind: "list" in str(kind),
        }
        reason = next((reason for reason, holds in reasons.items() if holds(kind)), "")
        raise _refused(name, f"a column of {kind}", reason)
    if kind != column.type:
        column = column.cast(kind)
    if types.is_null(kind):
        return np.full(len(column), np.nan)
    parts = [chunk.to_numpy(zero_copy_only=False).astype(np.float64, copy=False) for chunk in column.chunks]
    numbers: FloatArray = np.concatenate(parts) if parts else np.empty(0)
    return numbers


def _refused(name: str, found: str, kind: str) -> DomainError:
    advice = _ADVICE.get(kind)
    return DomainError(f"{name} must be numbers, got {found}{f': {advice}' if advice else ''}")
