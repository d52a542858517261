"""Oblivious HTTP: the vectors of RFC 9180, 9292 and 9458, byte for byte, and invalid messages."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from pyhpke import AEADId, CipherSuite, KDFId, KEMId, KEMKey

from arcwise.errors import ParameterError, WireError
from arcwise.oblivious.binary_http import (
    MAX_FIELDS,
    MAX_HEAD_BYTES,
    Request,
    Response,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    padded,
)
from arcwise.oblivious.hpke import Receiver, Sender
from arcwise.oblivious.messages import (
    REQUEST_OVERHEAD,
    GatewayKey,
    KeyConfig,
    UnknownKeyError,
    decode_key_configs,
    encapsulate,
    encode_key_configs,
    open_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "ohttp.json").read_text(encoding="utf-8")
)
HPKE = VECTORS["rfc9180_A1_base_x25519_sha256_aes128gcm"]
OHTTP = {
    name: bytes.fromhex(value)
    for name, value in VECTORS["rfc9458_appendix_A"].items()
    if isinstance(value, str)
}
BHTTP = VECTORS["rfc9292_examples"]
KEY = GatewayKey(1, OHTTP["skR"])

FIELDS = st.lists(st.tuples(st.binary(max_size=70), st.binary(max_size=70)), max_size=5).map(tuple)
TEXTS = st.binary(max_size=70)
REQUESTS = st.builds(Request, TEXTS, TEXTS, TEXTS, TEXTS, FIELDS, st.binary(max_size=20_000))
RESPONSES = st.builds(Response, st.integers(200, 599), FIELDS, st.binary(max_size=300))


def use_as_new(monkeypatch: pytest.MonkeyPatch, private: bytes) -> None:
    key = X25519PrivateKey.from_private_bytes(private)
    monkeypatch.setattr(X25519PrivateKey, "generate", lambda: key)


def test_the_suite_is_that_of_rfc_9180_appendix_a_1(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = {name: bytes.fromhex(HPKE["setup"][name]) for name in ("skRm", "skEm", "info", "enc")}
    use_as_new(monkeypatch, setup["skEm"])
    receiver = Receiver(setup["skRm"], setup["info"])
    encapsulated, sealed, sent = Sender(receiver.public, setup["info"]).seal(b"message")
    assert encapsulated == setup["enc"]
    message, opened = receiver.open(encapsulated, sealed)
    assert message == b"message"
    for context in (sent, opened):
        cipher, first = context.cipher()
        for case in HPKE["encryptions"]:
            plain, additional, expected = (bytes.fromhex(case[name]) for name in ("pt", "aad", "ct"))
            nonce = int.from_bytes(first, "big") ^ int(case["sequence_number"])
            assert cipher.encrypt(nonce.to_bytes(len(first), "big"), plain, additional) == expected
        for case in HPKE["exports"]:
            exported = context.export(bytes.fromhex(case["exporter_context"]), int(case["L"]))
            assert exported.hex() == case["exported_value"]


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=40), st.binary(max_size=600))
def test_hpke_by_others_reads_what_ours_wrote_and_ours_theirs(
    private: bytes, info: bytes, message: bytes
) -> None:
    suite = CipherSuite.new(KEMId.DHKEM_X25519_HKDF_SHA256, KDFId.HKDF_SHA256, AEADId.AES128_GCM)
    key = X25519PrivateKey.from_private_bytes(private)
    receiver = Receiver(private, info)
    encapsulated, sealed, sent = Sender(receiver.public, info).seal(message)
    theirs = suite.create_recipient_context(encapsulated, KEMKey.from_pyca_cryptography_key(key), info)
    assert theirs.open(sealed) == message
    assert theirs.export(b"label", 16) == sent.export(b"label", 16)
    encapsulated, sender = suite.create_sender_context(
        KEMKey.from_pyca_cryptography_key(key.public_key()), info
    )
    ours, opened = receiver.open(encapsulated, sender.seal(message))
    assert ours == message
    assert opened.export(b"label", 16) == sender.export(b"label", 16)


def test_requests_and_answers_are_those_of_rfc_9458_appendix_a(monkeypatch: pytest.MonkeyPatch) -> None:
    use_as_new(monkeypatch, OHTTP["skE"])
    sent = encapsulate(KEY.config, OHTTP["request_plaintext_bhttp"])
    assert sent.message == OHTTP["encapsulated_request"]
    assert sent.open_answer(OHTTP["encapsulated_response"]) == OHTTP["response_plaintext_bhttp"]
    opened = open_request([KEY], sent.message)
    assert opened.message == OHTTP["request_plaintext_bhttp"]
    monkeypatch.setattr(os, "urandom", lambda _size: OHTTP["response_nonce"])
    assert opened.seal_answer(OHTTP["response_plaintext_bhttp"]) == OHTTP["encapsulated_response"]


def test_messages_are_those_of_rfc_9292() -> None:
    means = BHTTP["request_means"]
    data = bytes.fromhex(BHTTP["request_known_length"])
    fields = tuple((name.encode(), value.encode()) for name, value in means["fields"])
    method, scheme, authority, path = (
        means[name].encode() for name in ("method", "scheme", "authority", "path")
    )
    request = Request(method, scheme, authority, path, fields)
    assert decode_request(data) == request
    assert encode_request(request) == data
    assert decode_request(data[:-1]) == decode_request(data[:-2]) == request
    answer = decode_response(bytes.fromhex(BHTTP["response_known_length"]))
    assert answer == Response(200, (), BHTTP["response_means"]["content"].encode())
    # Its trailer is dropped.
    assert decode_response(encode_response(answer)) == answer
    assert decode_request(OHTTP["request_plaintext_bhttp"]) == Request(b"GET", b"https", b"example.com", b"/")
    assert decode_response(OHTTP["response_plaintext_bhttp"]) == Response(200)


@given(REQUESTS, RESPONSES)
def test_what_is_encoded_is_decoded(request: Request, answer: Response) -> None:
    for message in (encode_request(request), padded(encode_request(request))):
        assert decode_request(message) == request
    for message in (encode_response(answer), padded(encode_response(answer))):
        assert decode_response(message) == answer


@given(REQUESTS, RESPONSES)
def test_a_whole_exchange(request: Request, answer: Response) -> None:
    sent = encapsulate(KEY.config, padded(encode_request(request)))
    opened = open_request([GatewayKey.generate(2), KEY], sent.message)
    assert decode_request(opened.message) == request
    assert decode_response(sent.open_answer(opened.seal_answer(encode_response(answer)))) == answer


@given(st.binary(max_size=5_000))
def test_padded_lengths_are_powers_of_two(message: bytes) -> None:
    length = len(padded(message))
    assert length & (length - 1) == 0
    assert max(512, len(message)) <= length < max(513, 2 * len(message))


def test_interim_responses_are_passed_over() -> None:
    assert decode_response(b"\1\x40\x64\0\x40\x67\2\1a\x40\xcc") == Response(204)


@pytest.mark.parametrize("decode", [decode_request, decode_response, decode_key_configs])
@given(st.binary(max_size=200))
def test_bytes_that_are_no_message_are_refused(decode: Callable[[bytes], object], data: bytes) -> None:
    with suppress(WireError):
        decode(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\2",  # of indeterminate length
        b"\1\x40\xc8",
        b"\0\4POST",
        b"\0\4POST\5https\0\1/\x3f",
        b"\0\4POST\5https\0\1/\0\0\0x",
        b"\0\4POST\5https\0\1/\3\1ab",
        b"\0\xff\xff\xff\xff\xff\xff\xff\xffPOST",
    ],
)
def test_a_request_that_is_none(data: bytes) -> None:
    with pytest.raises(WireError):
        decode_request(data)


@pytest.mark.parametrize("data", [b"", b"\0", b"\1", b"\1\x41\xf4x", b"\1\x42\x58", b"\1\x40\xcc\0\0\0\1"])
def test_a_response_that_is_none(data: bytes) -> None:
    with pytest.raises(WireError):
        decode_response(data)


def _section(data: bytes) -> bytes:
    return (0x8000_0000 | len(data)).to_bytes(4, "big") + data


CONTROL = b"\0\4POST\5https\0\1/"
MEBIBYTE = 1 << 20
LARGE_HEADS = {
    "empty fields": (decode_request, CONTROL + _section(bytes(MEBIBYTE))),
    "empty fields within the bytes": (decode_request, CONTROL + _section(bytes(2 * MAX_FIELDS + 2))),
    "one field": (decode_request, CONTROL + _section(b"\1a" + _section(bytes(MAX_HEAD_BYTES)))),
    "empty trailers": (decode_request, CONTROL + b"\0\0" + _section(bytes(MEBIBYTE))),
    "a path": (decode_request, CONTROL[:-2] + _section(b"/" * MEBIBYTE)),
    "fields of an answer": (decode_response, b"\1\x40\xcc" + _section(bytes(MEBIBYTE))),
    "interim answers": (decode_response, b"\1" + b"\x40\x64\0" * (MEBIBYTE // 3) + b"\x40\xcc"),
}
"""Each as `decode_request` or `decode_response` takes it."""


@pytest.mark.parametrize(("decode", "message"), LARGE_HEADS.values(), ids=LARGE_HEADS)
def test_a_head_is_refused_before_it_is_read(decode: Callable[[bytes], object], message: bytes) -> None:
    """Its length is refused first, so Python does not make more calls for longer messages."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        with pytest.raises(WireError, match=rf"has more than ({MAX_HEAD_BYTES} bytes|{MAX_FIELDS} fields)"):
            decode(message)
    finally:
        sys.setprofile(None)
    assert calls < 10 * MAX_HEAD_BYTES


def test_key_configurations_are_those_of_rfc_9458() -> None:
    config = KeyConfig(1, KEY.config.public_key)
    public = KEY.config.public_key.hex()
    assert encode_key_configs([config]).hex() == f"0029010020{public}000400010001"
    # One in another suite, and one that offers two algorithms.
    other = bytes.fromhex("0029" + "020010" + public + "000400010001")
    two = bytes.fromhex("002d" + "070020" + public + "000800010003" + "00010001")
    assert decode_key_configs(other + two) == [KeyConfig(7, KEY.config.public_key)]


@pytest.mark.parametrize("cut", range(43))
def test_a_key_configuration_that_is_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(WireError):
        decode_key_configs(encode_key_configs([KEY.config])[:cut])


def test_keys_out_of_bounds_are_refused_and_private_ones_not_shown() -> None:
    with pytest.raises(ParameterError, match="key_id must be an integer from 0 to 255, got 256"):
        GatewayKey.generate(256)
    with pytest.raises(ParameterError, match="public_key must be 32 bytes"):
        KeyConfig(0, bytes(31))
    with pytest.raises(ParameterError, match="private_key must be 32 bytes"):
        GatewayKey(0, bytes(33))
    with pytest.raises(WireError, match="nothing can be encrypted to this public key: its order is low"):
        KeyConfig(0, bytes(32))
    assert repr(KEY) == "GatewayKey(key_id=1)"
    assert KEY.private_key.hex() not in repr(KEY)


@given(st.data())
def test_a_request_that_was_changed_anywhere_is_not_opened(data: st.DataObject) -> None:
    message = bytearray(encapsulate(KEY.config, b"\0").message)
    at = data.draw(st.integers(0, len(message) - 1))
    message[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(WireError):
        open_request([KEY], bytes(message))


@given(st.integers(0, REQUEST_OVERHEAD + 1))
def test_a_request_that_is_cut_off_is_not_opened(length: int) -> None:
    with pytest.raises(WireError):
        open_request([KEY], encapsulate(KEY.config, b"ab").message[:length])


def test_requests_to_other_keys_or_suites_are_told_apart() -> None:
    message = encapsulate(KEY.config, b"\0").message
    with pytest.raises(UnknownKeyError):
        open_request([], message)
    with pytest.raises(UnknownKeyError):
        open_request([GatewayKey.generate(2)], message)
    with pytest.raises(UnknownKeyError):
        open_request([KEY], message[:6] + b"\2" + message[7:])
    with pytest.raises(WireError, match="cannot be opened"):
        open_request([GatewayKey.generate(1)], message)
    with pytest.raises(WireError, match="cannot be opened"):  # of low order: every secret with it is zeros
        open_request([KEY], message[:7] + bytes(32) + message[39:])


def test_an_answer_opens_only_with_its_own_request() -> None:
    first, second = (encapsulate(KEY.config, b"\0") for _ in range(2))
    assert first.message != second.message
    answer = open_request([KEY], first.message).seal_answer(b"\1\x40\xcc")
    assert first.open_answer(answer) == b"\1\x40\xcc"
    for wrong in (answer[:-1], b"", bytes(16), answer[:20] + b"?" + answer[21:]):
        with pytest.raises(WireError, match="not an answer"):
            first.open_answer(wrong)
    with pytest.raises(WireError, match="not an answer"):
        second.open_answer(answer)
