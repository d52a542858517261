"""A program against the installed wheel that names the whole API of the client, for strict type checkers.

`wheel.py` lets mypy read it; it is never run. `assert_type` states the type that a checker must infer. Each
line in `wrong_uses` must be refused: strict mypy reports unneeded ignores.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import assert_type

import arcwise.client
from arcwise.client import (
    AsyncClient,
    AsyncHttpxTransport,
    AsyncObliviousTransport,
    AsyncRecordingTransport,
    AsyncTransport,
    AsyncUplink,
    Budget,
    Caps,
    Circle,
    Client,
    Counters,
    Environment,
    Event,
    FileLedger,
    Group,
    HttpxTransport,
    Inspection,
    Interval,
    Ledger,
    MemoryLedger,
    ObliviousTransport,
    Outcome,
    PostgresLedger,
    PostgresLedgers,
    RecordedRequest,
    RecordingTransport,
    Task,
    Transport,
    Uplink,
    inspect,
)
from arcwise.errors import ArcwiseError, DomainError, LedgerError
from arcwise.randomness import SYSTEM
from arcwise.tasks import Charge
from arcwise.wire import Batch

if TYPE_CHECKING:
    import httpx

    from arcwise.domains import Domain

HEADING = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=5.0, rolling_delta=1e-9))
DOMAINS: Mapping[str, Domain] = {"heading": Circle(360), "speed": Interval(0, 180, clip=True)}
VEHICLE = Group.share_budget("vehicle", DOMAINS, epsilon=2.0, sample=None)


def told(event: Event) -> None:
    """Accept an event."""
    assert_type(event.kind, str)
    assert_type(event.task, str | None)
    assert_type(event.reports, int)


class Spool:
    """A transport of the app's own."""

    def post(
        self, url: str, body: bytes, headers: Mapping[str, str], timeout: float
    ) -> tuple[int, str | None]:
        """Accept everything."""
        return 204, None

    def close(self) -> None:
        """Do nothing."""


def transports(given: httpx.Client) -> list[Transport]:
    """Return the transports that an `Uplink` can use."""
    context = ssl.create_default_context()
    relayed = ObliviousTransport("https://relay.example", b"", given)
    plain = HttpxTransport(verify=context)
    return [Spool(), HttpxTransport(given), plain, relayed, RecordingTransport([503, 204])]


def sync(ledger: Ledger) -> Outcome | None:
    """Use the whole API for threads."""
    with (
        FileLedger("telemetry.db", create=True, relaxed=True, busy_timeout=1.0) as file,
        Client(
            "https://reports.example",
            tasks=[HEADING, VEHICLE],
            ledger=file,
            caps=Caps(lifetime=10.0),
            memoize={"heading": 3},
            max_epsilon=2.0,
            max_delta=1e-9,
            randomness=SYSTEM,
            show_values=False,
            transport=Spool(),
            batch_size=100,
            interval=60.0,
            delay=5.0,
            max_pending=1000,
            max_age_days=3.5,
            request_timeout=5.0,
            exit_timeout=1.0,
            on_event=told,
            environment=Environment(),
        ) as client,
    ):
        assert_type(file, FileLedger)
        assert_type(client, Client)
        outcome = client.report("heading", 350.5)
        assert_type(outcome, Outcome)
        client.report("vehicle", {"heading": 12.0, "speed": None})
        budget = client.budget("heading")
        assert_type(budget, Budget)
        assert_type(budget.reports_left, int | None)
        assert_type(client.budget().epsilon_left, float | None)
        assert_type(client.pending, int)
        counters = client.counters
        assert_type(counters, Counters)
        assert_type(counters.dropped, Mapping[str, int])
        client.opt_out()
        client.opt_in()
        assert_type(client.flush(timeout=1.0), bool)
        assert_type(client.close(timeout=1.0), bool)
    with Uplink("https://reports.example", ledger=ledger, transport=Spool(), interval=1) as uplink:
        assert_type(uplink, Uplink)
        assert_type(Client(uplink, tasks=(HEADING,), ledger=ledger).report("heading", 1), Outcome)
        assert_type(Client(uplink, tasks=(VEHICLE,), ledger=ledger, caps="unlimited"), Client)
    return outcome if outcome else None


def hosted(account: str) -> Outcome:
    """Use the whole API for apps with many accounts."""
    with (
        PostgresLedgers("postgresql:///app", create=True, relaxed=False) as ledgers,
        Uplink("https://reports.example", ledger=ledgers, transport=Spool()) as uplink,
    ):
        assert_type(ledgers, PostgresLedgers)
        assert_type(ledgers.create_account(account), bool)
        assert_type(ledgers.account(account), PostgresLedger)
        return Client(uplink, tasks=[HEADING], ledger=ledgers.account(account)).report("heading", 1.0)


async def on_a_loop(transport: AsyncTransport) -> bool:
    """Use the whole API for event loops."""
    relayed = AsyncObliviousTransport("https://relay.example", b"", verify=True)
    kinds: list[AsyncTransport] = [AsyncHttpxTransport(), AsyncRecordingTransport(), relayed, transport]
    async with (
        AsyncUplink("https://reports.example", transport=kinds[1], delay=1.0) as uplink,
        AsyncClient(uplink, tasks=[HEADING], ledger=MemoryLedger()) as client,
    ):
        assert_type(uplink, AsyncUplink)
        assert_type(client, AsyncClient)
        assert_type(await client.report("heading", 350.5), Outcome)
        assert_type(await client.budget("heading"), Budget)
        assert_type(await client.pending(), int)
        assert_type(await client.counters(), Counters)
        assert_type(await uplink.counters(), Counters)
        await client.opt_out()
        await client.opt_in()
        await client.close()
        return await client.flush()


def look() -> dict[str, Any]:
    """Use the whole API for inspection."""
    found = inspect("telemetry.db")
    assert_type(found, Inspection)
    assert_type(found.dropped, dict[str, int])
    assert_type(found.accounts[0].recent_epsilon, float | None)
    assert_type(found.queue[0].reports, int)
    recorder = RecordingTransport()
    assert_type(recorder.requests, list[RecordedRequest])
    assert_type(recorder.batches, list[Batch])
    assert_type(recorder.requests[0].body, bytes)
    assert_type(HEADING.charge, Charge)
    assert_type(arcwise.client.Outcome("capped"), Outcome)
    try:
        return found.to_dict()
    except (LedgerError, DomainError) as error:
        base: ArcwiseError = error
        return {"error": str(base)}


def wrong_uses(client: Client, loop_client: AsyncClient, uplink: Uplink, given: httpx.AsyncClient) -> None:
    """Make mistakes, each of which is refused for the reason in its comment."""
    client.report(1, 350.5)  # type: ignore[arg-type]
    client.spent("heading")  # type: ignore[attr-defined]
    client.flush("soon")  # type: ignore[arg-type]
    client.counters.sent = 3  # type: ignore[misc]
    Client("https://reports.example", tasks=["heading"])  # type: ignore[list-item]
    Client("https://reports.example", tasks=[HEADING], intervall=3.0)  # type: ignore[call-arg]
    Client("https://reports.example", tasks=[HEADING], interval="soon")  # type: ignore[arg-type]
    Client("https://reports.example", tasks=[HEADING], caps="unlimted")  # type: ignore[arg-type]
    Client("https://reports.example", tasks=[HEADING], ledger="telemetry.db")  # type: ignore[arg-type]
    Client("https://reports.example", tasks=[HEADING], transport=AsyncHttpxTransport())  # type: ignore[arg-type]
    AsyncClient(uplink, tasks=[HEADING])  # type: ignore[arg-type]
    loop_client.report("heading", 1.0)  # type: ignore[unused-coroutine]
    HttpxTransport(given)  # type: ignore[arg-type]
    Ledger()  # type: ignore[abstract]
    assert arcwise.client.Cleint  # type: ignore[attr-defined]
    Uplink("https://reports.example", on_event=lambda: None)  # type: ignore[arg-type,misc]
