"""Batches to bodies: codes of one and of two bytes, lengths at the borders of msgpack's forms."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from arcwise.wire import Batch, code_width, encode_batch, pack_codes

if TYPE_CHECKING:
    from arcwise.tasks import Task


def batches(tasks: dict[str, Task]) -> list[dict[str, Any]]:
    cases = [
        ("inset", 0, 0, [0]),
        ("inset", 1, 19_675, [0, 1, 100, 203]),
        ("inset", 2, 2**32 - 1, [7] * 300),
        ("inset, 256 nodes", 3, 472_222, [0, 1, 255, 256, 453]),
        ("table", 6, 19_675, [0, 3, 1]),
        ("wrap", 4, 19_675, [127, 0, 64]),
        ("wrap, 512 nodes", 5, 65_535, [511, 0, 256] * 50),
        ("circulant, 300 codes", 7, 65_536, [299, 255, 256, 0]),
        ("circulant", 8, 127, [4, 0]),
        ("inset, odd range", 9, 128, [3]),
        ("circulant, 256 codes", 10, 19_675, [255, 0, 1]),
        ("circulant, 257 codes", 11, 19_675, [256, 0, 1]),
    ]
    return [
        {
            "task": label,
            "task_id": tasks[label].id,
            "batch_id": _batch_id(number).hex(),
            "epoch": epoch,
            "code_width": code_width(tasks[label].mechanism.kernel.codes),
            "codes": codes,
            "body": _body(tasks[label], number, epoch, codes).hex(),
        }
        for label, number, epoch, codes in cases
    ]


def long_batches(tasks: dict[str, Task]) -> list[dict[str, Any]]:
    """Return batches whose codes take a length of two and of four bytes in msgpack, at the borders."""
    cases = [("inset", 16, [203], 255), ("inset", 17, [203], 256), ("inset", 18, [0], 65_535)]
    cases += [("inset", 19, [0], 65_536), ("wrap, 512 nodes", 20, [0, 511], 250_000)]
    found = []
    for label, number, codes, times in cases:
        body = _body(tasks[label], number, 19_675, codes * times)
        found.append(
            {
                "task": label,
                "task_id": tasks[label].id,
                "batch_id": _batch_id(number).hex(),
                "epoch": 19_675,
                "code_width": code_width(tasks[label].mechanism.kernel.codes),
                "codes": codes,
                "times": times,
                "body_bytes": len(body),
                "body_sha256": hashlib.sha256(body).hexdigest(),
            }
        )
    return found


def epochs(tasks: dict[str, Task]) -> list[dict[str, Any]]:
    """Return times at both ends of an epoch; the epochs are computed without floats."""
    start = 19_675 * 86_400.0
    found = []
    for label in ("inset", "inset, 256 nodes"):
        seconds = tasks[label].epoch_seconds
        times = (0.0, 0.5, seconds - 0.5, float(seconds), start - 0.001, start, start + 0.25, 1.75e9)
        found += [{"task": label, "time": time, "epoch": int(Fraction(time) // seconds)} for time in times]
    return found


def _batch_id(number: int) -> bytes:
    return hashlib.sha256(bytes([number])).digest()[:16]


def _body(task: Task, number: int, epoch: int, codes: list[int]) -> bytes:
    packed = pack_codes(codes, code_width(task.mechanism.kernel.codes))
    return encode_batch(Batch(bytes.fromhex(task.id), _batch_id(number), epoch, packed))
