"""The conformance kit, which checks a client in any language against the golden vectors.

Run ``python -m arcwise.client.conformance EXECUTABLE...``; docs/reference/conformance.md specifies the lines
that the executable reads and writes. The kit does not compute codes: it compares the client's results with
those in the vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.lazy import lazy_names

__all__ = ["OPTIONAL", "Case", "Report", "all_cases", "check"]

if TYPE_CHECKING:
    from .cases import OPTIONAL, Case, all_cases
    from .runner import Report, check
else:
    __getattr__ = lazy_names(
        __name__, {"cases": ("OPTIONAL", "Case", "all_cases"), "runner": ("Report", "check")}
    )
