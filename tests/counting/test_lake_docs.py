"""docs/howto/lake.md names what can be counted and what is not."""

from __future__ import annotations

from pathlib import Path

from arcwise.analysis.counting.rules import REASONS
from arcwise.analysis.counting.sources import LAYOUTS

TEXT = (Path(__file__).parents[2] / "docs" / "howto" / "lake.md").read_text("utf-8")


def test_the_page_names_every_column_and_reason() -> None:
    for name in (*REASONS.values(), *(column for columns in LAYOUTS.values() for column in columns)):
        assert f"`{name}`" in TEXT
