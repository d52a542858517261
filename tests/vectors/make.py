"""Write the golden vectors: ``python tests/vectors/make.py`` (arcwise must be importable).

The files let a client in another language check itself without this one. **They never change for a schema
version**: bytes, rows, codes and bodies that were once published mean the same for ever. New cases may be
added; when a case that is there comes out differently, the code is wrong, not the file.

    tasks.json    label; canonical bytes in hex, id, JSON form
    rows.json     label; SHA-256 over all rows, and some rows in full
    draws.json    label; value, draw (r, u) -> node, code
    batches.json  fields of a batch -> body in hex

64-bit integers are decimal strings. The hash of rows is over the text in which every row is its weights in
decimal, joined by commas, and ends with a line feed; rows are in the order of their nodes. On a circle a
value that rounds up from the last node has node 0.
"""

from __future__ import annotations

import hashlib
import json
import math
from itertools import accumulate
from pathlib import Path
from typing import Any

from arcwise.domains import Circle, Interval
from arcwise.kernels import WindowKernel
from arcwise.mechanisms import (
    DesignedCircular,
    DesignedTable,
    Mechanism,
    OptimalCircular,
    OptimalPiecewise,
)
from arcwise.tasks import Caps, Task
from arcwise.wire import Batch, code_width, encode_batch, pack_codes

__all__ = ["build", "write"]

HERE = Path(__file__).parent
HEIGHT = Interval(0, 220, clip=True)
SMALL = Interval(-1, 1)
HOURS = Circle(24)
HEADING = Circle(360)
TOP = 2**64 - 1


def _weights(codes: int, shift: int) -> list[int]:
    """Return some weights that sum to 2**64: no float and no solver has a part in them."""
    weights = [2**48 * (1 + (5 * (j + shift)) % 3) + j for j in range(codes - 1)]
    return [*weights, 2**64 - sum(weights)]


def _tasks() -> dict[str, Task]:
    return {
        "inset": Task("height", HEIGHT, 1.0, caps=Caps(lifetime=30.0, rolling=2.0)),
        "inset, 256 nodes": Task("Gr\u00f6\u00dfe", HEIGHT, 0.5, expected_reports=1_000_000, period=3600),
        "inset, 3 nodes": Task("x", SMALL, 1.0, mechanism=OptimalPiecewise(SMALL, 1.0, nodes=3)),
        "clamp": Task("reading", Interval(-60.5, 180.25), 2.0, goal="value"),
        "clamp, 256 nodes": Task(
            "reading", SMALL, 0.1, mechanism=OptimalPiecewise(SMALL, 0.1, placement="clamp", nodes=256)
        ),
        "clamp, 3 nodes": Task(
            "x", SMALL, 0.01, mechanism=OptimalPiecewise(SMALL, 0.01, placement="clamp", nodes=3)
        ),
        "wrap": Task("heading", HEADING, 1.0, caps=Caps(lifetime=0.7e3, window=604_800)),
        "wrap, 512 nodes": Task("hour", HOURS, 4.0, mechanism=OptimalCircular(HOURS, 4.0, nodes=512)),
        "wrap, 3 nodes": Task(
            "x",
            Circle(2 * math.pi),
            20.0,
            goal="distribution",
            mechanism=OptimalCircular(Circle(2 * math.pi), 20.0, nodes=3),
        ),
        "table": Task(
            "reading",
            SMALL,
            8.0,
            mechanism=DesignedTable(
                SMALL, 8.0, [_weights(4, node) for node in range(3)], (-0.5, 0.25, 0.75, 1.5)
            ),
        ),
        "table, 300 codes": Task(
            "reading",
            SMALL,
            8.0,
            goal="distribution",
            mechanism=DesignedTable(
                SMALL, 8.0, [_weights(300, node) for node in range(2)], [j / 299 for j in range(300)]
            ),
        ),
        "circulant": Task(
            "heading", HEADING, 20.0, mechanism=DesignedCircular(HEADING, 20.0, _weights(5, 0))
        ),
    }


def _rows(task: Task) -> dict[str, Any]:
    kernel = task.mechanism.kernel
    lines = [",".join(map(str, kernel.row(node))) + "\n" for node in range(kernel.nodes)]
    shown = range(kernel.nodes) if kernel.nodes <= 3 else [kernel.nodes - 2]
    return {
        "sha256_of_all_rows": hashlib.sha256("".join(lines).encode()).hexdigest(),
        "rows": {str(node): [str(weight) for weight in kernel.row(node)] for node in shown},
    }


def _node(mechanism: Mechanism, value: float, r: int) -> int:
    position = mechanism.position(mechanism.domain.to_unit(value))
    node = math.floor(position)
    return (node + ((r >> 11) * 2.0**-53 < position - node)) % mechanism.kernel.nodes


class _Fixed:
    secure = False

    def __init__(self, r: int, u: int) -> None:
        self.r, self.u = r, u

    def draw(self) -> tuple[int, int]:
        return self.r, self.u

    def draws(self, count: int) -> bytes:
        raise NotImplementedError


def _window_edges(k: WindowKernel) -> tuple[list[int], int, int]:
    """Return draws at the edges of the sampler's branches, the first inside and the last before leftovers."""
    edges = [0, k.background - 1, k.background, k.inside_from - 1, k.inside_from, k.inside_from + k.extra - 1]
    edges += [k.inside_from + k.extra, k.leftover_from - 1, *([k.leftover_from] if k.leftover else []), TOP]
    return edges, k.inside_from, k.leftover_from - 1


def _draws(task: Task) -> list[dict[str, Any]]:
    mechanism, domain = task.mechanism, task.domain
    k = mechanism.kernel
    if isinstance(domain, Interval):
        values = [
            domain.low,
            domain.low + 0.3 * domain.length,
            domain.low + 0.77 * domain.length,
            domain.high,
        ]
        values += [-1000.0, 1000.0] if domain.clip else []
    else:
        values = [0.0, 0.3 * domain.period, -1e-300, -0.01 * domain.period, 12.34 * domain.period]
    if isinstance(k, WindowKernel):
        edges, inside, last = _window_edges(k)
    else:
        ends = list(accumulate(k.row(0)))
        edges = [u for end in ends[:3] + ends[-3:] for u in (end - 1, end)]
        inside, last = ends[0], ends[-2] - 1
    middle = int.from_bytes(hashlib.sha256(b"arcwise").digest()[:8], "little")
    cases = [(value, r, inside) for value in values for r in (0, 2**62, 3 * 2**62, TOP)]
    cases += [(values[1], middle, u) for u in edges]
    cases += [(values[-1], TOP, last), (values[2], 2**11 - 1, last)]
    return [
        {
            "value": value,
            "r": str(r),
            "u": str(u),
            "node": _node(mechanism, value, r),
            "code": mechanism.randomize(value, randomness=_Fixed(r, u)),
        }
        for value, r, u in cases
        if 0 <= u <= TOP
    ]


def _batches(tasks: dict[str, Task]) -> list[dict[str, Any]]:
    cases = [
        ("inset", 0, 0, [0]),
        ("inset", 1, 19_675, [0, 1, 100, 203]),
        ("inset", 2, 2**32 - 1, [7] * 300),
        ("inset, 256 nodes", 3, 472_222, [0, 1, 255, 256, 453]),
        ("table", 6, 19_675, [0, 3, 1]),
        ("wrap", 4, 19_675, [127, 0, 64]),
        ("wrap, 512 nodes", 5, 65_535, [511, 0, 256] * 50),
    ]
    batches = []
    for label, number, epoch, codes in cases:
        task = tasks[label]
        width = code_width(task.mechanism.kernel.codes)
        batch_id = hashlib.sha256(bytes([number])).digest()[:16]
        body = encode_batch(Batch(bytes.fromhex(task.id), batch_id, epoch, pack_codes(codes, width)))
        batches.append(
            {
                "task": label,
                "task_id": task.id,
                "batch_id": batch_id.hex(),
                "epoch": epoch,
                "code_width": width,
                "codes": codes,
                "body": body.hex(),
            }
        )
    return batches


def build() -> dict[str, Any]:
    """Return the contents of every file, by its name."""
    tasks = _tasks()
    return {
        "tasks.json": {
            label: {"bytes": task.to_bytes().hex(), "id": task.id, "json": task.to_json()}
            for label, task in tasks.items()
        },
        "rows.json": {label: _rows(task) for label, task in tasks.items()},
        "draws.json": {label: _draws(task) for label, task in tasks.items()},
        "batches.json": _batches(tasks),
    }


def _text(content: Any) -> str:
    """Return JSON with one line for each innermost object that is a case."""
    if isinstance(content, list):
        return "[\n" + ",\n".join(json.dumps(case) for case in content) + "\n]\n"
    lines = []
    for label, entry in content.items():
        if isinstance(entry, list):
            cases = ",\n".join("  " + json.dumps(case) for case in entry)
            lines.append(f"{json.dumps(label)}: [\n{cases}\n]")
        else:
            lines.append(f"{json.dumps(label)}: {json.dumps(entry)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write() -> None:
    """Write the files beside this one."""
    for name, content in build().items():
        text = _text(content)
        assert json.loads(text) == content
        (HERE / name).write_text(text, encoding="ascii")


if __name__ == "__main__":
    write()
