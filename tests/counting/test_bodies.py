"""Bodies decoded by the thousand: every body, however hostile, is treated as by `decode_batch`."""

import struct
from collections.abc import Sequence
from itertools import accumulate

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcwise.analysis import count_batches
from arcwise.analysis.counting.bodies import read_fields
from arcwise.errors import ParameterError, WireError
from arcwise.wire import MAX_BODY_BYTES, MAX_EPOCH, Batch, decode_batch, encode_batch
from tests.support.lake import MOST_CODES, NOW, bodies, expected, on_the_wire, same_counts, some_rows, tasks

GOOD = encode_batch(Batch(bytes(range(32)), bytes(range(16)), 20_000, bytes(10)))
EPOCHS = st.one_of(
    st.integers(0, 300),
    st.integers(0, MAX_EPOCH),
    st.sampled_from([0x7F, 0x80, 0xFF, 0x100, 0xFFFF, 0x10000]),
)


def as_bin(data: bytes, kind: int) -> bytes:
    """Return bytes under one of the three heads that msgpack has for them."""
    return bytes([0xC4 + kind]) + struct.pack((">B", ">H", ">I")[kind], len(data)) + data


def as_integer(number: int, kind: int) -> bytes:
    return bytes([0xCC + kind]) + struct.pack((">B", ">H", ">I", ">Q")[kind], number)


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    codes = draw(
        st.one_of(
            st.binary(min_size=1, max_size=80), st.sampled_from([bytes(255), bytes(256), bytes(70_000)])
        )
    )
    return encode_batch(Batch(draw(st.binary(min_size=32, max_size=32)), bytes(16), draw(EPOCHS), codes))


@st.composite
def other_encodings(draw: st.DrawFn) -> bytes:
    """Return a batch, or nearly one, in a different encoding from that of `encode_batch`."""
    kind = draw(st.integers(0, 3))
    number = draw(st.integers(0, 256 ** (1 << kind) - 1))
    parts = [
        draw(st.sampled_from([b"\x95", b"\xdc\x00\x05", b"\xdd\x00\x00\x00\x05", b"\x94"])),
        draw(st.sampled_from([b"\x01", b"\xcc\x01", b"\xd0\x01", b"\x02", b"\xc3"])),
        as_bin(bytes(draw(st.sampled_from([32, 32, 32, 31]))), draw(st.integers(0, 2))),
        as_bin(bytes(draw(st.sampled_from([16, 16, 16, 17]))), draw(st.integers(0, 2))),
        draw(
            st.sampled_from(
                [as_integer(number, kind), b"\xff", b"\xd1\x00\x07", b"\xca\x00\x00\x00\x00", b"\xc0"]
            )
        ),
        as_bin(draw(st.binary(max_size=9)), draw(st.integers(0, 2))),
    ]
    return b"".join(parts)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    body = bytearray(draw(st.one_of(batches(), other_encodings())))
    for _ in range(draw(st.integers(0, 3))):
        body[draw(st.integers(0, min(len(body) - 1, 70)))] = draw(st.integers(0, 255))
    cut = draw(st.integers(-3, 3))
    return bytes(body[:cut]) if cut < 0 else bytes(body) + bytes(cut)


ANY = st.one_of(
    batches(), other_encodings(), damaged(), st.binary(max_size=100), st.sampled_from([b"", GOOD, GOOD[:-1]])
)


def decided(some: Sequence[bytes]) -> list[Batch | None]:
    """Return numpy's results for bodies that lie one after the other."""
    offsets = np.fromiter(accumulate(map(len, some), initial=0), np.int64, len(some) + 1)
    data = np.frombuffer(b"".join(some), np.uint8)
    fields = read_fields(data, offsets)
    return [
        Batch(
            fields.task_ids[row].tobytes(),
            fields.batch_ids[row].tobytes(),
            int(fields.epochs[row]),
            data[fields.begins[row] : fields.begins[row] + fields.sizes[row]].tobytes(),
        )
        if fields.ok[row]
        else None
        for row in range(len(some))
    ]


def decoded(body: bytes) -> Batch | None:
    try:
        return decode_batch(body)
    except WireError:
        return None


@pytest.mark.slow
@settings(max_examples=400)
@given(st.lists(ANY, max_size=6))
def test_every_decision_is_that_of_the_wire(some: list[bytes]) -> None:
    assert decided(some) == [decoded(body) for body in some]


def test_every_byte_of_the_head_may_be_wrong() -> None:
    some = [GOOD[:place] + bytes([byte]) + GOOD[place + 1 :] for place in range(60) for byte in range(256)]
    assert decided(some) == [decoded(body) for body in some]


def test_a_body_is_as_long_as_a_server_reads() -> None:
    longest = MAX_BODY_BYTES - len(encode_batch(Batch(bytes(32), bytes(16), 1, bytes(70_000)))) + 70_000
    some = [encode_batch(Batch(bytes(32), bytes(16), 1, bytes(size))) for size in (longest, longest + 1)]
    found = decided(some)
    assert found == [decoded(body) for body in some]
    assert [each is None for each in found] == [False, True]


def test_a_deep_body_is_only_malformed() -> None:
    some = [b"\x91" * 100_000, b"\x95" * 60, msgpack.packb([1, "a" * 32]), msgpack.packb({"a": 1})]
    assert decided(some) == [None] * 4


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_bodies_are_counted_once_in_their_order(seed: int) -> None:
    rows = on_the_wire(some_rows(seed, nulls=False))
    counts, rejected = expected(rows, ordered=True)
    lost = sum(len(row.codes or ()) for row in rows if "malformed-batch" in expected([row])[1])
    rejected["malformed-batch"] = (rejected["malformed-batch"][0], rejected["malformed-batch"][1] - lost)
    rejected["unknown-task"] = (rejected["unknown-task"][0], 0)
    result = count_batches(tasks(), iter(bodies(rows)), now=NOW, max_batch_codes=MOST_CODES)
    same_counts(result, counts, rejected)
    ids = list(result.batch_ids)
    assert len(ids) == len({(name, key) for name, _, key in ids})
    assert {(name, epoch) for name, epoch, _ in ids} == set(counts)


def test_portions_do_not_show() -> None:
    task = tasks()[0]
    made = [
        encode_batch(Batch(bytes.fromhex(task.id), number.to_bytes(16, "big"), 20_000, bytes([number % 50])))
        for number in range(5000)
    ]
    result = count_batches(task, (body for _ in range(2) for body in made), now=NOW)
    assert result.of(task).tolist()[:50] == [100] * 50
    assert [tuple(row) for row in result.rejected] == [("replayed", 5000, 5000)]
    assert count_batches(task, []).counts == {}


def test_what_is_no_body_is_named() -> None:
    with pytest.raises(ParameterError, match="bodies must be an iterable"):
        count_batches(tasks(), b"body")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="bodies must hold bytes, got a str"):
        count_batches(tasks(), ["body"])  # type: ignore[list-item]
