"""Oblivious HTTP (RFC 9458) in one suite: X25519 with HKDF-SHA256, HKDF-SHA256 and AES-128-GCM.

This module has the parts that RFC 9458 adds to HPKE: key configurations, the head of a request, and the
encryption of its answer.
"""

from __future__ import annotations

import hmac
import os
import struct
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from arcwise.checks import checked_integer, shown
from arcwise.errors import ParameterError, WireError
from arcwise.oblivious.hpke import (
    IDS,
    KEY_BYTES,
    NONCE_BYTES,
    PUBLIC_BYTES,
    Context,
    Receiver,
    Sender,
    expand,
)
from arcwise.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

REQUEST_MEDIA_TYPE: Final = "message/ohttp-req"
RESPONSE_MEDIA_TYPE: Final = "message/ohttp-res"

_HEAD: Final = struct.Struct(">BHHH")
_CONFIG_HEAD: Final = struct.Struct(">BH")
_PAIR: Final = struct.Struct(">HH")
_LENGTH: Final = struct.Struct(">H")
_SALT_BYTES: Final = 16  # of an answer: the larger of the AEAD's key and nonce sizes
_TAG_BYTES: Final = 16

_SEALED_FROM: Final = _HEAD.size + PUBLIC_BYTES
REQUEST_OVERHEAD: Final = _SEALED_FROM + _TAG_BYTES
"""The number of bytes that encapsulation adds to a request."""


class UnknownKeyError(WireError):
    """A request is encrypted to a key that the gateway does not have, or no longer has."""


class KeyConfig(Value):
    """The public half of a gateway's key, which an app ships with.

    Requests name the key by `key_id`, from 0 to 255. The public key is an X25519 key of 32 bytes. Raises
    `WireError` if nothing can be encrypted to the key, for example because its order is low.
    """

    __match_args__ = ("key_id", "public_key")
    __slots__ = (*__match_args__, "_sender")

    key_id: int
    public_key: bytes
    _sender: Sender

    def __init__(self, key_id: int, public_key: bytes) -> None:
        key_id = checked_integer("key_id", key_id, least=0, most=255)
        if not isinstance(public_key, bytes) or len(public_key) != PUBLIC_BYTES:
            raise ParameterError(f"public_key must be {PUBLIC_BYTES} bytes, got {shown(public_key)}")
        self._set(key_id=key_id, public_key=public_key, _sender=Sender(public_key, _info(_head(key_id))))


class GatewayKey(Value):
    """A gateway's key, which opens requests that are encrypted to its `config`.

    Requests name the key by `key_id`, from 0 to 255. The private key is an X25519 key of 32 bytes, which are
    never shown.
    """

    __match_args__ = ("key_id", "private_key")
    __slots__ = (*__match_args__, "_receiver", "config")

    key_id: int
    private_key: bytes
    config: KeyConfig
    _receiver: Receiver

    def __init__(self, key_id: int, private_key: bytes) -> None:
        if not isinstance(private_key, bytes) or len(private_key) != PUBLIC_BYTES:
            raise ParameterError(f"private_key must be {PUBLIC_BYTES} bytes")
        key_id = checked_integer("key_id", key_id, least=0, most=255)
        receiver = Receiver(private_key, _info(_head(key_id)))
        config = KeyConfig(key_id, receiver.public)
        self._set(key_id=key_id, private_key=private_key, config=config, _receiver=receiver)

    def __repr__(self) -> str:
        return f"GatewayKey(key_id={self.key_id})"

    @classmethod
    def generate(cls, key_id: int) -> GatewayKey:
        """Return a new key from the operating system's randomness."""
        return cls(key_id, os.urandom(PUBLIC_BYTES))


def encode_key_configs(configs: Iterable[KeyConfig]) -> bytes:
    """Return the bytes of ``application/ohttp-keys`` (RFC 9458, section 3.2)."""
    kem, kdf, aead = IDS
    parts = []
    for config in configs:
        head = _CONFIG_HEAD.pack(config.key_id, kem)
        part = head + config.public_key + _LENGTH.pack(_PAIR.size) + _PAIR.pack(kdf, aead)
        parts.append(_LENGTH.pack(len(part)) + part)
    return b"".join(parts)


def decode_key_configs(data: bytes) -> list[KeyConfig]:
    """Return the configurations in the suite of this module, in their order; other suites are skipped.

    Raises `WireError` if the bytes are not ``application/ohttp-keys``, or hold no key of this suite.
    """
    configs = []
    rest = data
    while rest:
        part, rest = _split(rest, "a key configuration")
        if len(part) < _CONFIG_HEAD.size:
            raise WireError("a key configuration is too short")
        key_id, kem = _CONFIG_HEAD.unpack_from(part)
        if kem != IDS[0]:
            continue
        body = part[_CONFIG_HEAD.size :]
        algorithms, behind = _split(body[PUBLIC_BYTES:], "the algorithms of a key configuration")
        if behind or not algorithms or len(algorithms) % _PAIR.size:
            raise WireError("the algorithms of a key configuration are not pairs of ids")
        if IDS[1:] in _PAIR.iter_unpack(algorithms):
            configs.append(KeyConfig(key_id, body[:PUBLIC_BYTES]))
    if not configs:
        raise WireError(
            "there is no key of the suite X25519, HKDF-SHA256, AES-128-GCM: `arcwise key gateway` writes one"
        )
    return configs


def _split(data: bytes, what: str) -> tuple[bytes, bytes]:
    """Return a part that starts with its length, and the rest of the data."""
    if len(data) < _LENGTH.size:
        raise WireError(f"{what} ends too early")
    (length,) = _LENGTH.unpack_from(data)
    end = _LENGTH.size + length
    if len(data) < end:
        raise WireError(f"{what} ends too early")
    return data[_LENGTH.size : end], data[end:]


class _Exchange:
    """One request, as seen by its sender or by the gateway, with the secrets that both share."""

    __slots__ = ("_context", "_encapsulated", "message")

    def __init__(self, message: bytes, context: Context, encapsulated: bytes) -> None:
        self.message = message
        self._context = context
        self._encapsulated = encapsulated

    def _answer_cipher(self, salt: bytes) -> tuple[AESGCM, bytes]:
        """Return the cipher and the nonce of the answer with this salt (RFC 9458, section 4.4)."""
        secret = self._context.export(b"message/bhttp response", _SALT_BYTES)
        extracted = hmac.digest(self._encapsulated + salt, secret, "sha256")
        return AESGCM(expand(extracted, b"key", KEY_BYTES)), expand(extracted, b"nonce", NONCE_BYTES)


class Sent(_Exchange):
    """An encapsulated request (``message/ohttp-req``), with the secret for opening its answer."""

    __slots__ = ()

    def open_answer(self, message: bytes) -> bytes:
        """Return the gateway's answer; raise `WireError` if the bytes do not answer this request."""
        cipher, nonce = self._answer_cipher(message[:_SALT_BYTES])
        try:
            return cipher.decrypt(nonce, message[_SALT_BYTES:], b"")
        except InvalidTag:
            raise WireError("the bytes are not an answer to this request") from None


class Opened(_Exchange):
    """A request of Binary HTTP that a gateway has opened, with the secret for encrypting its answer."""

    __slots__ = ()

    def seal_answer(self, message: bytes) -> bytes:
        """Return an answer, encrypted for the sender of the request: bytes of ``message/ohttp-res``."""
        salt = os.urandom(_SALT_BYTES)
        cipher, nonce = self._answer_cipher(salt)
        return salt + cipher.encrypt(nonce, message, b"")


def encapsulate(config: KeyConfig, message: bytes) -> Sent:
    """Encrypt a message of Binary HTTP to a gateway, with a new key pair.

    The same message gives different bytes each time, so nobody in between can see that it was sent again.
    """
    encapsulated, sealed, context = config._sender.seal(message)
    return Sent(_head(config.key_id) + encapsulated + sealed, context, encapsulated)


def open_request(keys: Sequence[GatewayKey], message: bytes) -> Opened:
    """Open the bytes of ``message/ohttp-req`` with one of a gateway's keys, and return the request.

    The keys must have different ids. Raises `UnknownKeyError` if the request names another key or other
    algorithms. Raises `WireError` if it is not an encapsulated request, or is not encrypted to that key.
    """
    if len(message) < REQUEST_OVERHEAD:
        raise WireError("the request is too short to be an encapsulated request")
    key_id, *ids = _HEAD.unpack_from(message)
    key = next((key for key in keys if key.key_id == key_id), None)
    if key is None or tuple(ids) != IDS:
        raise UnknownKeyError("the request is encrypted to a key that this gateway does not have")
    encapsulated = message[_HEAD.size : _SEALED_FROM]
    opened, context = key._receiver.open(encapsulated, message[_SEALED_FROM:])
    return Opened(opened, context, encapsulated)


def _head(key_id: int) -> bytes:
    return _HEAD.pack(key_id, *IDS)


def _info(head: bytes) -> bytes:
    return b"message/bhttp request\0" + head
