"""The version of the installed package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("arcwise")
except PackageNotFoundError:  # run from source roots on the path
    __version__ = "not installed"
