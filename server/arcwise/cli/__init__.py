"""The `arcwise` command. It alone may use all parts together, and needs the extra ``arcwise[server]``."""

from __future__ import annotations

import arcwise.server  # noqa: F401 (says what is missing of its extra, which has the command's libraries too)
from arcwise.cli.main import main

__all__ = ["main"]
