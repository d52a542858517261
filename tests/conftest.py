"""Settings for every test: the same examples in every run, and linear algebra on one core."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

import pytest

# Before numpy is imported. Threads on small matrices wait for one another, ten times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Generator

settings.register_profile("ci", derandomize=True, deadline=None, database=None, print_blob=False)
settings.load_profile("ci")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare the garbage collector the collected tests: there are ten thousand, and they stay to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
