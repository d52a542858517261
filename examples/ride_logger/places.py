"""The folder for the app's files."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def state_folder() -> Path:
    """Return the folder for data of this device, which must not be synchronised or follow the user.

    ``RIDE_LOGGER_HOME`` overrides it. A ledger restored from a backup has lost its later charges.
    """
    override = os.environ.get("RIDE_LOGGER_HOME")
    if override:
        return Path(override)
    home = Path.home()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_STATE_HOME") or home / ".local" / "state")
    return base / "ride-logger"
