"""Compare every mechanism that serves a domain: errors, bias, sizes, certificates (`arcwise compare`).

All numbers are sums over the integer rows that a device samples from. Nothing is simulated, and no closed
form of an idealised mechanism is used in place of its kernel.
"""

from __future__ import annotations

from arcwise.analysis.mechanism_table.measures import MechanismRow
from arcwise.analysis.mechanism_table.table import DEFAULT_DELTA, SORTS, ComparisonTable, compare

__all__ = ["DEFAULT_DELTA", "SORTS", "ComparisonTable", "MechanismRow", "compare"]
