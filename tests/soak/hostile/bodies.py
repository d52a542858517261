"""Bodies that are nearly batches, or bombs, and which of them are batches."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack

from arcwise.wire import MAX_BODY_BYTES, MAX_EPOCH, Batch, code_width, encode_batch, pack_codes

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from arcwise.tasks import Task


RETENTION_DAYS, DAYS_AHEAD = 30, 1


class Sample(NamedTuple):
    """A body, and the task that its path names."""

    task: Task
    body: bytes


def fresh(generator: random.Random, task: Task, codes: int = 3) -> Batch:
    """Return a batch of this moment under a new id."""
    kernel_codes = task.mechanism.kernel.codes
    packed = pack_codes([generator.randrange(kernel_codes) for _ in range(codes)], code_width(kernel_codes))
    return Batch(bytes.fromhex(task.id), generator.randbytes(16), task.epoch(time.time()), packed)


def batch_in(task: Task, body: bytes) -> Batch | None:
    """Return the batch in a body, by the protocol page and without the library's decoder, or None."""
    try:
        fields = msgpack.unpackb(body, strict_map_key=False)
    except Exception:  # for any error, it is not a batch
        return None
    kinds = list(map(type, fields)) if type(fields) is list else []
    if kinds != [int, bytes, bytes, int, bytes] or fields[0] != 1:
        return None
    _, task_id, batch_id, epoch, codes = fields
    kernel_codes = task.mechanism.kernel.codes
    width = code_width(kernel_codes)
    now = task.epoch(time.time())
    numbers = [int.from_bytes(codes[at : at + width], "little") for at in range(0, len(codes), width)]
    good = (
        task_id.hex() == task.id
        and len(batch_id) == 16
        and 0 <= now - RETENTION_DAYS <= epoch <= now + DAYS_AHEAD
        and len(codes) >= 1
        and len(codes) % width == 0
        and max(numbers) < kernel_codes
    )
    return Batch(task_id, batch_id, epoch, codes) if good else None


def bodies(generator: random.Random, tasks: list[Task]) -> Iterator[Sample]:
    """Yield bodies without end: first one batch cut off at every byte, then a random kind each time."""
    whole = encode_batch(fresh(generator, tasks[0]))
    yield from (Sample(tasks[0], whole[:size]) for size in range(len(whole)))
    for bomb in _large_bombs():
        yield Sample(tasks[0], bomb)
    while True:
        task = generator.choice(tasks)
        yield Sample(task, generator.choice(_KINDS)(generator, task))


def _large_bombs() -> list[bytes]:
    most = MAX_BODY_BYTES
    start = b"\x95\x01\xc4\x20" + bytes(32) + b"\xc4\x10" + bytes(16)
    return [
        b"\x91" * most,
        b"\x81\x00" * (most // 2),
        b"\xdc\xff\xff" + b"\xc4\x00" * (most // 2 - 2),
        b"\xdd\x00\x05\x00\x00" + b"\xc4\x01x" * (most // 3 - 2),
        b"\xde\xff\xff" + b"\x00\xc0" * (most // 2 - 2),
        b"\xc9\x00\x0f\x00\x00\x01" + bytes(most - 6),
        start + b"\x00" + b"\xc6\x7f\xff\xff\xff",
        start + b"\x91" * (most - len(start)),
        start + b"\x00\xc6" + (most - len(start) - 6).to_bytes(4, "big") + b"\xff" * (most - len(start) - 6),
    ]


def _batch(generator: random.Random, task: Task) -> bytes:
    return encode_batch(fresh(generator, task, generator.choice((1, 2, 3, 50, 300))))


def _cut_off(generator: random.Random, task: Task) -> bytes:
    body = _batch(generator, task)
    return body[: generator.randrange(len(body))]


def _longer(generator: random.Random, task: Task) -> bytes:
    return _batch(generator, task) + generator.randbytes(generator.randrange(1, 40))


def _bytes_changed(generator: random.Random, task: Task) -> bytes:
    body = bytearray(_batch(generator, task))
    for _ in range(generator.randrange(1, 5)):
        body[generator.randrange(len(body))] = generator.randrange(256)
    return bytes(body)


def _head_changed(generator: random.Random, task: Task) -> bytes:
    body = bytearray(_batch(generator, task))
    body[generator.choice((0, 1, 2, 3, 36, 37, 54, 55, 56, 57, 58))] = generator.randrange(256)
    return bytes(body)


def _bytes_put_in(generator: random.Random, task: Task) -> bytes:
    body = _batch(generator, task)
    at = generator.randrange(len(body))
    return body[:at] + generator.randbytes(generator.randrange(1, 6)) + body[at:]


def _spliced(generator: random.Random, task: Task) -> bytes:
    one, two = _batch(generator, task), _batch(generator, task)
    return one[: generator.randrange(len(one))] + two[generator.randrange(len(two)) :]


def _random(generator: random.Random, _task: Task) -> bytes:
    return generator.randbytes(generator.randrange(200))


def _anything(generator: random.Random, depth: int = 0) -> Any:
    choices: list[Callable[[], Any]] = [
        lambda: None,
        lambda: generator.random() < 0.5,
        lambda: generator.randrange(-(2**63), 2**64),
        lambda: generator.choice((0.0, 1.0, float("nan"), float("inf"), -1e308)),
        lambda: generator.randbytes(generator.choice((0, 1, 16, 32, 33))),
        lambda: "x" * generator.choice((0, 1, 16, 32, 300)),
        lambda: msgpack.ExtType(generator.randrange(128), generator.randbytes(generator.randrange(20))),
        lambda: msgpack.Timestamp(generator.randrange(2**34), generator.randrange(10**9)),
        lambda: [_anything(generator, depth + 1) for _ in range(generator.randrange(7))],
        lambda: {str(n): _anything(generator, depth + 1) for n in range(generator.randrange(4))},
    ]
    return generator.choice(choices[: 8 if depth > 3 else 10])()


def _field_changed(generator: random.Random, task: Task) -> bytes:
    batch = fresh(generator, task)
    fields: list[Any] = [1, batch.task_id, batch.batch_id, batch.epoch, batch.codes]
    fields[generator.randrange(5)] = _anything(generator)
    if generator.random() < 0.2:
        fields.insert(generator.randrange(6), _anything(generator))
    return bytes(msgpack.packb(fields))


def _other_form(generator: random.Random, task: Task) -> bytes:
    """Return a batch in longer forms than an encoder uses: still a batch."""
    batch = fresh(generator, task)
    parts = [b"\xdd\x00\x00\x00\x05", b"\xd3" + (1).to_bytes(8, "big")]
    parts += [b"\xc6" + len(part).to_bytes(4, "big") + part for part in (batch.task_id, batch.batch_id)]
    parts += [b"\xcf" + batch.epoch.to_bytes(8, "big"), b"\xc5" + len(batch.codes).to_bytes(2, "big")]
    return b"".join(parts) + batch.codes


def _other_epoch(generator: random.Random, task: Task) -> bytes:
    batch = fresh(generator, task)
    now = batch.epoch
    epoch = generator.choice((0, 1, now - 32, now - 29, now - 1, now + 3, MAX_EPOCH, MAX_EPOCH + 1, 2**63))
    return bytes(msgpack.packb([1, batch.task_id, batch.batch_id, epoch, batch.codes]))


def _other_codes(generator: random.Random, task: Task) -> bytes:
    batch = fresh(generator, task)
    codes = generator.randbytes(generator.choice((0, 1, 2, 3, 4, 1000)))
    return encode_batch(Batch(batch.task_id, batch.batch_id, batch.epoch, codes))


def _bomb(generator: random.Random, _task: Task) -> bytes:
    depth = generator.choice((2, 100, 511, 512, 1024, 5000))
    declared = generator.choice((5, 2**16, 2**31 - 1, 2**32 - 1)).to_bytes(4, "big")
    return generator.choice(
        (
            b"\x91" * depth,
            b"\x95\x01" * depth,
            b"\x81\x91" * depth,
            bytes([generator.choice((0xC6, 0xC9, 0xDB, 0xDD, 0xDF))]) + declared + generator.randbytes(20),
            b"\xdc\xff\xff" + b"\xc4\x00" * depth,
            b"\x95" + b"\xd4\xff\x00" * depth,
        )
    )


_KINDS: list[Callable[[random.Random, Task], bytes]] = [
    *(_batch, _cut_off, _longer, _bytes_changed, _head_changed, _bytes_put_in, _spliced, _random),
    *(_field_changed, _other_form, _other_epoch, _other_codes, _bomb),
]
