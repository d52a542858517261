"""HPKE in base mode (RFC 9180) for one message: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and AES-128-GCM.

A gateway spends most of the time for an oblivious report in this module. So everything that depends only on
the gateway's key is computed once; apart from that, the module follows the RFC word by word. Libraries for
HPKE are a few times slower.
"""

from __future__ import annotations

import hmac
import struct
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from arcwise.errors import WireError

IDS: Final = (0x0020, 0x0001, 0x0001)
"""Ids of the KEM, the KDF and the AEAD."""
PUBLIC_BYTES: Final = 32
KEY_BYTES: Final = 16
NONCE_BYTES: Final = 12

_HASH_BYTES: Final = 32
_KEM: Final = b"HPKE-v1KEM" + struct.pack(">H", IDS[0])
_HPKE: Final = b"HPKE-v1HPKE" + struct.pack(">HHH", *IDS)


def expand(secret: bytes, info: bytes, length: int) -> bytes:
    """Return HKDF-Expand (RFC 5869) for a length of up to 32 bytes."""
    return hmac.digest(secret, info + b"\1", "sha256")[:length]


def _label(suite: bytes, label: bytes, length: int) -> bytes:
    """Return the prefix of the info of LabeledExpand (RFC 9180, section 4)."""
    return struct.pack(">H", length) + suite + label


_EXTRACT_SHARED: Final = _KEM + b"eae_prk"
_SHARED: Final = _label(_KEM, b"shared_secret", _HASH_BYTES)
_EXTRACT_SECRET: Final = _HPKE + b"secret"
_BASE_MODE: Final = b"\0" + hmac.digest(b"", _HPKE + b"psk_id_hash", "sha256")


class _Schedule(NamedTuple):
    """The infos of the key schedule (RFC 9180, section 5.1) in base mode."""

    key: bytes
    nonce: bytes
    exporter: bytes


def _schedule(info: bytes) -> _Schedule:
    context = _BASE_MODE + hmac.digest(b"", _HPKE + b"info_hash" + info, "sha256")
    return _Schedule(
        _label(_HPKE, b"key", KEY_BYTES) + context,
        _label(_HPKE, b"base_nonce", NONCE_BYTES) + context,
        _label(_HPKE, b"exp", _HASH_BYTES) + context,
    )


class Context:
    """The secret that both ends of one message share, from which its keys are derived.

    The secret is derived from the result of the key exchange and from `kem`, which consists of both public
    keys: first the message's own key, then the receiver's key.
    """

    __slots__ = ("_schedule", "_secret")

    def __init__(self, exchanged: bytes, kem: bytes, schedule: _Schedule) -> None:
        extracted = hmac.digest(b"", _EXTRACT_SHARED + exchanged, "sha256")
        shared = expand(extracted, _SHARED + kem, _HASH_BYTES)
        self._secret = hmac.digest(shared, _EXTRACT_SECRET, "sha256")
        self._schedule = schedule

    def cipher(self) -> tuple[AESGCM, bytes]:
        """Return the cipher and the nonce of the first and only message."""
        key = expand(self._secret, self._schedule.key, KEY_BYTES)
        return AESGCM(key), expand(self._secret, self._schedule.nonce, NONCE_BYTES)

    def export(self, label: bytes, length: int) -> bytes:
        """Return a secret of up to 32 bytes for another use (RFC 9180, section 5.3)."""
        exporter = expand(self._secret, self._schedule.exporter, _HASH_BYTES)
        return expand(exporter, _label(_HPKE, b"sec", length) + label, length)


class Sender:
    """The sending end, which encrypts messages to one public key of 32 bytes.

    `info` describes the purpose of the messages; both ends must use the same. Raises `WireError` for a key of
    low order, because anyone can compute the secrets shared with such a key.
    """

    __slots__ = ("_key", "_public", "_schedule")

    def __init__(self, public: bytes, info: bytes) -> None:
        self._public = public
        self._key = X25519PublicKey.from_public_bytes(public)
        self._schedule = _schedule(info)
        try:
            X25519PrivateKey.generate().exchange(self._key)
        except ValueError:
            raise WireError("nothing can be encrypted to this public key: its order is low") from None

    def seal(self, message: bytes) -> tuple[bytes, bytes, Context]:
        """Return the public key of a new pair, the message encrypted with it, and the shared context."""
        own = X25519PrivateKey.generate()
        encapsulated = own.public_key().public_bytes_raw()
        context = Context(own.exchange(self._key), encapsulated + self._public, self._schedule)
        cipher, nonce = context.cipher()
        return encapsulated, cipher.encrypt(nonce, message, b""), context


class Receiver:
    """The receiving end, which decrypts messages with one private key of 32 bytes.

    `info` describes the purpose of the messages; both ends must use the same. `public` holds the 32 bytes of
    the public key.
    """

    __slots__ = ("_key", "_schedule", "public")

    def __init__(self, private: bytes, info: bytes) -> None:
        self._key = X25519PrivateKey.from_private_bytes(private)
        self._schedule = _schedule(info)
        self.public = self._key.public_key().public_bytes_raw()

    def open(self, encapsulated: bytes, sealed: bytes) -> tuple[bytes, Context]:
        """Return the decrypted message and the secret that both ends share.

        Raises `WireError` if the message is not encrypted to this key, or was changed.
        """
        try:
            exchanged = self._key.exchange(X25519PublicKey.from_public_bytes(encapsulated))
            context = Context(exchanged, encapsulated + self.public, self._schedule)
            cipher, nonce = context.cipher()
            return cipher.decrypt(nonce, sealed, b""), context
        except (InvalidTag, ValueError):  # ValueError for a public key of low order
            raise WireError("the request cannot be opened with the key that it names") from None
