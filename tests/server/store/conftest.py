"""Every store under one fixture: the contract tests run over all of them."""

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from arcwise.server.store import Store, open_store
from tests.support.cases import mostly_slow
from tests.support.postgres import fresh_schema
from tests.support.stores import URLS, Opener, opened


@pytest.fixture(params=list(URLS))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yield the URL of a store that does not exist yet."""
    with URLS[request.param](tmp_path / "counts") as url:
        yield url


@pytest.fixture
def opener(url: str) -> Opener:
    """Return a function that opens the same store again and again, each time for a block."""
    return partial(opened, url)


@pytest.fixture
def store(opener: Opener) -> Iterator[Store]:
    with opener() as opened:
        yield opened


@pytest.fixture(params=mostly_slow(URLS, every=2))
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Yield an empty store without tasks, of each kind."""
    with URLS[request.param](tmp_path / "other") as url, closing(open_store(url)) as store:
        yield store


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """Yield the URL of a PostgreSQL store that does not exist yet."""
    with fresh_schema() as schema:
        yield schema
