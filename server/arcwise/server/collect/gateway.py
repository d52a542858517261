"""The gateway of Oblivious HTTP (RFC 9458): opens requests from relays, and takes the reports in them.

After a request is opened, refusals are sent inside the encrypted answer, where the relay cannot see them.
Only reports can be sent this way.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from arcwise.errors import StoreError, WireError
from arcwise.oblivious.binary_http import (
    MAX_HEAD_BYTES,
    Request,
    Response,
    decode_request,
    encode_response,
    padded,
    padded_length,
)
from arcwise.oblivious.messages import (
    REQUEST_MEDIA_TYPE,
    REQUEST_OVERHEAD,
    RESPONSE_MEDIA_TYPE,
    UnknownKeyError,
    encode_key_configs,
    open_request,
)
from arcwise.server.access.gate import VIA_RELAY
from arcwise.server.access.rates import exact_address_of
from arcwise.server.collect.event_loop import Ready
from arcwise.server.collect.gateway_keys import GatewayKeyFile
from arcwise.server.collect.ingest import COUNTED, GATEWAY_PATH, task_in_end
from arcwise.server.problems import Problem, internal_error
from arcwise.server.process.lanes import STANDING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from arcwise.oblivious import GatewayKey
    from arcwise.oblivious.messages import Opened
    from arcwise.server.collect.clock import Clock
    from arcwise.server.collect.event_loop import Done, Taker
    from arcwise.server.collect.ingest import Ingest
    from arcwise.server.settings import Settings

_LOGGER = logging.getLogger("arcwise.server")


class Gateway:
    """Opens encrypted requests, hands their reports to `Ingest`, and encrypts its answers.

    `clock` decides when replaced keys expire. Raises `StoreError` when the file of keys in `settings` cannot
    be read.
    """

    def __init__(self, ingest: Ingest, clock: Clock, settings: Settings) -> None:
        self._ingest = ingest
        self._clock = clock
        self._file = GatewayKeyFile(settings.gateway_keys)
        self._most = padded_length(settings.max_body_bytes + MAX_HEAD_BYTES) + REQUEST_OVERHEAD
        self._relays = frozenset(settings.known_relays)
        self._keys: list[GatewayKey] = self._file.valid(clock.time())
        self._failed = False

    def refresh(self) -> None:
        """Read the keys again; if the file cannot be read, the present keys stay."""
        try:
            self._keys = self._file.valid(self._clock.time())
        except StoreError as error:
            if not self._failed:
                _LOGGER.warning("%s", error)
            self._failed = True
        else:
            self._failed = False

    @property
    def configuration(self) -> bytes:
        """The configuration of the newest key, bytes of ``application/ohttp-keys``."""
        return encode_key_configs([self._keys[0].config])

    def taker(self, scope: Scope) -> Taker | None:
        """Return the function that takes a fully received request to the gateway; None for other requests."""
        return self.take if scope["method"] == "POST" and scope["path"] == GATEWAY_PATH else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request: 200 with the encrypted answer, or a problem if it cannot be opened."""
        answered: asyncio.Future[ASGIApp] = asyncio.get_running_loop().create_future()

        def done(answer: ASGIApp) -> None:
            if not answered.done():  # it is done if the request was cancelled because its sender is gone
                answered.set_result(answer)

        try:
            self._admit(scope)
            body = await self._ingest.bodies.read(scope, receive, most=self._most)
        except Problem as problem:
            done(self._ingest.refusal(problem, b""))
        else:
            self._take(scope, body, done)
        await (await answered)(scope, receive, send)

    def take(self, scope: Scope, body: bytes, done: Done) -> None:
        """Take a fully received request; see `Taker`."""
        try:
            self._admit(scope)
            self._ingest.bodies.check_size(len(body), most=self._most)
        except Exception as error:
            done(self._ingest.refusal(error, body))
        else:
            self._take(scope, body, done)

    def _admit(self, scope: Scope) -> None:
        """Refuse other media types, and rate-limit all senders except relays, which limit their clients."""
        if exact_address_of(scope) not in self._relays:
            self._ingest.gate.slow_down_address(scope)
        _check_type(scope)

    def _take(self, scope: Scope, body: bytes, done: Done) -> None:
        """Hand the report in an encapsulated request to `Ingest`."""
        try:
            opened = self._open(body)
        except Exception as error:
            done(self._ingest.refusal(error, body))
            return
        settle = partial(self._settle, opened, done)
        try:
            request = _decoded(opened)
        except Exception as error:
            settle(self._ingest.refusal(error, body))
            return
        path = request.path.decode("latin-1")
        task_id = task_in_end(path) if request.method == b"POST" else None
        if task_id is None:
            problem = Problem(404, "not-found", "Through a relay, only reports can be sent.")
            settle(self._ingest.refusal(problem, body))
            return
        # The report is treated as if it had come directly from an unknown sender.
        inside: dict[str, Any] = {
            "type": "http",
            "method": "POST",
            "path": path,
            "headers": [(name.lower(), value) for name, value in request.fields],
            "client": None,
            VIA_RELAY: True,
            STANDING: scope.get(STANDING),
        }
        self._ingest.take(task_id, inside, request.content, settle)

    def _open(self, body: bytes) -> Opened:
        try:
            return open_request(self._keys, body)
        except UnknownKeyError:
            raise Problem(
                400,
                "ohttp-key",
                "The request is encrypted to a key that this gateway does not have, or no longer has.",
                uri=_UNKNOWN_KEY,
            ) from None
        except WireError as error:
            raise _malformed(error) from None

    def _settle(self, opened: Opened, done: Done, answer: ASGIApp) -> None:
        if answer is COUNTED:
            done(_ready(opened, _COUNTED_MESSAGE))
        else:
            done(partial(_sealed, opened, answer))


def _decoded(opened: Opened) -> Request:
    try:
        return decode_request(opened.message)
    except WireError as error:
        raise _malformed(error) from None


def _malformed(error: WireError) -> Problem:
    return Problem(400, "malformed-oblivious", f"Not an oblivious request: {error}.")


def _ready(opened: Opened, message: bytes) -> Ready:
    sealed = opened.seal_answer(message)
    return Ready(HTTPStatus.OK, (*_FIELDS, (b"content-length", b"%d" % len(sealed))), sealed)


async def _sealed(opened: Opened, answer: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the answer to the inner request, encrypted."""
    inside = _Answer()
    try:
        await answer(scope, receive, inside)
    finally:  # also after a defect, which the server logs
        await _ready(opened, inside.message)(scope, receive, send)


class _Answer:
    """Keeps the answer that an endpoint sends."""

    def __init__(self) -> None:
        self._status = 0
        self._fields: list[tuple[bytes, bytes]] = []
        self._content = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._fields = [(bytes(name), bytes(value)) for name, value in message["headers"]]
        else:
            self._content += message.get("body", b"")

    @property
    def message(self) -> bytes:
        """The answer in Binary HTTP, padded."""
        status = self._status or internal_error().status
        return padded(encode_response(Response(status, tuple(self._fields), self._content)))


_UNKNOWN_KEY = "https://iana.org/assignments/http-problem-types#ohttp-key"  # RFC 9458, section 5.3
_REQUEST_TYPE = REQUEST_MEDIA_TYPE.encode("ascii")
_COUNTED_MESSAGE = padded(encode_response(Response(COUNTED.status)))
_FIELDS = ((b"content-type", RESPONSE_MEDIA_TYPE.encode("ascii")), (b"cache-control", b"no-store"))


def _check_type(scope: Scope) -> None:
    if not any(
        name == b"content-type" and value.lower() == _REQUEST_TYPE for name, value in scope["headers"]
    ):
        raise Problem(415, "media-type", f"The Content-Type of the body must be {REQUEST_MEDIA_TYPE}.")
