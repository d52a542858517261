"""Servers that are killed under load: at length in `tests/soak/kill_server.py`, in short in a test."""

from __future__ import annotations

from tests.soak.kills.cluster import Violation
from tests.soak.kills.database import CrashingDatabase
from tests.soak.kills.figures import Figures
from tests.soak.kills.kinds import Kind, kinds
from tests.soak.kills.proxy import LossyProxy
from tests.soak.kills.soak import Soak
from tests.soak.kills.workers import EndedError

__all__ = ["CrashingDatabase", "EndedError", "Figures", "Kind", "LossyProxy", "Soak", "Violation", "kinds"]
