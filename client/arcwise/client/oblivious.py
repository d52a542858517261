"""Transports over Oblivious HTTP (RFC 9458): the relay sees device addresses, the server sees reports.

Each request is encrypted to the server's gateway with a fresh key and sent to the relay. This module needs
``arcwise[oblivious]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from arcwise.checks import explained, shown
from arcwise.client.transport import OK, AsyncHttpxTransport, HttpxTransport, check_headers
from arcwise.errors import ParameterError, WireError
from arcwise.urls import checked_url, is_loopback_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx

    from arcwise.client.transport import Answer, Response
    from arcwise.oblivious.messages import KeyConfig, Sent

_MAX_ANSWER_BYTES: Final = 64 << 10
_OUTSIDE: Final = ("user-agent",)
"""Headers that go to the relay but not to the server: the name of this library."""


class ObliviousTransport(HttpxTransport):
    """Sends requests through a relay, which sees the device's address, to a gateway, which sees the content.

    This hides addresses from the server's operator only if somebody else runs the relay and does not share
    the addresses.

    Parameters
    ----------
    relay
        URL of the relay's resource that forwards to the server's gateway.
    key_config
        The gateway's ``application/ohttp-keys``, as `arcwise key gateway` writes it. Ship it with the app,
        like a task: a server could give each device that fetches it a different key, and so identify it.
    client, options
        The parameters of `HttpxTransport`, for the connection to the relay.

    Raises
    ------
    MissingExtraError
        Without ``arcwise[oblivious]``.
    ParameterError
        When an argument is out of its bounds.
    WireError
        When `key_config` does not hold a key of the suite X25519, HKDF-SHA256, AES-128-GCM.

    Notes
    -----
    A request is padded to a power of two of at least 512 bytes, so that single reports look alike. Each retry
    is encrypted again. The server's ``Retry-After`` is inside the encrypted response. A 429 of the relay
    itself counts as a 429 of the server, and a 5xx of the relay counts as a 503. Any other status of the
    relay, and a response that cannot be decrypted, count as network trouble: the batch is tried again.

    Examples
    --------
    >>> from arcwise.client import Caps, Circle, Client, MemoryLedger, ObliviousTransport, Task
    >>> from arcwise.oblivious import GatewayKey, encode_key_configs
    >>> key_config = encode_key_configs([GatewayKey.generate(1).config])  # ships with the app
    >>> client = Client(
    ...     "https://reports.example",
    ...     tasks=[Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=5.0))],
    ...     ledger=MemoryLedger(),
    ...     transport=ObliviousTransport("https://relay.example/arcwise", key_config),
    ... )
    """

    _seals = True  # so that a key is never in the clear

    @explained
    def __init__(
        self, relay: str, key_config: bytes, client: httpx.Client | None = None, **options: Any
    ) -> None:
        super().__init__(client, **options)
        self._route = _Route(relay, key_config)

    def post(self, url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> Response:
        """Send one POST by way of the relay and return the response that the gateway has sealed."""
        sent = self._route.sealed(url, body, headers)
        outside = self._route.headers(headers)
        answer = self._exchange(self._route.relay, sent.message, outside, timeout, _MAX_ANSWER_BYTES)
        return _opened(sent, answer)

    def _exit(self, url: str) -> str | None:
        """Return how requests could leave this machine; None if they cannot."""
        return self._route.exit() or super()._exit(self._route.relay)


class AsyncObliviousTransport(AsyncHttpxTransport):
    """`ObliviousTransport` on an event loop, with the same arguments and errors.

    Examples
    --------
    >>> import asyncio, httpx
    >>> from arcwise.client import AsyncObliviousTransport
    >>> from arcwise.oblivious import GatewayKey, encode_key_configs
    >>> network = httpx.MockTransport(lambda request: httpx.Response(429, headers={"Retry-After": "60"}))
    >>> async def main():
    ...     transport = AsyncObliviousTransport(
    ...         "https://relay.example/arcwise",
    ...         encode_key_configs([GatewayKey.generate(1).config]),
    ...         transport=network,
    ...     )
    ...     return await transport.post("https://reports.example/v1/x", b"", {}, timeout=1.0)
    >>> asyncio.run(main())
    (429, '60')
    """

    _seals = True  # so that a key is never in the clear

    @explained
    def __init__(
        self, relay: str, key_config: bytes, client: httpx.AsyncClient | None = None, **options: Any
    ) -> None:
        super().__init__(client, **options)
        self._route = _Route(relay, key_config)

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> Response:
        """Send one POST by way of the relay and return the response that the gateway has sealed."""
        sent = self._route.sealed(url, body, headers)
        outside = self._route.headers(headers)
        answer = await self._exchange(self._route.relay, sent.message, outside, timeout, _MAX_ANSWER_BYTES)
        return _opened(sent, answer)

    def _exit(self, url: str) -> str | None:
        """Return how requests could leave this machine; None if they cannot."""
        return self._route.exit() or super()._exit(self._route.relay)


class _Route:
    """The relay's URL and the gateway's key for requests.

    Its methods import the extra's packages, so that `arcwise.client` can be imported without them.
    """

    def __init__(self, relay: str, key_config: bytes) -> None:
        from arcwise.oblivious.messages import decode_key_configs

        self.relay = checked_url(relay, "relay")
        if not isinstance(key_config, bytes):
            raise ParameterError(
                "key_config must be the bytes of a file that `arcwise key gateway` wrote, "
                f"got {shown(key_config)}"
            )
        self._config: KeyConfig = decode_key_configs(key_config)[0]

    def exit(self) -> str | None:
        return None if is_loopback_url(self.relay) else "a relay on another machine"

    def sealed(self, url: str, body: bytes, headers: Mapping[str, str]) -> Sent:
        import httpx

        from arcwise.oblivious.binary_http import Request, encode_request, padded
        from arcwise.oblivious.messages import encapsulate

        check_headers(headers)
        to = httpx.URL(url)
        inside = tuple(
            (name.lower().encode("ascii"), value.encode("ascii"))
            for name, value in headers.items()
            if name.lower() not in _OUTSIDE
        )
        request = Request(b"POST", to.raw_scheme, to.netloc, to.raw_path, inside, body)
        return encapsulate(self._config, padded(encode_request(request)))

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        from arcwise.oblivious.messages import REQUEST_MEDIA_TYPE

        outside = {name: value for name, value in headers.items() if name.lower() in _OUTSIDE}
        return {"Content-Type": REQUEST_MEDIA_TYPE, **outside}


def _opened(sent: Sent, answer: Answer) -> Response:
    from arcwise.oblivious.binary_http import decode_response

    status, retry_after, content = answer
    if status == OK:
        response = decode_response(sent.open_answer(content))
        inside = (value for name, value in response.fields if name.lower() == b"retry-after")
        found = next(inside, None)
        return response.status, None if found is None else found.decode("latin-1")
    if status == 429:
        return status, retry_after
    if status >= 500:  # a 501 rejects a batch permanently only if the server sends it, not the relay
        return 503, retry_after
    # A 204 is an error here too: it acknowledges a batch only if it comes from the gateway.
    raise WireError(f"the relay answered with status {status}")
