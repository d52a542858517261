"""How a body gets to the server: one POST, its status and its ``Retry-After``.

httpx is imported with the first request, not before. Nothing here retries, follows a redirect, keeps a cookie
or sends a header that is not on a list of three: what a request says about the device is what those say. A
tracer that has changed httpx adds headers on the way (`traceparent`, `baggage`); they are taken out again.
What is for this machine goes by no proxy, and to no other machine that has taken its name.
"""

from __future__ import annotations

import math
import threading
import time
from functools import lru_cache, partial
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar

from arcwise.checks import explained
from arcwise.client.delivery import ACKNOWLEDGED
from arcwise.client.interruptions import Pause, pause_for_forks
from arcwise.client.process import current_process
from arcwise.connections import check_given, connected, host_at_home, way_out
from arcwise.errors import ParameterError
from arcwise.loopback import is_loopback
from arcwise.urls import is_loopback_url

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    import httpx

Response: TypeAlias = tuple[int, str | None]
"""The HTTP status and the ``Retry-After`` header, as it was sent."""

Answer: TypeAlias = tuple[int, str | None, bytes]
"""A `Response` and its content."""

OK: Final = 200

ClientT = TypeVar("ClientT")


class Transport(Protocol):
    """What an `Uplink` sends with. Anything that `post` raises counts as network trouble: tried again.

    Examples
    --------
    One that writes requests to a file, for another program to carry away:

    >>> from arcwise.client import Caps, Circle, Client, MemoryLedger, Task
    >>> class Spool:
    ...     def post(self, url, body, headers, timeout):
    ...         with open("spool", "ab") as spool:
    ...             spool.write(body)
    ...         return 204, None
    ...
    ...     def close(self):
    ...         pass
    >>> heading = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=5.0))
    >>> with Client(
    ...     "https://reports.example", tasks=[heading], ledger=MemoryLedger(), transport=Spool()
    ... ) as client:
    ...     accepted = client.report("heading", 350.5)
    >>> client.counters.sent
    1
    """

    def post(self, url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> Response:
        """Send one POST and return its response."""

    def close(self) -> None:
        """Let go of connections."""


class AsyncTransport(Protocol):
    """What an `AsyncUplink` sends with. Anything that `post` raises counts as network trouble.

    Examples
    --------
    >>> import asyncio
    >>> from arcwise.client import AsyncClient, Caps, Circle, MemoryLedger, Task
    >>> class Offline:
    ...     async def post(self, url, body, headers, timeout):
    ...         raise OSError("no network")
    ...
    ...     async def close(self):
    ...         pass
    >>> async def main():
    ...     heading = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=5.0))
    ...     async with AsyncClient(
    ...         "https://reports.example", tasks=[heading], ledger=MemoryLedger(), transport=Offline()
    ...     ) as client:
    ...         await client.report("heading", 350.5)
    ...         print(await client.flush(timeout=0.1), await client.pending())
    ...         await client.close(timeout=0)
    >>> asyncio.run(main())
    False 1
    """

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> Response:
        """Send one POST and return its response."""

    async def close(self) -> None:
        """Let go of connections."""


@lru_cache(maxsize=1)
def user_agent() -> str:
    """Return ``arcwise/<version>``: the library and nothing about the device."""
    from importlib import metadata

    try:
        return f"arcwise/{metadata.version('arcwise')}"
    except metadata.PackageNotFoundError:  # run from source roots on the path
        return "arcwise/0+unknown"


class _Deadline(threading.local):
    """Until when the request of this thread may last, from connecting to the head of its answer.

    httpx bounds each wait for the network alone, so a server that sends a byte now and then could hold a
    request for as long as it likes. httpcore tells of new connections; here they learn to wait only for what
    is left of the request's time.
    """

    at = math.inf
    local = False  # whether nobody but this machine may be connected to

    def left(self, timeout: float | None) -> float | None:
        """Return for how many seconds to wait at most, where httpcore would wait for `timeout`."""
        if self.at == math.inf:  # a request that is not ours, through a client that was passed in
            return timeout
        left = self.at - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request took longer than its timeout")
        return left if timeout is None else min(timeout, left)

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """Take note of a step of httpcore (its extension "trace")."""
        _drop_added_headers(event, info)
        if event.endswith("connect_tcp.started"):
            info["timeout"] = self.left(info["timeout"])
        elif event.endswith(
            (".connect_tcp.complete", ".connect_unix_socket.complete", ".start_tls.complete")
        ):
            stream = info["return_value"]
            if self.local and event.endswith(".connect_tcp.complete") and not _is_local(stream):
                stream.close()
                raise _elsewhere()
            self._bound(stream)

    def _bound(self, stream: Any) -> None:
        read, write, start_tls = stream.read, stream.write, stream.start_tls

        def bounded_write(buffer: bytes, timeout: float | None = None) -> None:
            for start in range(0, len(buffer), _PIECE_BYTES):
                write(buffer[start : start + _PIECE_BYTES], self.left(timeout))

        def bounded_start_tls(
            ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
        ) -> object:
            return start_tls(ssl_context, server_hostname, self.left(timeout))

        stream.read = lambda max_bytes, timeout=None: read(max_bytes, self.left(timeout))
        stream.write = bounded_write
        stream.start_tls = bounded_start_tls


_PIECE_BYTES = 16_384
"""What is written at once: a write that goes on in parts may wait for each of them."""


class _Connections(Generic[ClientT]):
    """The httpx clients of a transport, one for each host of this machine and one for all others."""

    _kind: str
    """What httpx calls them."""

    def __init__(self, client: ClientT | None, options: dict[str, Any]) -> None:
        _check_options(client, options, self._kind)
        self._given = client
        self._options = options
        self._own: dict[str, ClientT] = {}
        self._process: object = None

    def _prepared(
        self, url: str, body: bytes, headers: Mapping[str, str], timeout: float
    ) -> tuple[httpx.Request, ClientT]:
        """Return a request and the client to send it with."""
        with _preparing:
            _let_forks_wait()
            return _request(url, body, headers, timeout), self._client(url)

    def _is_ready(self, url: str) -> bool:
        """Return whether this process has a client for a URL."""
        return self._process is current_process() and host_at_home(url) in self._own

    def _client(self, url: str) -> ClientT:
        """Return the client for a URL: one of ours, over the connections of one that was passed in."""
        import httpx

        # A forked child must not write on the connections of its parent.
        if self._process is not current_process():
            self._own, self._process = {}, current_process()
        host = host_at_home(url)
        if host not in self._own:
            self._own[host] = connected(getattr(httpx, self._kind), self._given, self._options, host)
        return self._own[host]

    def _exit(self, url: str) -> str | None:
        """Return by what way requests for this URL, of this machine, could leave it; None when by none."""
        return way_out(self._given, self._options, url)

    def _leave(self) -> list[ClientT]:
        """Return our clients, which are to be closed; a later request makes others."""
        own, self._own = self._own, {}
        return list(own.values()) if self._process is current_process() else []


class HttpxTransport(_Connections["httpx.Client"]):
    """Requests through httpx.

    Parameters
    ----------
    client
        An `httpx.Client` whose connections to use: its proxies, its TLS, its pool. Nothing else of it takes
        part: no default header, cookie, authentication, parameter, event hook or redirect; what a server
        sets as a cookie does not reach it. It is left open, and the caller must not share it over a fork.
    options
        Without a client: what to make one with: ``proxy``, ``mounts``, ``verify``, ``cert``, ``trust_env``,
        ``http1``, ``http2``, ``limits``, ``transport``.

    Raises
    ------
    ParameterError
        When an option has another name, or the client is no `httpx.Client`.

    Notes
    -----
    A request to this machine (localhost, 127.0.0.0/8, ::1) goes by no proxy of the environment, and to nobody
    else whom such a name leads to. The headers of a request are those that a client sends, Content-Type,
    User-Agent and Authorization, or `post` raises.

    The timeout of a request is a total over connecting, sending and the head of the answer. Looking up a name
    is not part of it, and each address of a name may take as long to connect. Behind an https:// proxy, and
    on connections that somebody else made with a client that is passed in, it bounds each wait instead.

    Examples
    --------
    >>> proxied = HttpxTransport(proxy="http://proxy.example:3128", trust_env=False)

    With httpx's own double of a network:

    >>> import httpx
    >>> from arcwise.client import Caps, Circle, Client, MemoryLedger, Task
    >>> network = httpx.MockTransport(lambda request: httpx.Response(204))
    >>> heading = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=5.0))
    >>> with Client(
    ...     "https://reports.example",
    ...     tasks=[heading],
    ...     ledger=MemoryLedger(),
    ...     transport=HttpxTransport(transport=network),
    ... ) as client:
    ...     accepted = client.report("heading", 350.5)
    >>> client.counters.sent
    1
    """

    _kind = "Client"

    @explained
    def __init__(self, client: httpx.Client | None = None, **options: Any) -> None:
        super().__init__(client, options)
        self._deadline = _Deadline()

    def post(self, url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> Response:
        """Send one POST and return its response."""
        return self._exchange(url, body, headers, timeout, 0)[:2]

    def _exchange(
        self, url: str, body: bytes, headers: Mapping[str, str], timeout: float, most: int
    ) -> Answer:
        """Send one POST; return its response, and its content where it is a 200 and `most` is above 0."""
        request, client = self._prepared(url, body, headers, timeout)
        request.extensions["trace"] = self._deadline.trace
        self._deadline.at = time.monotonic() + timeout
        self._deadline.local = is_loopback_url(url)
        try:
            response = client.send(request, stream=True, auth=None, follow_redirects=False)
            try:
                content = b""
                if response.status_code == ACKNOWLEDGED:
                    # Of a 204, nothing: it lets the connection be used again. httpx's own double has read it.
                    if not response.is_stream_consumed:
                        any(response.iter_raw())
                elif response.status_code == OK and most:
                    for part in response.iter_raw():
                        content = _appended(content, part, most)
                return response.status_code, response.headers.get("Retry-After"), content
            finally:
                response.close()  # any other body is left alone, however long it is
        finally:
            self._deadline.at = math.inf
            self._deadline.local = False

    def close(self) -> None:
        """Close the connections; a client that was passed in stays open. A later `post` opens new ones."""
        for client in self._leave():
            client.close()


class AsyncHttpxTransport(_Connections["httpx.AsyncClient"]):
    """Requests through httpx on an event loop.

    Parameters
    ----------
    client
        An `httpx.AsyncClient` whose connections to use, and nothing else of it, see `HttpxTransport`. It is
        left open.
    options
        Without a client: what to make one with, such as ``proxy=``, ``verify=``, ``cert=`` or ``transport=``.

    Examples
    --------
    >>> import asyncio
    >>> import httpx
    >>> network = httpx.MockTransport(lambda request: httpx.Response(429, headers={"Retry-After": "60"}))
    >>> async def main():
    ...     transport = AsyncHttpxTransport(transport=network)
    ...     answer = await transport.post("https://reports.example", b"", {}, timeout=1.0)
    ...     await transport.close()
    ...     return answer
    >>> asyncio.run(main())
    (429, '60')
    """

    _kind = "AsyncClient"

    @explained
    def __init__(self, client: httpx.AsyncClient | None = None, **options: Any) -> None:
        super().__init__(client, options)

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> Response:
        """Send one POST and return its response."""
        return (await self._exchange(url, body, headers, timeout, 0))[:2]

    async def _exchange(
        self, url: str, body: bytes, headers: Mapping[str, str], timeout: float, most: int
    ) -> Answer:
        """Send one POST; return its response, and its content where it is a 200 and `most` is above 0."""
        import asyncio

        # httpx bounds each wait for the network alone. Not wait_for, see `aio`: it can lose a cancellation.
        sending = asyncio.ensure_future(self._post(url, body, headers, timeout, most))
        try:
            await asyncio.wait([sending], timeout=timeout)
            is_late = not sending.done()
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)  # until it has closed its connection
        if is_late:
            if self._options.get("http2"):  # then it has not: the next request would wait on it, too
                await self.close()
            raise TimeoutError("the request took longer than its timeout")
        return sending.result()

    async def _prepared_in_thread(
        self, url: str, body: bytes, headers: Mapping[str, str], timeout: float
    ) -> tuple[httpx.Request, httpx.AsyncClient]:
        """Prepare a first request, which imports httpx and reads certificates: that takes up to a second.

        In a thread of its own, since those of the event loop do not run in a forked child.
        """
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        executor = ThreadPoolExecutor(1)
        work = partial(self._prepared, url, body, headers, timeout)
        try:
            prepared = await asyncio.get_running_loop().run_in_executor(executor, work)
        except BaseException:
            executor.shutdown(wait=False)
            raise
        executor.shutdown()
        return prepared

    async def _post(
        self, url: str, body: bytes, headers: Mapping[str, str], timeout: float, most: int
    ) -> Answer:
        if self._is_ready(url):
            request, client = self._prepared(url, body, headers, timeout)
        else:
            request, client = await self._prepared_in_thread(url, body, headers, timeout)
        request.extensions["trace"] = _stay_here if is_loopback_url(url) else _go_anywhere
        response = await client.send(request, stream=True, auth=None, follow_redirects=False)
        try:
            content = b""
            if response.status_code == ACKNOWLEDGED:
                if not response.is_stream_consumed:
                    async for part in response.aiter_raw():
                        if part:
                            break
            elif response.status_code == OK and most:
                async for part in response.aiter_raw():
                    content = _appended(content, part, most)
            return response.status_code, response.headers.get("Retry-After"), content
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close the connections; a client that was passed in stays open. A later `post` opens new ones."""
        for client in self._leave():
            await client.aclose()


def _is_local(stream: Any) -> bool:
    """Return whether a connection of httpcore leads to this machine."""
    address = stream.get_extra_info("server_addr")
    return bool(address) and is_loopback(str(address[0]))


def _elsewhere() -> ConnectionError:
    return ConnectionError("the URL is of this machine, but its name leads to another one")


def _drop_added_headers(event: str, info: dict[str, Any]) -> None:
    """Leave a request the headers of a report and what HTTP needs, just before they are written.

    That includes the password of a proxy, but no other header for it. A tracer adds one identifier to all
    requests of a process, and perhaps the user's.
    """
    if event.endswith(".send_request_headers.started") and (request := info["request"]).method == b"POST":
        request.headers = [each for each in request.headers if each[0].lower() in _ON_THE_WIRE]


async def _go_anywhere(event: str, info: dict[str, Any]) -> None:
    """Take note of a step of httpcore (its extension "trace")."""
    _drop_added_headers(event, info)


async def _stay_here(event: str, info: dict[str, Any]) -> None:
    """Refuse a connection to another machine (httpcore's extension "trace")."""
    _drop_added_headers(event, info)
    if event.endswith(".connect_tcp.complete") and not _is_local(info["return_value"]):
        await info["return_value"].aclose()
        raise _elsewhere()


def _appended(content: bytes, part: bytes, most: int) -> bytes:
    if len(content) + len(part) > most:
        raise ConnectionError(f"the response has more than {most} bytes")
    return content + part


def checked_response(status: object, retry_after: object) -> Response:
    """Return a `Response` with a plain integer as its status, or raise `TypeError` for other types.

    The check is needed because an app's own transport may return anything.
    """
    if (
        not isinstance(status, int)  # an `http.HTTPStatus` is one
        or isinstance(status, bool)
        or not isinstance(retry_after, (str, NoneType))
    ):
        raise TypeError("a transport must return an integer status and a Retry-After header or None")
    return int(status), retry_after


_OPTIONS = ("cert", "http1", "http2", "limits", "mounts", "proxy", "transport", "trust_env", "verify")
"""What of an httpx client concerns connections. Headers, cookies and redirects are not for the app to set."""

HEADERS: Final = ("Content-Type", "User-Agent", "Authorization")
"""All headers that a report has, but what HTTP needs (Host, Content-Length)."""

_ON_THE_WIRE = frozenset(
    name.lower().encode()
    for name in (*HEADERS, "Host", "Content-Length", "Transfer-Encoding", "Proxy-Authorization")
)


def _check_options(client: object, options: Mapping[str, object], kind: str) -> None:
    # At once: httpx is loaded with the first request, where a wrong name would look like network trouble.
    wrong = sorted(set(options) - set(_OPTIONS))
    if wrong:
        raise ParameterError(f"options must be among {', '.join(_OPTIONS)}; got {', '.join(wrong)}")
    if client is not None and options:
        raise ParameterError(
            f"give either an httpx client or options, not both; got {', '.join(sorted(options))} beside it"
        )
    check_given(client, kind)


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise `ParameterError` for a header that reports do not have: it could name the device."""
    known = {name.lower() for name in HEADERS}
    wrong = sorted(name for name in headers if name.lower() not in known)
    if wrong:
        raise ParameterError(f"headers must be among {', '.join(HEADERS)}; got {', '.join(wrong)}")


_preparing = threading.Lock()


def _nothing_prepared() -> Pause:
    """Wait for what a first request imports: a child forked meanwhile would have half of it for good."""
    with _preparing:
        yield


@lru_cache(maxsize=1)
def _let_forks_wait() -> None:
    # First, because its hook holds a lock that imports need: that of what is registered later runs earlier.
    import logging  # noqa: F401

    pause_for_forks(lambda: [_nothing_prepared()])


def _hide_headers() -> None:
    """Keep the key out of the log: with HTTP/2, hpack writes all headers there at the level DEBUG."""
    import logging

    logger = logging.getLogger("hpack")
    if logger.level < logging.INFO:
        logger.setLevel(logging.INFO)


def _request(url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> httpx.Request:
    """Build a request without a client's defaults, which are cookies and a list of supported encodings.

    Raises `ParameterError` for a header that reports do not have.
    """
    import encodings.idna  # noqa: F401 (Python imports it with the first name that is looked up)

    import httpx

    check_headers(headers)
    _hide_headers()
    extensions = {"timeout": httpx.Timeout(timeout).as_dict()}
    return httpx.Request("POST", url, content=body, headers=dict(headers), extensions=extensions)
