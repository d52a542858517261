"""Every store under one fixture: the contract tests run over all of them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from arcwise.server.store import Store, open_store
from tests.support.postgres import fresh_schema
from tests.support.store_samples import TASKS
from tests.support.stores import URLS


@pytest.fixture(params=list(URLS))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yield the URL of a store that does not exist yet."""
    with URLS[request.param](tmp_path / "counts") as url:
        yield url


@pytest.fixture
def opener(url: str) -> Callable[[], Store]:
    """Return a function that opens the same store again and again."""

    def open_again() -> Store:
        store = open_store(url)
        store.register(TASKS)
        return store

    return open_again


@pytest.fixture
def store(opener: Callable[[], Store]) -> Iterator[Store]:
    opened = opener()
    yield opened
    opened.close()


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """Yield the URL of a PostgreSQL store that does not exist yet."""
    with fresh_schema() as schema:
        yield schema
