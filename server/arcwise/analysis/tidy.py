"""Results as one tidy table: a row for each number, in the same form for all kinds of results.

The rows are made from JSON objects, so the command line, a server and `to_frame` give the same rows.
"""

from __future__ import annotations

from datetime import datetime, timezone
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from arcwise.checks import explained, shown
from arcwise.errors import MissingExtraError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

COLUMNS = (
    "task",
    "start",
    "end",
    "n",
    "estimate",
    "value",
    "low",
    "high",
    "unit",
    "method",
    "level",
    "through_origin",
    "note",
)
"""The columns of the table, in order; docs/explanation/estimation.md explains them."""

FAMILIES = {"quantiles": "quantile", "shares": "share", "bins": "bin", "cdf": "cdf"}
"""Attributes and JSON keys that hold several values, and the name of one value."""

_COMPARISONS = ("difference", "reference")

_IN_UNIT = (
    "mean",
    "fitted_mean",
    "standard_deviation",
    "direction",
    "mode",
    "quantile",
)
"""Estimates in the unit of the values. The variance is in its square; all other estimates have no unit."""

_LIBRARIES = ("pandas", "polars")


@explained
def tidy_rows(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row for each number of a result, with a value for each of `COLUMNS`.

    Parameters
    ----------
    document
        The JSON object of an estimate, a time series or a comparison: from `to_dict`, from ``arcwise estimate
        --json``, or from a server.

    Yields
    ------
    dict
        `estimate` names the number: "mean", "quantile 0.5", "share 0:30", "bin 0:10" (from 0 to 10), "cdf 25"
        (of the band at 25), "cell 24.5:25.5" of the fitted distribution ("cell 25" for a value of a lattice).
        Names of a comparison begin with "difference" or "reference". Columns that do not apply are None.
    """
    unit, level = document.get("unit"), document.get("level")
    epochs = document.get("epochs", {})
    whole = {"start": epochs.get("start"), "end": epochs.get("end")}
    for part in document.get("points", [{**document, **whole}]):
        head = {"task": document["task"], **{key: part[key] for key in ("start", "end", "n")}, "level": level}
        for name, value in _values(part):
            row = dict.fromkeys(COLUMNS) | head | {key: value[key] for key in COLUMNS if key in value}
            through = value.get("through_origin", False)
            yield row | {"estimate": name, "unit": in_unit(name, unit), "through_origin": through}


def _values(part: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key, inner in part.items():
        if key in FAMILIES:
            yield from ((f"{prefix}{FAMILIES[key]} {name}", value) for name, value in inner.items())
        elif key in _COMPARISONS:
            yield from _values(inner, f"{prefix}{key} ")
        elif key == "distribution":
            yield from _cells(inner)
        elif key == "band":
            yield from _band(inner)
        elif key == "withheld" and inner:
            yield (
                f"{prefix}withheld",
                {"value": float(inner), "method": "reports of epochs that are not shown"},
            )
        elif key == "joined":
            for first, last in inner:
                yield "joined", {"low": float(first), "high": float(last), "method": "epochs of one block"}
        elif isinstance(inner, dict) and "value" in inner:
            yield prefix + key, inner


def _cells(distribution: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    said = {"method": distribution["method"], "note": distribution["note"]}
    edges = distribution["edges"]
    names = [f"{low:.15g}:{high:.15g}" for low, high in pairwise(edges)]
    if "values" in distribution:
        names = [f"{value:.15g}" for value in distribution["values"]]
    for name, share in zip(names, distribution["probabilities"], strict=True):
        yield f"cell {name}", {"value": share, **said}
    for name in ("fitted_mean", "modes"):
        if name in distribution:
            yield name, {"value": float(distribution[name]), **said}


def _band(band: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    said = {"method": band["method"], "note": band["note"]}
    for at, low, high in zip(band["at"], band["low"], band["high"], strict=True):
        yield f"cdf {at:.15g}", {"low": low, "high": high, **said}


def in_unit(name: str, unit: str | None) -> str | None:
    """Return the unit of an estimate of `tidy_rows`, by its name; None if it has none."""
    words = [word for word in name.split(" ") if word not in _COMPARISONS]
    if unit is not None and words[0] == "variance":
        return f"{unit}^2" if unit.isalnum() else f"({unit})^2"
    return unit if words[0] in _IN_UNIT else None


def frame(rows: Sequence[Mapping[str, Any]], library: str | None = None) -> Any:
    """Return rows of `tidy_rows` as a DataFrame, as described in `Shown.to_frame`; times are in UTC."""
    if library not in {None, *_LIBRARIES}:
        raise ParameterError(f"library must be pandas, polars or None, got {shown(library)}")
    wanted = _LIBRARIES if library is None else (library,)
    installed = next((name for name in wanted if find_spec(name) is not None), None)
    if installed is None:
        raise MissingExtraError(
            f"a table needs {' or '.join(wanted)}: " + " or ".join(f"pip install {name}" for name in wanted)
        )
    columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in COLUMNS}
    times = {name: list(_times(columns[name])) for name in ("start", "end")}
    numbers = {"n": int, **dict.fromkeys(("value", "low", "high", "level"), float), "through_origin": bool}
    if installed == "pandas":
        import pandas as pd

        made = {name: pd.Series(cells, dtype=numbers.get(name, object)) for name, cells in columns.items()}
        made |= {name: pd.Series(cells, dtype="datetime64[us, UTC]") for name, cells in times.items()}
        return pd.DataFrame(made)
    import polars as pl

    kinds: dict[type, Any] = {int: pl.Int64, float: pl.Float64, bool: pl.Boolean}
    schema: dict[str, Any] = {
        name: kinds[numbers[name]] if name in numbers else pl.String for name in COLUMNS
    }
    schema |= dict.fromkeys(times, pl.Datetime("us", "UTC"))
    return pl.DataFrame(columns | times, schema=schema)


def _times(texts: Iterable[str | None]) -> Iterator[datetime | None]:
    for text in texts:
        if text is None:
            yield None
            continue
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))  # Python 3.10 does not read the Z
        yield time if time.tzinfo else time.replace(tzinfo=timezone.utc)
