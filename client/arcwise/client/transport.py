"""HTTP transports: they send a body in one POST and return the status and ``Retry-After``.

httpx is imported with the first request, not before. The transports do not retry, follow redirects or keep
cookies. They send only headers from a fixed list of three, so that headers reveal nothing about the device. A
tracer that has patched httpx adds headers (`traceparent`, `baggage`), which are removed again. Requests to
this machine use no proxy, and fail if the machine's name leads to another machine.
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
"""The HTTP status and the ``Retry-After`` header as received."""

Answer: TypeAlias = tuple[int, str | None, bytes]
"""A `Response` and its content."""

OK: Final = 200

ClientT = TypeVar("ClientT")


class Transport(Protocol):
    """The interface that an `Uplink` sends with. If `post` raises anything, the batch is tried again.

    Examples
    --------
    A transport that writes requests to a file, for another program to carry away:

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
        """Close the connections."""


class AsyncTransport(Protocol):
    """The interface that an `AsyncUplink` sends with. If `post` raises anything, the batch is tried again.

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
        """Close the connections."""


@lru_cache(maxsize=1)
def user_agent() -> str:
    """Return ``arcwise/<version>``, which identifies the library and reveals nothing about the device."""
    from importlib import metadata

    try:
        return f"arcwise/{metadata.version('arcwise')}"
    except metadata.PackageNotFoundError:  # run from source roots on the path
        return "arcwise/0+unknown"


class _Deadline(threading.local):
    """The time limit for a request of this thread, from connecting to the head of the response.

    httpx limits only each single wait for the network, so a server that sends a byte now and then could hold
    a request for as long as it likes. httpcore's trace reports new connections, and this class makes them
    wait only for the rest of the request's time.
    """

    at = math.inf
    local = False  # whether connections may lead only to this machine

    def left(self, timeout: float | None) -> float | None:
        """Return the longest wait, in seconds, for a step that httpcore would give `timeout` seconds."""
        if self.at == math.inf:  # a request that is not ours, through a client that was passed in
            return timeout
        left = self.at - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request took longer than its timeout")
        return left if timeout is None else min(timeout, left)

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """Handle a step of httpcore (its extension "trace")."""
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
"""Largest write in one call: a longer write is sent in parts, and each part may have to wait."""


class _Connections(Generic[ClientT]):
    """The httpx clients of a transport: one per host name of this machine, and one for all other hosts."""

    _kind: str
    """The name of their class in httpx."""

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
        """Return our client for a URL; it uses the connections of the client that was passed in, if any."""
        import httpx

        # A forked child must not write on the connections of its parent.
        if self._process is not current_process():
            self._own, self._process = {}, current_process()
        host = host_at_home(url)
        if host not in self._own:
            self._own[host] = connected(getattr(httpx, self._kind), self._given, self._options, host)
        return self._own[host]

    def _exit(self, url: str) -> str | None:
        """Return how requests could leave this machine although the URL names it; None if they cannot."""
        return way_out(self._given, self._options, url)

    def _leave(self) -> list[ClientT]:
        """Return our clients for closing; a later request creates new ones."""
        own, self._own = self._own, {}
        return list(own.values()) if self._process is current_process() else []


class HttpxTransport(_Connections["httpx.Client"]):
    """Sends requests through httpx.

    Parameters
    ----------
    client
        An `httpx.Client` to take connections from, with its proxies, TLS and pool. The rest of the client is
        not used: no default headers, cookies, authentication, parameters, event hooks or redirects. Cookies
        that a server sets do not reach this client. The transport never closes the client, and the caller
        must not share it over a fork.
    options
        Without a client, options for a new one: ``proxy``, ``mounts``, ``verify``, ``cert``, ``trust_env``,
        ``http1``, ``http2``, ``limits``, ``transport``.

    Raises
    ------
    ParameterError
        When an option has another name, or the client is not an `httpx.Client`.

    Notes
    -----
    A request to this machine (localhost, 127.0.0.0/8, ::1) uses no proxy of the environment, and fails before
    anything is sent if the name leads to another machine. A request has only the headers Content-Type,
    User-Agent and Authorization; for any other header `post` raises `ParameterError`.

    The timeout of a request is a total over connecting, sending and the head of the response. It does not
    include the name look-up, and if a name has several addresses, connecting to each of them may take that
    long. Behind an https:// proxy, and on connections that the app's own client opened before, the timeout
    limits each single wait instead of the total.

    Examples
    --------
    >>> proxied = HttpxTransport(proxy="http://proxy.example:3128", trust_env=False)

    With the mock network of httpx:

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
        """Send one POST; return its response, and its content if the status is 200 and `most` is above 0."""
        request, client = self._prepared(url, body, headers, timeout)
        request.extensions["trace"] = self._deadline.trace
        self._deadline.at = time.monotonic() + timeout
        self._deadline.local = is_loopback_url(url)
        try:
            response = client.send(request, stream=True, auth=None, follow_redirects=False)
            try:
                content = b""
                if response.status_code == ACKNOWLEDGED:
                    # Reading the empty body of a 204 frees the connection. httpx's mock has read it already.
                    if not response.is_stream_consumed:
                        any(response.iter_raw())
                elif response.status_code == OK and most:
                    for part in response.iter_raw():
                        content = _appended(content, part, most)
                return response.status_code, response.headers.get("Retry-After"), content
            finally:
                response.close()  # any other body is not read, however long it is
        finally:
            self._deadline.at = math.inf
            self._deadline.local = False

    def close(self) -> None:
        """Close all connections but those of a client that was passed in; a later `post` opens new ones."""
        for client in self._leave():
            client.close()


class AsyncHttpxTransport(_Connections["httpx.AsyncClient"]):
    """Sends requests through httpx on an event loop.

    Parameters
    ----------
    client
        An `httpx.AsyncClient` to take connections from; nothing else of the client is used, see
        `HttpxTransport`. The transport never closes the client.
    options
        Without a client, options for a new one, such as ``proxy=``, ``verify=``, ``cert=`` or ``transport=``.

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
        """Send one POST; return its response, and its content if the status is 200 and `most` is above 0."""
        import asyncio

        # httpx limits only each single wait. Not wait_for, which can lose a cancellation, see `aio._wait`.
        sending = asyncio.ensure_future(self._post(url, body, headers, timeout, most))
        try:
            await asyncio.wait([sending], timeout=timeout)
            is_late = not sending.done()
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)  # until it has closed its connection
        if is_late:
            if self._options.get("http2"):  # the connection is still open, and the next request would use it
                await self.close()
            raise TimeoutError("the request took longer than its timeout")
        return sending.result()

    async def _prepared_in_thread(
        self, url: str, body: bytes, headers: Mapping[str, str], timeout: float
    ) -> tuple[httpx.Request, httpx.AsyncClient]:
        """Prepare a first request in a new thread: importing httpx and reading certificates takes up to 1 s.

        The event loop's own threads do not run in a forked child.
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
        """Close all connections but those of a client that was passed in; a later `post` opens new ones."""
        for client in self._leave():
            await client.aclose()


def _is_local(stream: Any) -> bool:
    """Return whether an httpcore connection leads to this machine."""
    address = stream.get_extra_info("server_addr")
    return bool(address) and is_loopback(str(address[0]))


def _elsewhere() -> ConnectionError:
    return ConnectionError("the URL is of this machine, but its name leads to another machine")


def _drop_added_headers(event: str, info: dict[str, Any]) -> None:
    """Remove all headers except those of a report and of HTTP itself, just before they are written.

    The password for a proxy stays, but no other header for the proxy. A tracer would otherwise add the same
    identifier to all requests of a process, perhaps including requests that identify the user.
    """
    if event.endswith(".send_request_headers.started") and (request := info["request"]).method == b"POST":
        request.headers = [each for each in request.headers if each[0].lower() in _ON_THE_WIRE]


async def _go_anywhere(event: str, info: dict[str, Any]) -> None:
    """Handle a step of httpcore (its extension "trace")."""
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
        not isinstance(status, int)  # an `http.HTTPStatus` is an int too
        or isinstance(status, bool)
        or not isinstance(retry_after, (str, NoneType))
    ):
        raise TypeError("a transport must return an integer status and a Retry-After header or None")
    return int(status), retry_after


_OPTIONS = ("cert", "http1", "http2", "limits", "mounts", "proxy", "transport", "trust_env", "verify")
"""The httpx options that concern connections; an app cannot set headers, cookies or redirects."""

HEADERS: Final = ("Content-Type", "User-Agent", "Authorization")
"""All headers of a report, except those that HTTP needs (Host, Content-Length)."""

_ON_THE_WIRE = frozenset(
    name.lower().encode()
    for name in (*HEADERS, "Host", "Content-Length", "Transfer-Encoding", "Proxy-Authorization")
)


def _check_options(client: object, options: Mapping[str, object], kind: str) -> None:
    # Fail early: httpx is loaded with the first request, where a wrong name would look like network trouble.
    wrong = sorted(set(options) - set(_OPTIONS))
    if wrong:
        raise ParameterError(f"options must be among {', '.join(_OPTIONS)}; got {', '.join(wrong)}")
    if client is not None and options:
        raise ParameterError(
            f"give either an httpx client or options, not both; got {', '.join(sorted(options))} with it"
        )
    check_given(client, kind)


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise `ParameterError` for a header that reports do not have, since it could identify the device."""
    known = {name.lower() for name in HEADERS}
    wrong = sorted(name for name in headers if name.lower() not in known)
    if wrong:
        raise ParameterError(f"headers must be among {', '.join(HEADERS)}; got {', '.join(wrong)}")


_preparing = threading.Lock()


def _nothing_prepared() -> Pause:
    """Delay forks during a first request's imports: a child would keep half-imported modules for ever."""
    with _preparing:
        yield


@lru_cache(maxsize=1)
def _let_forks_wait() -> None:
    # Import logging first: its fork hook holds a lock that imports need, and later hooks run earlier.
    import logging  # noqa: F401

    pause_for_forks(lambda: [_nothing_prepared()])


def _hide_headers() -> None:
    """Keep the key out of the log: with HTTP/2, hpack logs all headers at the level DEBUG."""
    import logging

    logger = logging.getLogger("hpack")
    if logger.level < logging.INFO:
        logger.setLevel(logging.INFO)


def _request(url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> httpx.Request:
    """Build a request without a client's defaults (cookies and a list of supported encodings).

    Raises `ParameterError` for a header that reports do not have.
    """
    import encodings.idna  # noqa: F401 (Python imports it at the first name look-up)

    import httpx

    check_headers(headers)
    _hide_headers()
    extensions = {"timeout": httpx.Timeout(timeout).as_dict()}
    return httpx.Request("POST", url, content=body, headers=dict(headers), extensions=extensions)
