"""The wire: valid batches are read, and everything else is refused without repeating any of it."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcwise.errors import WireError
from arcwise.wire import (
    BATCH_ID_BYTES,
    MAX_BODY_BYTES,
    MAX_EPOCH,
    MEDIA_TYPE,
    WIRE_VERSION,
    Batch,
    code_width,
    decode_batch,
    encode_batch,
    pack_codes,
)
from tests.support.strategies import mutations

TASK_ID = bytes(range(100, 132))
BATCH_ID = b"SECRETBATCHID..."
CODES = b"SECRETCODES"
GOOD = [1, TASK_ID, BATCH_ID, 20_000, CODES]
BODY = encode_batch(Batch(TASK_ID, BATCH_ID, 1, CODES))

batches = st.builds(
    Batch,
    task_id=st.binary(min_size=32, max_size=32),
    batch_id=st.binary(min_size=16, max_size=16),
    epoch=st.integers(0, MAX_EPOCH) | st.sampled_from([0, 127, 128, 255, 256, 65_535, 65_536, MAX_EPOCH]),
    codes=st.binary(min_size=1, max_size=300),
)

MESSAGES = {
    f"a batch takes at most {MAX_BODY_BYTES} bytes",
    "the body is not one msgpack array of a batch's five fields",
    "the wire version is not 1",
    "the task id is not a bin of 32 bytes",
    "the batch id is not a bin of 16 bytes",
    "the epoch is not an unsigned integer below 2**32",
    "the codes are not a bin of at least one byte",
}
"""All messages of errors: constants, so no content of a body can appear in one."""


def refused(body: bytes) -> str:
    """Return the message with which a body is refused; no other exception may escape."""
    with pytest.raises(WireError) as caught:
        decode_batch(body)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    message = str(caught.value)
    assert message in MESSAGES
    return message


def with_field(index: int, value: Any) -> bytes:
    return bytes(msgpack.packb([*GOOD[:index], value, *GOOD[index + 1 :]]))


@given(batches)
def test_batches_come_back(batch: Batch) -> None:
    body = encode_batch(batch)
    assert decode_batch(body) == batch
    assert msgpack.unpackb(body) == [1, batch.task_id, batch.batch_id, batch.epoch, batch.codes]
    assert encode_batch(decode_batch(body)) == body
    assert decode_batch(bytes(bytearray(body))) == batch


def test_constants_of_the_wire() -> None:
    assert (WIRE_VERSION, BATCH_ID_BYTES, MAX_EPOCH) == (1, 16, 4_294_967_295)
    assert MEDIA_TYPE == "application/vnd.arcwise.batch+msgpack"
    assert len(MESSAGES) == 7


WRONG_FIELDS: list[tuple[str, list[Any]]] = [
    ("the wire version is not 1", [0, 2, -1, 255, 2**64 - 1, True, 1.0, b"1", None, {}]),
    ("the task id is not a bin of 32 bytes", [b"", bytes(31), bytes(33), None, 5, True, 1.5, {}]),
    ("the batch id is not a bin of 16 bytes", [b"", bytes(15), bytes(17), TASK_ID, None, 5, False, {}]),
    (
        "the epoch is not an unsigned integer below 2**32",
        [-1, -(2**63), 2**32, 2**64 - 1, True, False, 1.0, 20_000.0, None, b"\x01", {}],
    ),
    ("the codes are not a bin of at least one byte", [b"", None, 0, 7, True, 1.5, {}]),
]
"""Invalid values of each field, and the message for each."""


@pytest.mark.parametrize(
    ("index", "bad", "message"),
    [(index, bad, words) for index, (words, all_bad) in enumerate(WRONG_FIELDS) for bad in all_bad],
)
def test_wrong_fields_are_refused(index: int, bad: Any, message: str) -> None:
    assert refused(with_field(index, bad)) == message


NO_ARRAY = "the body is not one msgpack array of a batch's five fields"


@pytest.mark.parametrize("index", range(5))
@pytest.mark.parametrize(
    "bad",
    [
        "SECRET",
        "x" * 32,
        {"SECRET": 1},
        {1: 2},
        msgpack.ExtType(5, b"SECRET"),
        msgpack.Timestamp(7, 9),
        [1] * 6,
        [],
        [1, 2],
        [[1]],
    ],
    ids=range(10),
)
def test_types_that_no_batch_has_are_refused(index: int, bad: Any) -> None:
    assert refused(with_field(index, bad)) == NO_ARRAY


def test_a_tree_of_arrays_is_refused_at_its_first_branch() -> None:
    tree = b"\x91\x01"
    while 5 * len(tree) < MAX_BODY_BYTES:
        tree = b"\x95" + 5 * tree
    tracemalloc.start()
    try:
        assert refused(tree) == NO_ARRAY
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(tree) / 2  # all of it takes about twenty times as much


@pytest.mark.parametrize(
    "fields", [[], GOOD[:4], [*GOOD, 0], [*GOOD, *GOOD], [GOOD], None, 1, True, b"SECRET", 1.5, {}]
)
def test_anything_but_five_fields_is_refused(fields: Any) -> None:
    assert refused(msgpack.packb(fields)) == NO_ARRAY


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"SECRET",
        bytes(1000),
        BODY[:-1],
        BODY + b"\x00",
        BODY * 2,
        b"\x91" * 100 + b"\x01",
        b"\x91" * (MAX_BODY_BYTES - 1) + b"\x01",
        b"\x95" * 100_000,
        b"\x81" * 100_000,
        b"\x85\x01" * 1000,
        b"\xdd\xff\xff\xff\xff" * 100,
        b"\xdc\xff\xff" * 100,
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x01",
        b"\x95\x01\xc6\xff\xff\xff\xff" + bytes(40),
        b"\x95\x01\xc4\x20" + bytes(32) + b"\xc4\x10" + bytes(16) + b"\x01\xc6\xff\xff\xff\xff\x00",
    ],
    ids=range(21),
)
def test_bombs_and_broken_bodies_are_refused(body: bytes) -> None:
    assert refused(body) == NO_ARRAY


def test_sizes_are_checked_first() -> None:
    codes = bytes(MAX_BODY_BYTES - len(encode_batch(Batch(TASK_ID, BATCH_ID, 1, bytes(70_000)))) + 70_000)
    largest = encode_batch(Batch(TASK_ID, BATCH_ID, 1, codes))
    assert len(largest) == MAX_BODY_BYTES
    assert decode_batch(largest).codes == codes
    assert refused(encode_batch(Batch(TASK_ID, BATCH_ID, 1, codes + b"\x00"))).startswith(
        "a batch takes at most"
    )
    assert refused(b"\xc1" * (MAX_BODY_BYTES + 1)).startswith("a batch takes at most")


def reads_or_refuses(body: bytes) -> None:
    """Check that a body is a batch within its bounds, or is refused with one of the known messages."""
    batch = None
    with contextlib.suppress(WireError):
        batch = decode_batch(body)
    if batch is None:
        refused(body)
        return
    assert (type(batch.task_id), len(batch.task_id)) == (bytes, 32)
    assert (type(batch.batch_id), len(batch.batch_id)) == (bytes, 16)
    assert type(batch.epoch) is int
    assert 0 <= batch.epoch <= MAX_EPOCH
    assert type(batch.codes) is bytes
    assert batch.codes
    assert decode_batch(encode_batch(batch)) == batch


@given(st.data(), batches)
@settings(max_examples=400)
def test_mutated_bodies_raise_only_wire_errors(data: st.DataObject, batch: Batch) -> None:
    reads_or_refuses(data.draw(mutations(encode_batch(batch))))


def test_every_change_of_one_byte_is_read_or_refused() -> None:
    good = encode_batch(Batch(*GOOD[1:]))  # type: ignore[arg-type]
    for at in range(len(good)):
        reads_or_refuses(good[:at])
        for byte in range(256):
            reads_or_refuses(good[:at] + bytes([byte]) + good[at + 1 :])


_anything: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text()
    | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.slow
@given(_anything, st.integers(0, 4))
@settings(max_examples=300)
def test_any_well_formed_msgpack_raises_only_wire_errors(value: Any, index: int) -> None:
    reads_or_refuses(msgpack.packb(value))
    reads_or_refuses(with_field(index, value))


# --- codes -------------------------------------------------------------------------------------------------


def test_code_width() -> None:
    assert [code_width(codes) for codes in (2, 255, 256, 257, 65_536)] == [1, 1, 1, 2, 2]


@given(st.lists(st.integers(0, 65_535)))
def test_two_byte_codes_are_little_endian(codes: list[int]) -> None:
    packed = pack_codes(codes, 2)
    assert packed == struct.pack(f"<{len(codes)}H", *codes)
    assert np.frombuffer(packed, "<u2").tolist() == codes
    assert pack_codes(iter(codes), 2) == packed
    assert pack_codes(np.array(codes, np.uint16), 2) == packed


@given(st.lists(st.integers(0, 255)))
def test_one_byte_codes_are_bytes(codes: list[int]) -> None:
    assert pack_codes(codes, 1) == bytes(codes)
    assert pack_codes(iter(codes), 1) == bytes(codes)
    for dtype in (np.uint8, np.uint16, np.int64):
        assert pack_codes(np.array(codes, dtype), 1) == bytes(codes)


@pytest.mark.parametrize(("codes", "width"), [([256], 1), ([-1], 1), ([65_536], 2), ([-1], 2)])
def test_codes_that_do_not_fit_are_refused(codes: list[int], width: int) -> None:
    with pytest.raises((ValueError, OverflowError)):
        pack_codes(codes, width)
