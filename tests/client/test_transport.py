"""The httpx transports: the exact bytes that leave, and the answers that come back."""

from __future__ import annotations

import asyncio
import os
import platform
import socket
import subprocess
import sys
import textwrap
import warnings
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from arcwise.client import AsyncHttpxTransport, HttpxTransport
from arcwise.client.transport import user_agent
from arcwise.errors import ParameterError
from tests.support.forks import fork_unseen
from tests.support.scripted import Answer, Request, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

    from tests.support.twins import Twin

HEADERS = {"Content-Type": "application/x", "User-Agent": "arcwise/1"}


def remembering(request: Request) -> Answer:
    """Try to make a client remember something."""
    status = 301 if request.path == "/moved" else 202
    return status, {"Location": "/elsewhere", "Set-Cookie": "device=42; Path=/"}


def check_sent(transport: Any) -> None:
    """Check that exactly the given request is sent twice, without anything remembered from an answer."""
    with serving(remembering) as (url, seen):
        assert transport.post(url + "/moved", b"hello", HEADERS, 5.0) == (301, None)  # not followed
        assert transport.post(url, b"hello", HEADERS, 5.0) == (202, None)
        transport.close()
    headers = {
        "host": url.removeprefix("http://"),
        "content-length": "5",
        "content-type": "application/x",
        "user-agent": "arcwise/1",
    }
    assert [(request.headers, request.body) for request in seen] == [(headers, b"hello")] * 2


def test_nothing_goes_out_but_what_was_given(twin: Twin) -> None:
    check_sent(twin.http(trust_env=False))


def busy(request: httpx.Request) -> httpx.Response:
    assert request.extensions["timeout"] == {"connect": 3.0, "read": 3.0, "write": 3.0, "pool": 3.0}
    assert "x-device" not in request.headers
    return httpx.Response(503, headers={"Retry-After": "7"})


def test_httpx_options_and_retry_after_pass_through(twin: Twin) -> None:
    transport = twin.http(transport=httpx.MockTransport(busy))
    for _ in range(2):  # opens again
        assert transport.post("https://a.example", b"", HEADERS, 3.0) == (503, "7")
        transport.close()


def test_a_given_client_stays_open_and_adds_no_headers(twin: Twin) -> None:
    with twin.httpx(
        transport=httpx.MockTransport(busy), headers={"X-Device": "42"}, follow_redirects=True
    ) as client:
        transport = twin.http(client)
        assert transport.post("https://a.example", b"", HEADERS, 3.0) == (503, "7")
        transport.close()
        assert not client.is_closed


def test_what_a_tracer_adds_is_not_sent(twin: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentry changes an httpx client's `send`; OpenTelemetry changes its transport."""

    def trace(kind: type, method: str) -> None:
        original = getattr(kind, method)

        def traced(self: object, request: httpx.Request, **options: Any) -> Any:
            request.headers["traceparent"] = request.headers["baggage"] = "user.id=42"
            return original(self, request, **options)

        monkeypatch.setattr(kind, method, traced)

    trace(httpx.Client, "send")
    trace(httpx.AsyncClient, "send")
    trace(httpx.HTTPTransport, "handle_request")
    trace(httpx.AsyncHTTPTransport, "handle_async_request")
    with serving() as (url, seen):
        transport = twin.http(trust_env=False)
        assert transport.post(url, b"body", {**HEADERS, "Authorization": "Bearer key"}, 5.0) == (204, None)
        transport.close()
    assert seen[0].body == b"body"
    assert set(seen[0].headers) == {"host", "content-type", "user-agent", "authorization", "content-length"}


def app_client(twin: Twin, hooked: list[object]) -> Any:
    """Return an app's own client, with everything that would identify the device."""

    def hook(seen: object) -> None:
        hooked.append(seen)

    async def async_hook(seen: object) -> None:
        hooked.append(seen)

    chosen = hook if twin.kind == "sync" else async_hook
    return twin.httpx(
        auth=("device", "42"),
        cookies={"device": "42"},
        headers={"X-Device": "42", "User-Agent": "Device/42"},
        params={"device": "42"},
        base_url="http://device-42.example",
        follow_redirects=True,
        event_hooks={"request": [chosen], "response": [chosen]},
        trust_env=False,
    )


def test_nothing_of_a_given_client_but_its_connections_takes_part(twin: Twin) -> None:
    """The given client would replace the key by its own authentication, and keep the server's cookies."""
    hooked: list[object] = []
    with app_client(twin, hooked) as client:
        transport = twin.http(client)
        check_sent(transport)
        assert dict(client.cookies) == {"device": "42"}  # the app's own cookie, from before
    assert hooked == []
    with pytest.raises(RuntimeError, match="is closed"):
        transport.post("https://a.example", b"hello", HEADERS, 5.0)


def test_the_key_is_sent_and_not_the_authentication_of_a_given_client(twin: Twin) -> None:
    headers = {**HEADERS, "Authorization": "Bearer arcwise"}
    with serving() as (url, requests), app_client(twin, []) as client:
        twin.http(client).post(url, b"", headers, 5.0)
    assert requests[0].headers["authorization"] == "Bearer arcwise"


@pytest.mark.parametrize("name", ["X-Device", "Cookie", "Referer", "traceparent"])
def test_headers_are_those_of_reports(twin: Twin, name: str) -> None:
    with (
        serving() as (url, requests),
        pytest.raises(ParameterError, match=f"headers must be among Content-Type, .*; got {name}"),
    ):
        twin.http().post(url, b"", {**HEADERS, name: "42"}, 5.0)
    assert not requests


def test_a_client_of_the_other_kind_is_refused() -> None:
    for kind, client in ((HttpxTransport, httpx.AsyncClient()), (AsyncHttpxTransport, httpx.Client())):
        with pytest.raises(ParameterError, match="client must be None or an httpx"):
            kind(client)  # type: ignore[arg-type]


def test_network_trouble_is_raised(twin: Twin) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, not listening: refused
        with pytest.raises(httpx.ConnectError):
            twin.http(trust_env=False).post(f"http://127.0.0.1:{unused.getsockname()[1]}", b"", HEADERS, 3.0)


class Endless(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body without an end, as HTTP/2 allows even after a 204."""

    def __init__(self) -> None:
        self.parts = 0

    def __iter__(self) -> Iterator[bytes]:
        for self.parts in range(1, 100):
            yield bytes(1000)

    def __aiter__(self) -> Self:  # not a generator, which its loop would have to close
        self.parts = 0
        return self

    async def __anext__(self) -> bytes:
        self.parts += 1
        return bytes(1000)


@pytest.mark.parametrize("body", [None, Endless()], ids=["read already", "a body that no 204 has"])
def test_the_body_of_a_204_is_left_alone(twin: Twin, body: Endless | None) -> None:
    headers = {"Content-Encoding": "gzip"}  # which is never decompressed
    network = httpx.MockTransport(lambda _: httpx.Response(204, headers=headers, stream=body))
    transport = twin.http(transport=network)
    assert transport.post("https://reports.example", b"", HEADERS, 5.0) == (204, None)
    assert body is None or body.parts == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("language", ["python", "c"])
@pytest.mark.parametrize("ids", ["different", "same"])
def test_a_child_writes_on_no_connection_of_its_parent(
    twin: Twin, language: str, ids: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ids == "same":  # as if parent and child were the first processes of their PID namespaces
        if language == "c" and sys.platform != "linux":
            pytest.skip("only Linux distinguishes such a child from its parent")
        same = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: same)
    fork: Callable[[], int] = os.fork if language == "python" else fork_unseen
    transport = twin.http(trust_env=False)
    with serving() as (url, seen):
        assert transport.post(url, b"", HEADERS, 5.0) == (204, None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # this test is about forks with threads
            pid = fork()
        if pid == 0:
            status = 1
            try:
                twin.loop = asyncio.new_event_loop()
                status = 0 if transport.post(url, b"", HEADERS, 5.0) == (204, None) else 1
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        assert transport.post(url, b"", HEADERS, 5.0) == (204, None)
        transport.close()
    mine, childs, mine_again = (request.peer for request in seen)
    assert mine == mine_again != childs


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_waits_for_an_import_of_httpx() -> None:
    """In a separate process that has not imported httpx."""
    script = """
        import os, signal, sys, threading, time, warnings
        from arcwise.client.transport import HttpxTransport

        class Slow:
            begun = threading.Event()

            def find_spec(self, name, *rest):
                if name == "httpcore._sync.connection_pool":  # in the middle of httpx
                    self.begun.set()
                    time.sleep(0.3)

        def post():
            try:
                HttpxTransport(trust_env=False).post("http://127.0.0.1:1", b"", {}, 5.0)
            except Exception as error:
                return type(error).__name__

        sys.meta_path.insert(0, Slow())
        thread = threading.Thread(target=post)
        thread.start()
        assert Slow.begun.wait(60)
        warnings.simplefilter("ignore", DeprecationWarning)
        if not (child := os.fork()):
            signal.alarm(30)
            os._exit(0 if post() == "ConnectError" else 1)
        thread.join()
        sys.exit(os.waitpid(child, 0)[1] != 0)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=60)


def test_the_event_loop_does_not_import_httpx() -> None:
    """In a separate process that has not imported httpx; the import takes up to a second."""
    script = """
        import asyncio, os, sys, threading
        from arcwise.client.transport import AsyncHttpxTransport

        class Watched:
            def find_spec(self, name, *rest):
                if name == "httpx":
                    os._exit(threading.current_thread() is threading.main_thread())

        sys.meta_path.insert(0, Watched())
        asyncio.run(AsyncHttpxTransport(trust_env=False).post("http://127.0.0.1:1", b"", {}, 5.0))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=60)


def test_the_user_agent_names_the_library_only() -> None:
    name, _, version = user_agent().partition("/")
    assert name == "arcwise"
    assert version[0].isdigit()
    for fact in (platform.system(), platform.python_version(), platform.machine(), socket.gethostname()):
        assert fact.lower() not in user_agent().lower()


def test_a_wrong_option_is_refused_at_once(twin: Twin) -> None:
    """Otherwise, the first request would fail, look like network trouble and be retried for ever."""
    with pytest.raises(ParameterError, match=r"options must be among .* proxy, .*; got headers, prox"):
        twin.http(prox="http://127.0.0.1:1", headers={"X-Device": "7"})
    with pytest.raises(ParameterError, match="either an httpx client or options"):
        twin.http(object(), trust_env=False)
