"""Bounds of the tests, for those who refuse a question without loading what answers it."""

from __future__ import annotations

from typing import Final

MOST_CODES: Final = 2048
"""Of a task that can be tested: without short windows the time grows with their cube, to minutes at 1,600."""
