"""Real clients against a real server process, over HTTP."""

from collections.abc import Iterator

import httpx
import pytest

from arcwise.cli.demo.run import running_server
from arcwise.client import MemoryLedger, Outcome
from arcwise.domains import Circle, Interval
from arcwise.tasks import Caps, Task
from tests.support.unlimited import AsyncClient, Client

pytestmark = pytest.mark.anyio

HEADING, OTHER, THIRD = (
    Task(name, Circle(360), 1.0, caps=Caps(lifetime=500.0)) for name in ("heading", "other", "third")
)
VALUE, WORTH = (Task(name, Interval(0, 10), 2.0, goal="value") for name in ("value", "worth"))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve tasks, of which each test uses its own."""
    folder = tmp_path_factory.mktemp("server")
    with running_server(folder, [HEADING, OTHER, THIRD, VALUE, WORTH]) as (address, _server):
        yield address


def counted(url: str, task: Task) -> int:
    n: int = httpx.get(f"{url}/v1/tasks/{task.id}/estimate", timeout=60).json()["n"]
    return n


@pytest.mark.slow
def test_a_client_reports_until_its_cap(url: str) -> None:
    with Client(url, tasks=[HEADING, VALUE], ledger=MemoryLedger()) as client:
        made = [client.report("heading", degrees) for degrees in range(600)]
        assert made == [Outcome.ACCEPTED] * 500 + [Outcome.CAPPED] * 100
        assert client.budget("heading").epsilon == 500.0
        assert all(client.report("value", 3) for _ in range(7))
        assert client.flush(60)
        assert client.pending == 0
    assert counted(url, HEADING) == 500
    assert counted(url, VALUE) == 7


@pytest.mark.slow
async def test_an_async_client_does_the_same(url: str) -> None:
    async with AsyncClient(url, tasks=[OTHER, WORTH], ledger=MemoryLedger()) as client:
        made = [await client.report("other", degrees) for degrees in range(600)]
        assert made == [Outcome.ACCEPTED] * 500 + [Outcome.CAPPED] * 100
        assert await client.report("worth", 3)
        assert await client.flush(60)
    assert counted(url, OTHER) == 500
    assert counted(url, WORTH) == 1


@pytest.mark.slow
def test_leaving_the_context_sends_what_is_queued(url: str) -> None:
    with Client(url, tasks=[THIRD], ledger=MemoryLedger()) as client:
        for degrees in range(10):
            client.report("third", degrees)
    assert counted(url, THIRD) == 10
