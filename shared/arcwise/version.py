"""The version of the installed package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

__all__ = ["VERSION"]

try:
    VERSION = version("arcwise")
except PackageNotFoundError:  # run from source roots on the path
    VERSION = "not installed"
