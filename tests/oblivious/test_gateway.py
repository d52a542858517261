"""Reports through a relay: client, relay and gateway, and all that a relay or a stranger may send."""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from arcwise.cli import main
from arcwise.client import AsyncObliviousTransport, ObliviousTransport
from arcwise.errors import ParameterError, StoreError, WireError
from arcwise.oblivious.binary_http import Request, Response, decode_response, encode_request, padded
from arcwise.oblivious.messages import GatewayKey, KeyConfig, Sent, decode_key_configs, encapsulate
from arcwise.server import create_app
from arcwise.server.access.keys import new_key
from arcwise.server.collect.gateway_keys import GatewayKeyFile
from arcwise.server.store import open_store
from arcwise.wire import MEDIA_TYPE, encode_batch
from tests.oblivious.conftest import Http, relaying, running
from tests.support import scripted
from tests.support.clock import Clock
from tests.support.server_processes import serving
from tests.support.store_samples import HEADING, batch
from tests.support.unlimited import AsyncClient, Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GATEWAY = "/.well-known/ohttp-gateway"
REPORTS = f"/v1/tasks/{HEADING.id}/reports".encode()
OUTSIDE = {"Content-Type": "message/ohttp-req"}
SECRET = b"SECRET"


@contextmanager
def app(folder: Path, keys: GatewayKeyFile, **options: Any) -> Iterator[Http]:
    given: dict[str, Any] = {"store": f"sqlite:///{folder / 'app.db'}", "open": True, "tasks": [HEADING]}
    sender = options.pop("sender", "127.0.0.1")
    with running(create_app(gateway_keys=keys.path, **given | options), sender=sender) as http:
        yield http


def now() -> int:
    return HEADING.epoch(time.time())


def report(
    number: int = 0, *, method: bytes = b"POST", path: bytes = REPORTS, fields: Any = (), content: bytes = b""
) -> Request:
    content = content or encode_batch(batch(HEADING, [3, 4], number=number, epoch=now()))
    inside = ((b"content-type", MEDIA_TYPE.encode()), *fields)
    return Request(method, b"https", b"reports.example", path, inside, content)


def send(http: Http, config: KeyConfig, request: Request) -> Response:
    sent = encapsulate(config, padded(encode_request(request)))
    return opened(sent, http.post(GATEWAY, content=sent.message, headers=OUTSIDE))


def opened(sent: Sent, answer: httpx.Response) -> Response:
    assert (answer.status_code, answer.headers["content-type"]) == (200, "message/ohttp-res")
    assert len(answer.content) == 512 + 32  # of one length for every answer
    return decode_response(sent.open_answer(answer.content))


def n(http: Http) -> int:
    count: int = http.get(f"/v1/tasks/{HEADING.id}/estimate").json()["n"]
    return count


@pytest.fixture
def config(keys: GatewayKeyFile) -> KeyConfig:
    return keys.read()[0].key.config


def test_a_report_counts_once_however_often_it_comes(
    tmp_path: Path, keys: GatewayKeyFile, config: KeyConfig
) -> None:
    with app(tmp_path, keys) as http:
        assert [send(http, config, report()) for _ in range(2)] == [Response(204)] * 2
        sent = encapsulate(config, padded(encode_request(report(1))))
        for _ in range(3):  # a relay that sends the same ciphertext again
            assert opened(sent, http.post(GATEWAY, content=sent.message, headers=OUTSIDE)) == Response(204)
        # Sent directly, too: a batch has one id on every path.
        plain = http.post(REPORTS.decode(), content=report().content, headers={"content-type": MEDIA_TYPE})
        assert plain.status_code == 204
        # A prefix that a proxy strips from the paths of plain requests stays in the sealed ones.
        assert send(http, config, report(2, path=b"/arcwise" + REPORTS)) == Response(204)
        assert n(http) == 6


def test_what_is_refused_inside_is_not_seen_outside(
    tmp_path: Path, keys: GatewayKeyFile, config: KeyConfig
) -> None:
    cases = [
        (report(content=SECRET), 400, "malformed-batch"),
        (report(path=REPORTS.replace(b"/reports", b"/estimate")), 404, "not-found"),
        (report(method=b"GET"), 404, "not-found"),
        (report(path=b"/v1/tasks"), 404, "not-found"),
        (report(path=GATEWAY.encode()), 404, "not-found"),
        (report(path=REPORTS.replace(HEADING.id[:4].encode(), b"ffff")), 404, "unknown-task"),
        (report()._replace(fields=()), 415, "media-type"),
        (report(content=bytes((1 << 20) + 1)), 413, "too-large"),
    ]
    with app(tmp_path, keys) as http:
        for request, status, kind in cases:
            answer = send(http, config, request)
            assert answer.status == status
            assert json.loads(answer.content)["type"] == f"urn:arcwise:problem:{kind}"
            assert SECRET not in answer.content
        sent = encapsulate(config, SECRET)  # no request at all
        answer = opened(sent, http.post(GATEWAY, content=sent.message, headers=OUTSIDE))
        assert answer.status == 400
        assert json.loads(answer.content)["type"] == "urn:arcwise:problem:malformed-oblivious"
        assert SECRET not in answer.content
        assert n(http) == 0


def test_keys_go_inside_and_addresses_of_relays_are_not_limited(
    tmp_path: Path, keys: GatewayKeyFile, config: KeyConfig
) -> None:
    secret, stored = new_key("ingest", tasks=None, label="", now=time.time())
    store = open_store(f"sqlite:///{tmp_path / 'app.db'}")
    store.add_key(stored)
    store.close()
    limited: dict[str, Any] = {"open": False, "requests_per_minute_per_address": 1}
    with app(tmp_path, keys, relays=["127.0.0.1"], **limited) as http:
        for number in range(4):
            allowed = ((b"authorization", f"Bearer {secret}".encode()),)
            assert send(http, config, report(number, fields=allowed)) == Response(204)
        refused = send(http, config, report(4))
        assert refused.status == 401
        assert http.get(GATEWAY).status_code == 200
    with app(tmp_path, keys, relays=["192.0.2.1"], **limited) as http:
        assert send(http, config, report(5, fields=allowed)) == Response(204)
        for body in (encapsulate(config, padded(encode_request(report(6)))).message, b""):
            answer = http.post(GATEWAY, content=body, headers=OUTSIDE)
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")


@pytest.mark.parametrize(
    ("relay", "sender", "is_limited"),
    [
        ("2001:db8::1", "2001:db8:0::1", False),
        ("2001:db8::1", "2001:db8::2", True),
        ("192.0.2.1", "::ffff:192.0.2.1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", False),
        ("192.0.2.1", "192.0.2.2", True),
    ],
)
def test_a_relay_is_one_address(
    tmp_path: Path, keys: GatewayKeyFile, relay: str, sender: str, is_limited: bool
) -> None:
    with app(tmp_path, keys, relays=[relay], sender=sender, requests_per_minute_per_address=1) as http:
        statuses = [http.post(GATEWAY, content=b"", headers=OUTSIDE).status_code for _ in range(2)]
    assert (429 in statuses) == is_limited


@pytest.mark.parametrize("relays", ["relay.example", ["relay.example"], [7.5], 7])
def test_relays_are_addresses(keys: GatewayKeyFile, relays: Any) -> None:
    with pytest.raises(ParameterError, match="relays must be a list of IP addresses, got"):
        create_app(tasks=[HEADING], gateway_keys=keys.path, relays=relays)


def test_a_gateway_never_takes_a_request_for_one_of_its_own_machine(
    tmp_path: Path, keys: GatewayKeyFile, config: KeyConfig
) -> None:
    inside = ((b"host", b"127.0.0.1"),)
    create = create_app(gateway_keys=keys.path, store=f"sqlite:///{tmp_path / 'app.db'}", tasks=[HEADING])
    with running(create, host="127.0.0.1") as http:
        plain = http.post(REPORTS.decode(), content=report().content, headers={"content-type": MEDIA_TYPE})
        assert plain.status_code == 204
        assert send(http, config, report(1, fields=inside)).status == 401


def test_what_cannot_be_opened_is_a_problem_and_nothing_is_stored(
    tmp_path: Path, keys: GatewayKeyFile, config: KeyConfig
) -> None:
    message = encapsulate(config, padded(encode_request(report()))).message
    other = encapsulate(GatewayKey.generate(config.key_id).config, padded(encode_request(report()))).message
    unknown = encapsulate(GatewayKey.generate(9).config, padded(encode_request(report()))).message
    swapped = message[:39] + encapsulate(config, padded(encode_request(report()))).message[39:]
    with app(tmp_path, keys) as http:

        def problem(content: bytes, headers: dict[str, str] = OUTSIDE) -> tuple[int, str]:
            answer = http.post(GATEWAY, content=content, headers=headers)
            assert answer.headers["content-type"] == "application/problem+json"
            assert SECRET not in answer.content
            return answer.status_code, answer.json()["type"].split(":")[-1]

        malformed = (400, "malformed-oblivious")
        assert [problem(wrong) for wrong in (b"", SECRET, other, swapped)] == [malformed] * 4
        assert [problem(message[:length]) for length in (1, 54, 55, 300, len(message) - 1)] == [malformed] * 5
        assert problem(unknown) == (400, "//iana.org/assignments/http-problem-types#ohttp-key")
        assert problem(bytes(10_000_000)) == (413, "too-large")
        assert problem(message, {"Content-Type": "text/plain"}) == (415, "media-type")
        assert n(http) == 0
        assert "ohttp-key" in http.get("/metrics").text


@settings(max_examples=50)
@given(st.data())
def test_nothing_that_is_changed_on_the_way_is_counted(data: st.DataObject) -> None:
    key = GatewayKey.generate(1)
    sent = encapsulate(key.config, padded(encode_request(Request(b"POST", b"https", b"x", b"/"))))
    answer = bytearray(b"\1\x40\xcc")
    from arcwise.oblivious.messages import open_request

    sealed = bytearray(open_request([key], sent.message).seal_answer(bytes(answer)))
    at = data.draw(st.integers(0, len(sealed) - 1))
    sealed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(WireError):
        sent.open_answer(bytes(sealed))


def test_without_keys_there_is_no_gateway(tmp_path: Path) -> None:
    create = create_app(store=f"sqlite:///{tmp_path / 'app.db'}", tasks=[HEADING])
    with running(create) as http:
        for answer in (http.get(GATEWAY), http.post(GATEWAY, content=b"", headers=OUTSIDE)):
            assert answer.status_code == 404
            assert "gateway_keys is not set" in answer.json()["detail"]
    with pytest.raises(StoreError, match="cannot be read: No such file"):
        create_app(store=f"sqlite:///{tmp_path / 'app.db'}", tasks=[HEADING], gateway_keys=tmp_path / "none")


def test_a_key_that_was_replaced_opens_requests_until_its_time(
    tmp_path: Path, keys: GatewayKeyFile, config: KeyConfig
) -> None:
    clock = Clock(time.time())
    url = f"sqlite:///{tmp_path / 'app.db'}"
    application = create_app(clock=clock, gateway_keys=keys.path, store=url, open=True, tasks=[HEADING])
    with running(application) as http:
        second = keys.rotate(clock.time(), keep_seconds=100).config
        assert second.key_id != config.key_id
        application.state.runtime.refresh()
        assert decode_key_configs(http.get(GATEWAY).content) == [second]
        assert [send(http, each, report(number)) for number, each in enumerate((config, second))] == [
            Response(204)
        ] * 2
        clock.wait(100)
        application.state.runtime.refresh()
        sent = encapsulate(config, padded(encode_request(report(2))))
        assert http.post(GATEWAY, content=sent.message, headers=OUTSIDE).status_code == 400
        keys.path.write_text("{", encoding="ascii")  # a broken file does not end a running server
        application.state.runtime.refresh()
        assert send(http, second, report(3)) == Response(204)
        assert n(http) == 6


@pytest.mark.slow
def test_the_key_ids_go_round_and_none_is_used_twice(tmp_path: Path) -> None:
    keys = GatewayKeyFile(tmp_path / "keys.json")
    keys.make()
    ids = [keys.rotate(float(at), keep_seconds=3).key_id for at in range(600)]
    assert all(len(set(ids[at : at + 4])) == 4 for at in range(590))
    assert set(ids) == set(range(256))
    assert len(keys.read()) == 4
    assert keys.path.stat().st_mode & 0o777 == 0o600


def test_keys_that_are_made_at_once_are_all_in_the_file(tmp_path: Path) -> None:
    keys = GatewayKeyFile(tmp_path / "keys.json")
    with ThreadPoolExecutor(8) as at_once:
        made = list(at_once.map(_made_or_none, [keys] * 8))
        assert [key is None for key in made].count(False) == 1
        rotated = list(at_once.map(lambda at: keys.rotate(float(at), keep_seconds=1000), range(32)))
    first = [key for key in made if key is not None]
    assert {kept.key.private_key for kept in keys.read()} == {key.private_key for key in first + rotated}


def _made_or_none(keys: GatewayKeyFile) -> GatewayKey | None:
    try:
        return keys.make()
    except ParameterError:
        return None


def _kept(until: object) -> dict[str, object]:
    return {"key_id": 1, "private_key": "00" * 32, "until": until}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"keys": []}',
        '{"keys": [{"key_id": 1, "until": null}]}',
        json.dumps({"keys": [_kept(5)]}),
        json.dumps({"keys": [_kept(None), _kept(None)]}),
        json.dumps({"keys": [_kept(None), _kept("never")]}),
    ],
)
def test_a_file_that_holds_no_keys_is_refused_without_being_repeated(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text, encoding="ascii")
    with pytest.raises(StoreError, match=r"is not a file of gateway keys; `arcwise key gateway FILE`"):
        GatewayKeyFile(path).read()


def test_the_command_makes_and_rotates_keys(tmp_path: Path) -> None:
    path = tmp_path / "gateway.json"
    runner = CliRunner()
    made = runner.invoke(main, ["key", "gateway", str(path)])
    assert made.exit_code == 0, made.output
    public = tmp_path / "gateway.json.ohttp-keys"
    keys = GatewayKeyFile(path)
    assert decode_key_configs(public.read_bytes()) == [keys.read()[0].key.config]
    again = runner.invoke(main, ["key", "gateway", str(path)])
    assert again.exit_code != 0
    assert "be rotated with --rotate" in again.output
    rotated = runner.invoke(main, ["key", "gateway", str(path), "--rotate", "--keep-days", "1"])
    assert "the previous key opens requests for 1 more day" in rotated.output
    newest, before = keys.read()
    assert decode_key_configs(public.read_bytes()) == [newest.key.config]
    assert before.until is not None
    assert abs(before.until - time.time() - 86_400) < 60


def test_a_transport_refuses_bad_arguments(key_config: bytes) -> None:
    with pytest.raises(ParameterError, match="relay must start with http"):
        ObliviousTransport("relay.example", key_config)
    with pytest.raises(ParameterError, match="key_config must be the bytes of a file"):
        ObliviousTransport("https://relay.example", "keys.bin")  # type: ignore[arg-type]
    with pytest.raises(WireError, match="there is no key of the suite"):
        ObliviousTransport("https://relay.example", b"")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (204, None),
        (200, None),
        (302, None),
        (404, None),
        (413, None),
        (429, (429, "7")),
        (501, (503, "7")),
        (503, (503, "7")),
    ],
)
def test_what_a_relay_answers_by_itself_acknowledges_and_drops_nothing(
    key_config: bytes, status: int, expected: tuple[int, str] | None
) -> None:
    stream = httpx.ByteStream(b"captive portal")
    network = httpx.MockTransport(
        lambda _request: httpx.Response(status, headers={"Retry-After": "7"}, stream=stream)
    )
    transport = ObliviousTransport("https://relay.example", key_config, transport=network)
    if expected is not None:
        assert transport.post("https://reports.example/v1", b"", {}, 5.0) == expected
        return
    with pytest.raises(WireError):
        transport.post("https://reports.example/v1", b"", {}, 5.0)


def test_the_relay_sees_nothing_of_the_report_and_no_two_requests_alike(
    tmp_path: Path, keys: GatewayKeyFile, key_config: bytes
) -> None:
    seen: list[httpx.Request] = []
    with app(tmp_path, keys) as http:

        def relay(request: httpx.Request) -> httpx.Response:
            seen.append(request)
            answer = http.post(GATEWAY, content=request.content, headers=OUTSIDE)
            if len(seen) == 1:
                return httpx.Response(502)  # it was counted, and the answer lost
            return httpx.Response(200, stream=httpx.ByteStream(answer.content))

        transport = ObliviousTransport(
            "https://relay.example/to", key_config, transport=httpx.MockTransport(relay)
        )
        with Client("https://reports.example", tasks=[HEADING], transport=transport) as client:
            client.report("heading", 12.0)
            assert client.flush(timeout=20)
            assert client.counters.sent == 1
        assert n(http) == 1
    first, second = seen
    assert first.url == second.url == "https://relay.example/to"
    assert sorted(first.headers) == ["content-length", "content-type", "host", "user-agent"]
    assert first.content != second.content
    assert len(first.content) == len(second.content) == 512 + 55
    for hidden in (b"reports.example", HEADING.id.encode(), bytes.fromhex(HEADING.id)):
        assert hidden not in first.content


@pytest.mark.slow
def test_over_sockets_through_the_relay_of_the_examples(
    tmp_path: Path, keys: GatewayKeyFile, key_config: bytes
) -> None:
    HEADING.save(tmp_path / "heading.json")
    options = ("--open", "--gateway-keys", str(keys.path))
    with serving(tmp_path, *options) as (url, _), relaying(url) as relay:
        with Client(
            "https://reports.example", tasks=[HEADING], transport=ObliviousTransport(relay, key_config)
        ) as client:
            for value in range(50):
                client.report("heading", float(value))
            assert client.flush(timeout=30)

        async def report() -> None:
            transport = AsyncObliviousTransport(relay, key_config)
            async with AsyncClient("https://reports.example", tasks=[HEADING], transport=transport) as client:
                await client.report("heading", 7.0)
                assert await client.flush(timeout=30)

        asyncio.run(report())
        assert httpx.get(f"{url}/v1/tasks/{HEADING.id}/estimate", timeout=60).json()["n"] == 51
        # If the relay does not understand an answer, it passes on statuses and nothing else.
        wrong = httpx.post(relay, content=b"SECRET", headers=OUTSIDE, timeout=60)
        assert (wrong.status_code, wrong.content) == (400, b"")
        assert httpx.post(relay, content=b"x", timeout=60).status_code == 415
        metrics = httpx.get(f"{url}/metrics", timeout=60).text
    log = (tmp_path / "stderr").read_text(encoding="utf-8")
    assert "SECRET" not in log + metrics


@pytest.mark.parametrize("status", [200, 429])
def test_the_relay_hands_on_no_header_of_the_gateway(status: int) -> None:
    """A gateway or a proxy could identify a browser by a header: a cookie, or an address for reports."""
    named = {
        "NEL": '{"report_to":"n","max_age":2592000,"success_fraction":1}',
        "Report-To": '{"group":"n","max_age":2592000,"endpoints":[{"url":"https://reports.example/device-1"}]}',
        "Set-Cookie": "device=1",
        "ETag": '"device-1"',
        "Retry-After": "4711",
        "Content-Type": "message/ohttp-res; device=1",
    }
    with scripted.serving(lambda _: (status, named)) as (url, seen), relaying(url) as relay:
        answer = httpx.post(relay, content=b"sealed", headers={**OUTSIDE, "X-Device": "1"}, timeout=60)
    assert answer.status_code == status
    assert set(answer.headers) <= {"content-type", "content-length", "date", "server"}
    assert "device" not in repr(answer.headers)
    (request,) = seen
    assert "x-device" not in request.headers
