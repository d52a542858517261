"""Servers that are killed under load: at length in `benchmarks/kill_server.py`, in short in a test."""

from __future__ import annotations

from kills.cluster import Violation
from kills.database import CrashingDatabase
from kills.figures import Figures
from kills.kinds import Kind, kinds
from kills.proxy import LossyProxy
from kills.soak import Soak
from kills.workers import EndedError

__all__ = ["CrashingDatabase", "EndedError", "Figures", "Kind", "LossyProxy", "Soak", "Violation", "kinds"]
