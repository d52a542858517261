"""Write the golden vectors: ``python -m tests.vectors.make`` in the root of the checkout.

They are in `client/arcwise/client/conformance/vectors`, because the conformance kit is installed with them,
and let a client in another language check itself without this one. **They never change for a schema
version**: published bytes, rows, codes and bodies keep their meaning for ever. New cases may be added; if an
existing case comes out differently, the code is wrong, not the file.

    tasks.json     label; canonical bytes in hex, id, JSON form
    groups.json    the same of groups
    rows.json      label; SHA-256 over all rows, and some rows in full
    draws.json     label; value, draw (r, u) -> node, code
    values.json    label; values outside the domain of this task
    batches.json   fields of a batch -> body in hex
    long_batches.json  the same with all codes `times` over -> length and SHA-256 of the body
    refused.json   label; invalid bytes or JSON of a task, and why
    epsilons.json  epsilon -> its fraction, its charge, floor(2^192 e^epsilon) from below
    ledger.json    caps and charge; times of the device's clock -> whether a report is granted
    epochs.json    time -> epoch of a task
    answers.json   statuses -> what a client does; Retry-After -> seconds; failures, random number -> wait
    schedules.json batches that wait, answers to them -> which is sent when

64-bit integers are decimal strings. The hash of rows is over a text with one line per row: its weights in
decimal, joined by commas, and a line feed; rows are in the order of their nodes. On a circle a value that
rounds up from the last node has node 0.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arcwise.client import conformance
from arcwise.domains import Circle, Interval
from arcwise.kernels.certificate import exp_lower_bound
from arcwise.mechanisms import DesignedCircular, DesignedTable, OptimalCircular, OptimalPiecewise
from arcwise.tasks import Caps, CentralStatement, Group, Task
from tests.vectors import policy, refused
from tests.vectors.batches import batches, epochs, long_batches
from tests.vectors.draws import draws, values_outside

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.mechanisms import Mechanism

FOLDER = Path(conformance.__file__).parent / "vectors"
HEIGHT = Interval(0, 220, clip=True)
SMALL = Interval(-1, 1)
WINDOW_OF_4 = [12, 9, 4, 977_407_917_986_435_603, 1_679_462_264_468_081_094]
HOURS = Circle(24)
HEADING = Circle(360)


def _weights(codes: int, shift: int) -> list[int]:
    """Return some weights that sum to 2**64, without using floats or a solver."""
    weights = [2**48 * (1 + (5 * (j + shift)) % 3) + j for j in range(codes - 1)]
    return [*weights, 2**64 - sum(weights)]


def _tight() -> list[int]:
    """Return two weights, the smaller as small as the bound of e^1 allows."""
    bound = exp_lower_bound(1.0)
    least = -(-(2**64) * bound.denominator // (bound.numerator + bound.denominator))
    return [least, 2**64 - least]


def _with(name: str, mechanism: Mechanism, **options: Any) -> Task:
    return Task(name, mechanism.domain, mechanism.epsilon, mechanism=mechanism, **options)


def _table(domain: Interval, codes: int, nodes: int, units: Sequence[float]) -> DesignedTable:
    return DesignedTable(domain, 8.0, [_weights(codes, node) for node in range(nodes)], units)


def _tasks() -> dict[str, Task]:
    def clamp(epsilon: float, nodes: int) -> OptimalPiecewise:
        return OptimalPiecewise(SMALL, epsilon, placement="clamp", nodes=nodes)

    def turned(codes: int) -> Task:
        return _with("hour", DesignedCircular(HOURS, 12.0, _weights(codes, 0)))

    whole, turn = OptimalPiecewise(HEIGHT, 0.5, nodes=256), Circle(2 * math.pi)
    return {
        "inset": Task("height", HEIGHT, 1.0, caps=Caps(lifetime=30.0, rolling=2.0)),
        "inset, 256 nodes": _with("Gr\u00f6\u00dfe", whole, goal="distribution", epoch_seconds=3600),
        "inset, 3 nodes": _with("x", OptimalPiecewise(SMALL, 1.0, nodes=3)),
        "clamp": Task("reading", Interval(-60.5, 180.25), 2.0, goal="value"),
        "clamp, 256 nodes": _with("reading", clamp(0.1, 256)),
        "clamp, 3 nodes": _with("x", clamp(0.01, 3)),
        "wrap": Task("heading", HEADING, 1.0, caps=Caps(lifetime=0.7e3, window=604_800)),
        "wrap, 512 nodes": _with("hour", OptimalCircular(HOURS, 4.0, nodes=512)),
        "wrap, 3 nodes": _with("x", OptimalCircular(turn, 20.0, nodes=3), goal="distribution"),
        "table": _with("reading", _table(SMALL, 4, 3, (-0.5, 0.25, 0.75, 1.5))),
        "table, 300 codes": _with(
            "reading", _table(SMALL, 300, 2, [j / 299 for j in range(300)]), goal="distribution"
        ),
        "circulant": _with("heading", DesignedCircular(HEADING, 20.0, _weights(5, 0))),
        "circulant, 300 codes": turned(300),
        # The most codes of one byte, and the fewest of two.
        "circulant, 256 codes": turned(256),
        "circulant, 257 codes": turned(257),
        # The least weight that e^epsilon allows next to the other: one unit less is too little.
        "table, tight": _with("yes", DesignedTable(SMALL, 1.0, [_tight(), _tight()[::-1]], (0.0, 1.0))),
        "circulant, tight": _with("half", DesignedCircular(HOURS, 1.0, _tight())),
        # Its length is not a float: (value - low) / (high - low) has one result in this order only.
        "inset, odd range": Task("shade", Interval(-0.1, 0.7), 0.3, caps=Caps(lifetime=0.9)),
        **_lattices(),
        **_optional(),
    }


def _optional() -> dict[str, Task]:
    """Return tasks with one and with several of the optional keys; the other tasks have none."""
    wait = "Minutes from \u201chere\u201d to the \u65b0\u5e79\u7dda \U0001f684, at most 60"
    return {
        "optional, unit": Task("speed", Interval(0, 180), 1.0, unit="km/h"),
        "optional, description": Task(
            "turn", Circle(24, step=1), 1.0, description="The hour of the last ride"
        ),
        "optional, all": Task(
            "wait", Interval(0, 60, step=1), 1.0, caps=Caps(lifetime=3.0), description=wait, unit="min"
        ),
        # The longest of each, in characters of four bytes: both lengths need a longer form.
        "optional, longest": Task("mood", SMALL, 1.0, description="\U0001f684" * 200, unit="\U0001f684" * 20),
        "optional, release": Task("heading", HEADING, 1.0, release="closed-epochs", lateness_seconds=0),
        "optional, central": Task(
            "age",
            Interval(0, 100, step=1),
            5.1,
            caps=Caps(lifetime=153.0, rolling=5.1),
            central=CentralStatement(epsilon=5.25, delta=1e-8, reports=10_000, releases=30),
        ),
        # The most and the least of each, including a statement of several reports per device.
        "optional, central and all": Task(
            "wind",
            HEADING,
            0.3,
            epoch_seconds=3600,
            caps=Caps(lifetime=0.6, rolling=0.6, window=3600),
            description="Where the wind comes from",
            unit="°",
            release="closed-epochs",
            lateness_seconds=366 * 86_400,
            central=CentralStatement(0.5, 1e-200, 10**12, honest=0.875, reports_each=2, releases=10**6),
        ),
    }


def _lattices() -> dict[str, Task]:
    week = Circle(7, step=1, rounding="stochastic")
    half_hours = Circle(24, step=0.5, rounding="nearest")
    steps = Interval(-1, 1, clip=True, step=1)
    return {
        "lattice, inset": Task("score", Interval(0, 100, step=1), 1.0),
        "lattice, inset, tenths": Task("load", Interval(-0.5, 2.5, clip=True, step=0.1), 2.0),
        "lattice, inset, twentieths, nearest": Task(
            "dose", Interval(0.05, 7.45, step=0.05, rounding="nearest"), 0.5
        ),
        "lattice, inset, stochastic": Task(
            "level", Interval(0, 3, clip=True, step=0.3, rounding="stochastic"), 1.0
        ),
        "lattice, inset, 1024 values": Task("minute", Interval(0, 1023, step=1), 4.0),
        "lattice, clamp": Task("age", Interval(18, 98, step=1), 1.0, goal="value"),
        "lattice, clamp, even window": _with(
            "age", OptimalPiecewise.from_fields(Interval(0, 11, step=1), 1.0, "clamp", WINDOW_OF_4)
        ),
        "lattice, wrap": Task("heading", Circle(360, step=10), 1.0),
        "lattice, wrap, even window": Task("turn", Circle(21, step=1), 1.0),
        "lattice, wrap, nearest": Task("hour", half_hours, 1.0),
        "lattice, wrap, stochastic": Task("day", week, 0.5),
        "lattice, table": _with("answer", _table(steps, 4, 3, (-0.5, 0.2, 0.8, 1.5))),
        "lattice, circulant": _with("day", DesignedCircular(week, 20.0, _weights(7, 0))),
        # Too many values: nodes are those of a continuous domain, and numbers between values are refused.
        "lattice, 1025 values": Task("minute", Interval(0, 1024, step=1), 1.0),
        "lattice, wrap, 3600 values": Task("heading", Circle(360, step=0.1), 1.0),
    }


def _groups(tasks: dict[str, Task]) -> dict[str, Group]:
    said, plain = tasks["optional, all"], tasks["wrap"]
    return {
        "drawn": Group("trip", [plain, tasks["inset"]], sample=1, caps=Caps(lifetime=12.0)),
        "whole, with descriptions and units": Group("ride", [said, plain, tasks["optional, unit"]]),
    }


def _rows(task: Task) -> dict[str, Any]:
    kernel = task.mechanism.kernel
    lines = [",".join(map(str, kernel.row(node))) + "\n" for node in range(kernel.nodes)]
    shown = range(kernel.nodes) if kernel.nodes <= 3 else [kernel.nodes - 2]
    return {
        "sha256_of_all_rows": hashlib.sha256("".join(lines).encode()).hexdigest(),
        "rows": {str(node): [str(weight) for weight in kernel.row(node)] for node in shown},
    }


def _forms(made: Task | Group) -> dict[str, Any]:
    return {"bytes": made.to_bytes().hex(), "id": made.id, "json": made.to_json()}


def build() -> dict[str, Any]:
    """Return the contents of every file, by its name."""
    tasks = _tasks()
    return {
        "tasks.json": {label: _forms(task) for label, task in tasks.items()},
        "groups.json": {label: _forms(group) for label, group in _groups(tasks).items()},
        "rows.json": {label: _rows(task) for label, task in tasks.items()},
        "draws.json": {label: draws(task) for label, task in tasks.items()},
        "values.json": {label: values_outside(task) for label, task in tasks.items()},
        "batches.json": batches(tasks),
        "long_batches.json": long_batches(tasks),
        "refused.json": refused.cases(tasks),
        "epsilons.json": policy.epsilons(),
        "ledger.json": policy.ledger(),
        "epochs.json": epochs(tasks),
        "answers.json": policy.answers(),
        "schedules.json": policy.schedules(),
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
    """Write the files."""
    for name, content in build().items():
        text = _text(content)
        assert json.loads(text) == content
        (FOLDER / name).write_text(text, encoding="ascii")


if __name__ == "__main__":
    write()
