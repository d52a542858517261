"""Planning tests design mechanisms: once per session, in a separate folder."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def designs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setenv("ARCWISE_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()
