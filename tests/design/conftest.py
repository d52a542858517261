"""Designs of this folder's tests: each is made once, in a folder that is not the user's cache."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a new folder where designs are kept during a test."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("ARCWISE_CACHE", str(folder))
    return folder / "designs"
