"""Reports that honest devices did not send: the fit test, and what liars who stay unseen can do."""

from __future__ import annotations

from typing import Final

__all__: list[str] = []

MOST_CODES: Final = 2048
"""Of a task that can be tested: without short windows the time grows with their cube, to minutes at 1,600.

It stands here for those who refuse a question without loading what answers it.
"""
