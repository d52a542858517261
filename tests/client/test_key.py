"""The ingest key of an uplink: sent correctly, never over plain HTTP unless asked for, never shown."""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from arcwise.client import HttpxTransport, RecordingTransport, Uplink
from arcwise.errors import ParameterError
from tests.support.scripted import serving
from tests.support.unlimited import Client

if TYPE_CHECKING:
    from arcwise.tasks import Task
    from tests.support.recorder import Recorder
    from tests.support.twins import Twin

KEY = f"arcwise_ingest_{'5ec2e7' * 2}_{'5ec2e7' * 10}5ec2"
URL = "https://reports.example"


def test_the_key_travels_as_a_bearer_token(twin: Twin, recorder: Recorder, heading: Task) -> None:
    with twin.client(URL, tasks=[heading], transport=twin.transport(recorder), key=KEY) as client:
        client.report("heading", 12.0)
    (request,) = recorder.posts
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert sorted(request.headers) == ["Authorization", "Content-Type", "User-Agent"]


@pytest.mark.parametrize(
    "key",
    [
        *("", KEY[:-1], f"{KEY}0", f"{KEY}\n", f"{KEY}\r\nX: 1", f" {KEY}", KEY.upper(), KEY.encode(), 7),
        *(KEY.replace("ingest", scope) for scope in ("read", "admin", "metrics", "other", "")),
    ],
)
def test_keys_that_are_none_are_refused_and_not_repeated(key: Any) -> None:
    with pytest.raises(
        ParameterError, match=r"None or a key from `arcwise key new --scope ingest`"
    ) as caught:
        Uplink(URL, key=key)
    assert "5ec2" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://reports.example",
        "HTTP://reports.example",
        "http://10.0.0.1:8000",
        "http://localhost.example",
        "http://localhost\\.example",
        "http://127.0.0.1%2eexample",
        "http://[::1%25.example]",
    ],
)
def test_a_key_does_not_cross_the_network_in_the_clear_unless_asked(url: str, heading: Task) -> None:
    with pytest.raises(ParameterError, match="https:// URL, or insecure=True") as caught:
        Uplink(url, key=KEY)
    with pytest.raises(ParameterError, match="url would be used without encryption"):
        Uplink(url)
    assert KEY not in "".join(traceback.format_exception(caught.value))
    transport = RecordingTransport()
    with Client(url, tasks=[heading], transport=transport, key=KEY, insecure=True) as client:
        client.report("heading", 12.0)
    assert transport.requests[0].headers["Authorization"] == f"Bearer {KEY}"
    with pytest.raises(ParameterError, match="insecure must be True or False, got 1"):
        Uplink(url, key=KEY, insecure=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("level", [logging.NOTSET, logging.DEBUG, logging.ERROR])
def test_headers_of_http2_are_not_logged(heading: Task, caplog: pytest.LogCaptureFixture, level: int) -> None:
    """The library that compresses the headers writes them into its log."""
    compressing = logging.getLogger("hpack.hpack")
    caplog.set_level(level, "hpack")
    caplog.set_level(logging.DEBUG)

    def answer(request: httpx.Request) -> httpx.Response:
        compressing.debug("Encoded header block to %s", request.headers["authorization"])
        return httpx.Response(204)

    transport = HttpxTransport(transport=httpx.MockTransport(answer))
    with Client(URL, tasks=[heading], key=KEY, transport=transport) as client:
        client.report("heading", 12.0)
        assert client.flush(60)
    assert KEY not in caplog.text
    assert compressing.getEffectiveLevel() == max(level, logging.INFO)


def test_nothing_shows_the_key(heading: Task, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    events: list[object] = []
    answers = iter([401, 204])
    with serving(lambda _request: (next(answers), {})) as (url, requests):
        assert url.startswith("http://127.0.0.1")
        with Client(url, tasks=[heading], key=KEY, on_event=events.append) as client:
            client.report("heading", 12.0)
            while "status 401" not in caplog.text:  # logged once the pause has begun
                client.flush(0.05)
            client.flush(60)  # ends the pause
            assert client.counters.sent == 1
        shown = caplog.text + repr(events) + repr(client) + repr(client.counters)
    assert [request.headers["authorization"] for request in requests] == [f"Bearer {KEY}"] * 2
    assert "401" in shown
    assert "5ec2" not in shown
