"""HTTP messages as bytes in the known-length form (RFC 9292), which is the content of an oblivious request.

Decoding is strict and bounded. A stated length never causes a read or an allocation beyond the available
bytes, and the head has at most `MAX_HEAD_BYTES` bytes for any length of the message. Errors do not repeat a
message's content.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from arcwise.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Sequence

Fields: TypeAlias = "tuple[tuple[bytes, bytes], ...]"
"""Names and values of header fields, in order."""

_LEAST_BYTES: Final = 512
"""The shortest padded message; all single reports and the answers to them have this length."""

MAX_HEAD_BYTES: Final = 4096
"""The most bytes that a message may have besides its content: control data, interim responses, fields."""

MAX_FIELDS: Final = 64
"""The largest number of header fields that a message may have, and of trailers."""

_REQUEST: Final = 0
_RESPONSE: Final = 1
_INTERIM: Final = 200  # a lower status announces another response


class Request(NamedTuple):
    """A request: its control data, header fields and content; trailers are dropped."""

    method: bytes
    scheme: bytes
    authority: bytes
    path: bytes
    fields: Fields = ()
    content: bytes = b""


class Response(NamedTuple):
    """A final response; interim responses and trailers are dropped."""

    status: int
    fields: Fields = ()
    content: bytes = b""


def encode_request(request: Request) -> bytes:
    """Return the bytes of a request (RFC 9292, section 3.1)."""
    control = b"".join(
        _prefixed(part) for part in (request.method, request.scheme, request.authority, request.path)
    )
    return b"\0" + control + _sections(request.fields, request.content)


def encode_response(response: Response) -> bytes:
    """Return the bytes of a response (RFC 9292, section 3.1)."""
    return b"\1" + _integer(response.status) + _sections(response.fields, response.content)


def padded(message: bytes) -> bytes:
    """Return a message padded with zeros, so that its length is a power of two, at least 512 bytes."""
    return message.ljust(padded_length(len(message)), b"\0")


def padded_length(length: int) -> int:
    """Return the padded length of a message of `length` bytes."""
    return max(_LEAST_BYTES, 1 << (length - 1).bit_length())


def decode_request(message: bytes) -> Request:
    """Return the request in a message of the known-length form, padded or not.

    Raises `WireError` if the bytes are not such a request, or its head is too large.
    """
    reader = _Reader(message)
    if reader.integer() != _REQUEST:
        raise WireError("the message is not a request of known length")
    method, scheme, authority, path = (reader.of_head() for _ in range(4))
    return Request(method, scheme, authority, path, *reader.sections())


def decode_response(message: bytes) -> Response:
    """Return the final response in a message of the known-length form, padded or not.

    Raises `WireError` if the bytes are not such a response, or its head is too large.
    """
    reader = _Reader(message)
    if reader.integer() != _RESPONSE:
        raise WireError("the message is not a response of known length")
    while (status := reader.integer()) < _INTERIM:
        reader.of_head()
    if status > 599:
        raise WireError("the status of the response is not one of HTTP")
    return Response(status, *reader.sections())


def _integer(value: int) -> bytes:
    """Return an integer in the variable-length encoding (RFC 9000, section 16)."""
    for exponent, size in enumerate((1, 2, 4, 8)):
        if value < 1 << (8 * size - 2):
            return (value | exponent << (8 * size - 2)).to_bytes(size, "big")
    raise WireError("an integer of a message must be below 2**62")


def _prefixed(part: bytes) -> bytes:
    return _integer(len(part)) + part


def _sections(fields: Sequence[tuple[bytes, bytes]], content: bytes) -> bytes:
    lines = b"".join(_prefixed(name) + _prefixed(value) for name, value in fields)
    return _prefixed(lines) + _prefixed(content) + b"\0"


class _Reader:
    def __init__(self, message: bytes) -> None:
        self._message = message
        self._at = 0
        self._head_left = MAX_HEAD_BYTES

    @property
    def _at_end(self) -> bool:
        return self._at >= len(self._message)

    def integer(self) -> int:
        if not self._at_end and (first := self._message[self._at]) < 64:  # one byte, the usual case
            self._at += 1
            return first
        size = 1 << (self._taken(1)[0] >> 6)
        self._at -= 1
        return int.from_bytes(self._taken(size), "big") & ((1 << (8 * size - 2)) - 1)

    def prefixed(self) -> bytes:
        return self._taken(self.integer())

    def of_head(self) -> bytes:
        """Return a part of the head; its bytes and one more for its length count towards the limit."""
        size = self.integer()
        self._head_left -= 1 + size
        if self._head_left < 0:
            raise WireError(f"the head of the message has more than {MAX_HEAD_BYTES} bytes")
        return self._taken(size)

    def sections(self) -> tuple[Fields, bytes]:
        """Return the fields and the content; empty sections may be missing at the end."""
        fields = _Reader(b"" if self._at_end else self.of_head())._lines()
        content = b"" if self._at_end else self.prefixed()
        if not self._at_end:
            _Reader(self.of_head())._lines()
        if self._message.count(0, self._at) != len(self._message) - self._at:
            raise WireError("the message is followed by bytes that are not zeros")
        return fields, content

    def _lines(self) -> Fields:
        lines: list[tuple[bytes, bytes]] = []
        while not self._at_end:
            if len(lines) == MAX_FIELDS:
                raise WireError(f"the message has more than {MAX_FIELDS} fields")
            lines.append((self.prefixed(), self.prefixed()))
        return tuple(lines)

    def _taken(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._message):
            raise WireError("the message ends in the middle of a part")
        part = self._message[self._at : end]
        self._at = end
        return part
