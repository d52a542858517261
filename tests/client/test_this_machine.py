"""Reports of a seeded source and an unencrypted key stay on this machine."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from arcwise.client import (
    AsyncHttpxTransport,
    AsyncObliviousTransport,
    HttpxTransport,
    MemoryLedger,
    ObliviousTransport,
    transport,
)
from arcwise.errors import ParameterError
from arcwise.oblivious import GatewayKey, encode_key_configs
from arcwise.randomness import InsecureSeededRandomness
from tests.support.scripted import serving
from tests.support.unlimited import AsyncClient, Client

if TYPE_CHECKING:
    from arcwise.tasks import Task
    from tests.support.twins import Twin

URL = "http://127.0.0.1:9"
ELSEWHERE = "http://proxy.example:3128"
KEY = f"arcwise_ingest_{'0' * 12}_{'1' * 64}"
KEYS = encode_key_configs([GatewayKey.generate(1).config])
SEEDED: dict[str, Any] = {"randomness": InsecureSeededRandomness(7)}
KEYED: dict[str, Any] = {"key": KEY}

WAYS_OUT: dict[str, Any] = {
    "a proxy": lambda: HttpxTransport(proxy=ELSEWHERE),
    "mounts": lambda: HttpxTransport(mounts={"all://": httpx.HTTPTransport(proxy=ELSEWHERE)}),
    "a transport with a proxy": lambda: HttpxTransport(transport=httpx.HTTPTransport(proxy=ELSEWHERE)),
    "a client with a proxy": lambda: HttpxTransport(httpx.Client(proxy=ELSEWHERE)),
}
RELAYS: dict[str, Any] = {
    "a relay elsewhere": lambda: ObliviousTransport("https://relay.example/a", KEYS),
    "a relay behind a proxy": lambda: ObliviousTransport("http://127.0.0.1:9/a", KEYS, proxy=ELSEWHERE),
}
STAYING: dict[str, Any] = {
    "nothing": HttpxTransport,
    "a network of a test": lambda: HttpxTransport(
        transport=httpx.MockTransport(lambda _: httpx.Response(204))
    ),
    "a client": lambda: HttpxTransport(httpx.Client(trust_env=False)),
    "a relay here": lambda: ObliviousTransport("http://127.0.0.1:9/relay", KEYS),
}


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY", "http_proxy"])
def test_a_proxy_of_the_environment_sees_nothing_that_is_for_this_machine(
    twin: Twin, delay: Task, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as (proxy, proxied), serving() as (url, arrived):
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(variable, proxy)
        with twin.client(url, tasks=[delay], ledger=MemoryLedger(), **SEEDED, **KEYED) as client:
            assert client.report("delay", 1.0)
            assert client.flush(60)
    assert (len(proxied), len(arrived)) == (0, 1)


@pytest.mark.parametrize("way", WAYS_OUT)
@pytest.mark.parametrize("options", [SEEDED, KEYED], ids=["seeded", "key"])
def test_a_way_out_is_refused(delay: Task, way: str, options: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=r"could leave this machine by (its|the proxy of)"):
        Client(URL, tasks=[delay], ledger=MemoryLedger(), transport=WAYS_OUT[way](), **options)


@pytest.mark.parametrize("way", RELAYS)
def test_a_seeded_report_goes_to_no_relay_elsewhere(delay: Task, way: str) -> None:
    """The report is sealed, but the relay would pass it on to a gateway elsewhere."""
    with pytest.raises(ParameterError, match=r"randomness must be secure, because .* could leave this"):
        Client(URL, tasks=[delay], ledger=MemoryLedger(), transport=RELAYS[way](), **SEEDED)


def test_a_way_out_is_refused_on_an_event_loop(delay: Task) -> None:
    for sends in (
        AsyncHttpxTransport(proxy=ELSEWHERE),
        AsyncHttpxTransport(httpx.AsyncClient(proxy=ELSEWHERE)),
        AsyncObliviousTransport("https://relay.example/a", KEYS),
    ):
        with pytest.raises(ParameterError, match="could leave this machine by"):
            AsyncClient(URL, tasks=[delay], ledger=MemoryLedger(), transport=sends, **SEEDED)


@pytest.mark.parametrize("way", STAYING)
def test_what_stays_is_taken(delay: Task, way: str) -> None:
    client = Client(URL, tasks=[delay], ledger=MemoryLedger(), transport=STAYING[way](), **SEEDED, **KEYED)
    assert client.report("delay", 1.0)
    client.opt_out()
    client.close(0)


@pytest.mark.parametrize("way", WAYS_OUT)
def test_a_key_may_leave_where_an_app_says_so_or_it_is_encrypted(delay: Task, way: str) -> None:
    options: dict[str, Any] = {"tasks": [delay], "ledger": MemoryLedger(), "key": KEY}
    Client(URL, transport=WAYS_OUT[way](), insecure=True, **options).close(0)
    Client("https://127.0.0.1:9", transport=WAYS_OUT[way](), **options).close(0)


def test_a_key_may_go_sealed_by_a_relay(delay: Task) -> None:
    sends = RELAYS["a relay elsewhere"]()
    Client(URL, tasks=[delay], ledger=MemoryLedger(), transport=sends, key=KEY).close(0)


def test_a_name_that_leads_elsewhere_gets_no_byte(twin: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates a localhost on another machine: no address counts as this machine's."""
    monkeypatch.setattr(transport, "is_loopback", lambda _: False)
    with (
        serving() as (url, arrived),
        closing(twin.http()) as sends,
        pytest.raises(ConnectionError, match="its name leads to another machine"),
    ):
        sends.post(url, b"", {}, 5.0)
    assert not arrived
