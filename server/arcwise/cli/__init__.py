"""The `arcwise` command. Only this package may use all others; it needs the extra ``arcwise[server]``."""

from __future__ import annotations

import arcwise.server  # noqa: F401 (reports a missing extra, which includes the command's libraries)
from arcwise.cli.main import main

__all__ = ["main"]
