"""Who may do what: keys, and the gate that every request passes."""

from __future__ import annotations

from arcwise.server.access.gate import REFRESH_SECONDS, Gate
from arcwise.server.access.keys import SCOPES, digest, new_key

__all__ = ["REFRESH_SECONDS", "SCOPES", "Gate", "digest", "new_key"]
