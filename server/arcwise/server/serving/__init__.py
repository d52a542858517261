"""The app as a process: settings from file and environment, connections within bounds, a quiet end."""

from __future__ import annotations

from arcwise.server.serving.connections import Connections
from arcwise.server.serving.process import run

__all__ = ["Connections", "run"]
