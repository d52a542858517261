"""Reports that honest devices did not send: the fit test, and the damage that undetected liars can do."""

from __future__ import annotations

from typing import Final

__all__: list[str] = []

MOST_CODES: Final = 2048
"""Most codes of a testable task: without short windows the time grows with the cube of the codes.

With 1,600 codes it takes ten seconds for the worst counts. The limit is defined here so that a request can be
refused without loading the test itself.
"""
