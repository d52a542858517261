"""Designs of this folder's tests: each is made once, and none is read from or left in a user's cache."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder where designs are kept during a test: a new one."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("ARCWISE_CACHE", str(folder))
    return folder / "designs"
