"""Settings for every test: the same examples in every run, and linear algebra on one core."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

import pytest

# Set before numpy is imported. Threads on small matrices wait for one another and take ten times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Generator

# .ci/run tries four times as many examples of each property.
settings.register_profile(
    "same each time",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=False,
    max_examples=int(os.environ.get("ARCWISE_TEST_EXAMPLES", "25")),
)
settings.load_profile("same each time")


@pytest.fixture
def anyio_backend() -> str:
    """Name the runner of tests that are coroutines."""
    return "asyncio"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the ten thousand collected tests, which live to the end, out of garbage collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
