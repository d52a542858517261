"""What the operator sees: logs and metrics. Neither holds an address, a key or anything that was sent."""

from __future__ import annotations

from arcwise.server.observing.logs import configure_logs, finish_logs
from arcwise.server.observing.metrics import Metrics

__all__ = ["Metrics", "configure_logs", "finish_logs"]
