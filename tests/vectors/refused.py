"""Invalid tasks, each with the rule that it breaks: a client that accepts one of these is wrong.

Nearly all differ from a valid task in one field. Bytes are the canonical encoding of the changed fields, so
that the id of each is consistent with it, and only the stated rule is broken.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import msgpack

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.tasks import Task


# Places in a task's array.
VERSION, NAME, DOMAIN, EPSILON, GOAL, PERIOD, CAPS, MECHANISM, OPTIONAL = range(9)
# And in the kernel of each kind.
CODES, NODES, WINDOW, BACKGROUND, EXTRA = range(2, 7)
ROWS, UNITS = 4, 5


def cases(tasks: dict[str, Task]) -> dict[str, Any]:
    """Return the cases by label: `bytes` in hex or a `json` object, and `why`."""
    found: dict[str, Any] = {}
    found |= {f"{label}: {why}": {"why": why, "bytes": data.hex()} for label, why, data in _bytes(tasks)}
    found |= {f"json: {why}": {"why": why, "json": data} for why, data in _json(tasks["wrap"].to_json())}
    return found


def _bytes(tasks: dict[str, Task]) -> list[tuple[str, str, bytes]]:
    cases = []
    for why, label, change in (*_PRIVACY, *_SHAPE):
        fields = msgpack.unpackb(tasks[label].to_bytes())
        change(fields)
        cases.append((label, why, bytes(msgpack.packb(fields))))
    data = tasks["wrap"].to_bytes()
    fields = msgpack.unpackb(data)
    said = _said(tasks["optional, all"].to_bytes())
    # 0xdc starts an array in a longer form than it needs, 0xd9 a string, 0xde a map.
    cases += [
        ("optional, all", "the keys of a map in another order", said(b"\x82", "unit", "description")),
        ("optional, all", "a key of a map twice", said(b"\x83", "description", "unit", "unit")),
        ("optional, all", "a map in the long form", said(b"\xde\x00\x02", "description", "unit")),
        ("optional, all", "a map that ends early", said(b"\x82", "description")),
        ("optional, all", "a map without keys", said(b"\x80")),
        ("wrap", "an array in the long form", b"\xdc\x00\x08" + data[1:]),
        ("wrap", "a string in the long form", data[:2] + b"\xd9\x07" + data[3:]),
        ("wrap", "epsilon as a float32", bytes(msgpack.packb(fields, use_single_float=True))),
        ("wrap", "a byte behind the array", data + b"\x00"),
        ("wrap", "an array that ends early", data[:-1]),
        ("wrap", "no bytes at all", b""),
    ]
    return cases


def _said(data: bytes) -> Callable[..., bytes]:
    """Return a function that rewrites the map of a task's bytes: another head, other keys, values kept."""
    *_, said = msgpack.unpackb(data)
    before = data[: -len(msgpack.packb(said))]

    def changed(head: bytes, *keys: str) -> bytes:
        return before + head + b"".join(msgpack.packb(key) + msgpack.packb(said[key]) for key in keys)

    return changed


def _set(*path: int | str, to: object) -> Callable[[Any], None]:
    def change(fields: Any) -> None:
        for index in path[:-1]:
            fields = fields[index]
        fields[path[-1]] = to

    return change


def _kernel(index: int, add: int) -> Callable[[Any], None]:
    def change(fields: Any) -> None:
        fields[MECHANISM][2][index] += add

    return change


def _move(row: int | None, source: int, target: int, weight: int | None = None) -> Callable[[Any], None]:
    """Return a change that moves weight, all of a code's unless given, within a row: its sum stays 2**64."""

    def change(fields: Any) -> None:
        kernel = fields[MECHANISM][2]
        weights = kernel[3] if row is None else kernel[ROWS][row]
        moved = weights[source] if weight is None else weight
        weights[source] -= moved
        weights[target] += moved

    return change


def _empty_code(fields: Any) -> None:
    """Move all weight of code 0 to the last code, in every row."""
    for row in fields[MECHANISM][2][ROWS]:
        row[-1] += row[0]
        row[0] = 0


def _stronger_window(fields: Any) -> None:
    """Give a window one unit more per code, taken from the background: the sums still hold."""
    kernel = fields[MECHANISM][2]
    codes, window = kernel[CODES], kernel[WINDOW]
    kernel[EXTRA] += 1
    kernel[BACKGROUND] = (2**64 - window * kernel[EXTRA]) // codes


_PRIVACY: tuple[tuple[str, str, Callable[[Any], None]], ...] = (
    ("the ratio of weights is above e^epsilon by one unit", "inset", _stronger_window),
    ("the ratio of weights is above e^epsilon by one unit", "clamp", _stronger_window),
    ("the ratio of weights is above e^epsilon by one unit", "wrap", _stronger_window),
    ("epsilon is less than the kernel spends", "inset", _set(EPSILON, to=math.nextafter(1.0, 0.0))),
    ("epsilon is less than the kernel spends", "wrap, 512 nodes", _set(EPSILON, to=3.999)),
    ("epsilon is less than the kernel spends", "table", _set(EPSILON, to=1.0)),
    ("epsilon is less than the kernel spends", "circulant", _set(EPSILON, to=11.0)),
    ("the ratio of weights is above e^epsilon by one unit", "table, tight", _move(0, 0, 1, 1)),
    ("the ratio of weights is above e^epsilon by one unit", "circulant, tight", _move(None, 0, 1, 1)),
    ("a weight is 0", "table", _move(1, 0, 3)),
    ("a weight is 0", "circulant", _move(None, 0, 4)),
    ("a code has no weight in any row", "table", _empty_code),
    ("codes * background + window * extra is above 2^64", "inset", _kernel(BACKGROUND, 1)),
    ("codes * background + window * extra is at most 2^64 - codes", "clamp", _kernel(BACKGROUND, -1)),
    ("a row has the sum 2^64 - 1", "table", _set(MECHANISM, 2, ROWS, 0, 0, to=281_474_976_710_655)),
    ("a row has the sum 2^64 + 1", "table", _set(MECHANISM, 2, ROWS, 2, 0, to=562_949_953_421_313)),
    ("a row has the sum 2^64 - 1", "circulant", _set(MECHANISM, 2, 3, 0, to=281_474_976_710_655)),
    ("a row has a code too few", "table", lambda fields: fields[MECHANISM][2][ROWS][1].pop()),
    ("background is 0", "inset, 3 nodes", _set(MECHANISM, 2, BACKGROUND, to=0)),
    ("extra is 0", "inset, 3 nodes", _set(MECHANISM, 2, EXTRA, to=0)),
    ("epsilon is 0", "wrap", _set(EPSILON, to=0.0)),
    ("epsilon is below 0.01", "wrap", _set(EPSILON, to=0.0099)),
    ("epsilon is above 20", "wrap, 3 nodes", _set(EPSILON, to=20.5)),
    ("epsilon is NaN", "wrap", _set(EPSILON, to=math.nan)),
)
"""The rule, the valid task, and the change: cases that would break the privacy statement."""

_SHAPE: tuple[tuple[str, str, Callable[[Any], None]], ...] = (
    ("a schema version that is not known", "wrap", _set(VERSION, to=2)),
    ("a name that is not in NFC", "wrap", _set(NAME, to="Gro\u0308\u00dfe")),
    ("an empty name", "wrap", _set(NAME, to="")),
    ("a name of 65 characters", "wrap", _set(NAME, to="x" * 65)),
    ("a name with a space at its end", "wrap", _set(NAME, to="x ")),
    ("a name with a line feed", "wrap", _set(NAME, to="x\ny")),
    ("a kind of domain that is not known", "wrap", _set(DOMAIN, to=["sphere", 1.0])),
    ("a period that is an integer", "wrap", _set(DOMAIN, 1, to=360)),
    ("a period of 0", "wrap", _set(DOMAIN, 1, to=0.0)),
    ("a period that is infinite", "wrap", _set(DOMAIN, 1, to=math.inf)),
    ("low above high", "inset", _set(DOMAIN, to=["interval", 1.0, 0.0, False])),
    ("low equal to high", "inset", _set(DOMAIN, to=["interval", 1.0, 1.0, False])),
    ("a length that is infinite", "inset", _set(DOMAIN, to=["interval", -1e308, 1e308, False])),
    ("minus 0 as low", "inset", _set(DOMAIN, 1, to=-0.0)),
    ("clip that is no boolean", "inset", _set(DOMAIN, 3, to=1)),
    ("a goal of the other kind of domain", "inset", _set(GOAL, to="direction")),
    ("epochs of 0 seconds", "wrap", _set(PERIOD, to=0)),
    ("epochs of more than 366 days", "wrap", _set(PERIOD, to=366 * 86_400 + 1)),
    ("a lifetime cap of 0", "wrap", _set(CAPS, 0, to=0)),
    ("a lifetime cap below one charge", "wrap", _set(CAPS, 0, to=999_999)),
    ("a rolling cap below one charge", "wrap", _set(CAPS, 1, to=999_999)),
    ("a rolling window of 0 seconds", "wrap", _set(CAPS, 2, to=0)),
    ("a cap that is a float", "wrap", _set(CAPS, 0, to=2e6)),
    ("two caps", "wrap", _set(CAPS, to=[None, None])),
    ("a mechanism version that is not known", "wrap", _set(MECHANISM, 1, to=2)),
    ("a kind of kernel that is not known", "wrap", _set(MECHANISM, 2, 0, to="piano")),
    ("a placement of the other kind of domain", "wrap", _set(MECHANISM, 2, 1, to="inset")),
    ("a placement of the other kind of domain", "inset", _set(MECHANISM, 2, 1, to="wrap")),
    ("a placement that a table does not have", "table", _set(MECHANISM, 2, 1, to="clamp")),
    ("a circular kernel on an interval", "wrap", _set(DOMAIN, to=["interval", 0.0, 1.0, False])),
    ("codes that are not nodes + window - 1", "inset", _kernel(CODES, 1)),
    ("codes that are not nodes", "wrap", _kernel(CODES, 1)),
    ("codes that are not those of the rows", "table", _kernel(CODES, 1)),
    ("nodes that are not the rows", "table", _kernel(NODES, 1)),
    ("codes that are not those of the row", "circulant", _kernel(CODES, -1)),
    ("a unit too few", "table", lambda fields: fields[MECHANISM][2][UNITS].pop()),
    ("a unit that is infinite", "table", _set(MECHANISM, 2, UNITS, 0, to=math.inf)),
    ("a unit that is an integer", "table", _set(MECHANISM, 2, UNITS, 0, to=1)),
    ("a step of 0", "lattice, inset", _set(DOMAIN, 4, to=0.0)),
    ("a step below 0", "lattice, wrap", _set(DOMAIN, 2, to=-10.0)),
    ("a step that is an integer", "lattice, inset", _set(DOMAIN, 4, to=1)),
    ("a step that is infinite", "lattice, inset", _set(DOMAIN, 4, to=math.inf)),
    ("a step that is NaN", "lattice, wrap", _set(DOMAIN, 2, to=math.nan)),
    ("a step that is nil", "inset", lambda fields: fields[DOMAIN].extend([None, "refuse"])),
    ("a step without a rounding", "lattice, inset", lambda fields: fields[DOMAIN].pop()),
    ("a step without a rounding", "lattice, wrap", lambda fields: fields[DOMAIN].pop()),
    ("a rounding that is not known", "lattice, inset", _set(DOMAIN, 5, to="up")),
    ("a rounding that is nil", "lattice, wrap", _set(DOMAIN, 3, to=None)),
    ("a field too many in a domain", "lattice, wrap", lambda fields: fields[DOMAIN].append("refuse")),
    ("steps that are not whole", "lattice, inset", _set(DOMAIN, 4, to=0.999)),
    ("steps that are not whole", "lattice, 1025 values", _set(DOMAIN, 4, to=0.3)),
    ("a step below 2^-32 of a bound", "lattice, 1025 values", _set(DOMAIN, 4, to=2.0**-23)),
    ("one value", "lattice, wrap", _set(DOMAIN, 2, to=360.0)),
    ("a value without a node", "lattice, inset", _set(DOMAIN, 4, to=0.5)),
    ("a value without a node", "lattice, wrap", _set(DOMAIN, 2, to=5.0)),
    ("a value without a node", "lattice, clamp", _set(DOMAIN, 2, to=99.0)),
    ("a value without a node", "lattice, table", _set(DOMAIN, 4, to=2.0)),
    ("a value without a node", "lattice, circulant", _set(DOMAIN, 2, to=0.5)),
    ("a value without a node", "inset", lambda fields: fields[DOMAIN].extend([1.0, "refuse"])),
    ("a field too few", "wrap", lambda fields: fields.pop()),
    ("a field too many", "wrap", lambda fields: fields.append(None)),
    ("a map without keys", "wrap", lambda fields: fields.append({})),
    ("a list in place of a map", "wrap", lambda fields: fields.append([])),
    ("a key that is not known", "wrap", lambda fields: fields.append({"unit ": "min"})),
    ("a key that is not known", "optional, all", _set(OPTIONAL, "zone", to="UTC")),
    ("a key in capitals", "optional, unit", _set(OPTIONAL, to={"UNIT": "km/h"})),
    ("a key that is no string", "wrap", lambda fields: fields.append({b"unit": "min"})),
    ("a key that is an integer", "wrap", lambda fields: fields.append({1: "min"})),
    ("two maps", "wrap", lambda fields: fields.extend([{"unit": "min"}, {"unit": "min"}])),
    ("a unit that is nil", "optional, all", _set(OPTIONAL, "unit", to=None)),
    ("a unit that is a number", "optional, unit", _set(OPTIONAL, "unit", to=1.0)),
    ("a unit that is bytes", "optional, unit", _set(OPTIONAL, "unit", to=b"min")),
    ("an empty unit", "optional, unit", _set(OPTIONAL, "unit", to="")),
    ("a unit of 21 characters", "optional, unit", _set(OPTIONAL, "unit", to="x" * 21)),
    ("a unit that is not in NFC", "optional, unit", _set(OPTIONAL, "unit", to="\u2126")),
    ("a description that is nil", "optional, all", _set(OPTIONAL, "description", to=None)),
    ("an empty description", "optional, all", _set(OPTIONAL, "description", to="")),
    ("a description of 201 characters", "optional, all", _set(OPTIONAL, "description", to="x" * 201)),
    ("a description of two lines", "optional, all", _set(OPTIONAL, "description", to="x\ny")),
    ("a description with a space at its end", "optional, all", _set(OPTIONAL, "description", to="x ")),
    ("a lateness below 0", "optional, release", _set(OPTIONAL, "lateness_seconds", to=-1)),
    (
        "a lateness of more than 366 days",
        "optional, release",
        _set(OPTIONAL, "lateness_seconds", to=31_622_401),
    ),
    ("a lateness that is a float", "optional, release", _set(OPTIONAL, "lateness_seconds", to=60.0)),
    ("a lateness that is nil", "optional, release", _set(OPTIONAL, "lateness_seconds", to=None)),
    ("a release that is not known", "optional, release", _set(OPTIONAL, "release", to="closed")),
    ("a release that is no string", "optional, release", _set(OPTIONAL, "release", to=True)),
    *(
        (f"a central statement {why}", "optional, central", _set(OPTIONAL, "central", *path, to=to))
        for why, path, to in (
            ("that is a number", (), 1.0),
            ("that is an array", (), [1e-8, 5.25, 1.0, 30, 10_000, 1]),
            ("without keys", (), {}),
            ("with a key that is not known", ("zone",), 1),
            ("with an epsilon of 0", ("epsilon",), 0.0),
            ("with an epsilon that is an integer", ("epsilon",), 5),
            ("with an epsilon that is NaN", ("epsilon",), math.nan),
            ("with a delta of 0", ("delta",), 0.0),
            ("with a delta of 1", ("delta",), 1.0),
            ("with a delta below 1e-200", ("delta",), 9e-201),
            ("with an honest share of 0", ("honest",), 0.0),
            ("with an honest share above 1", ("honest",), 1.125),
            ("with an honest share that is nil", ("honest",), None),
            ("with no reports", ("reports",), 0),
            ("with reports that are a float", ("reports",), 10_000.0),
            ("with more than 10^12 reports", ("reports",), 10**12 + 1),
            ("with more reports of a device than there are", ("reports_each",), 10_001),
            ("with no report of a device", ("reports_each",), 0),
            ("with no release", ("releases",), 0),
            ("with more than 10^6 releases", ("releases",), 10**6 + 1),
            ("with fewer releases than the lifetime cap allows", ("releases",), 29),
        )
    ),
    ("a central statement without a lifetime cap", "optional, central", _set(CAPS, 0, to=None)),
    ("a central statement with a lifetime cap too high", "optional, central", _set(CAPS, 0, to=153_000_001)),
    ("a central statement without a rolling cap", "optional, central", _set(CAPS, 1, to=None)),
    ("a central statement with a rolling cap too high", "optional, central", _set(CAPS, 1, to=5_100_001)),
    ("a central statement with a window below an epoch", "optional, central", _set(CAPS, 2, to=86_399)),
    (
        "a description that changes the direction of writing",
        "optional, all",
        _set(OPTIONAL, "description", to="x\u202ey"),
    ),
)
"""The same for cases that would be counted or sampled as another task, or under another id."""


_STATEMENT = {
    "delta": 1e-8,
    "epsilon": 1.0,
    "honest": 1.0,
    "releases": 1,
    "reports": 10_000,
    "reports_each": 1,
}
_STEP = {"step": 2.8125, "rounding": "refuse"}
"""A step that fits the 128 nodes of the task: only the id shows that the task differs."""


def _json(valid: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    def changed(*path: str, to: object) -> dict[str, Any]:
        whole: dict[str, Any] = json.loads(json.dumps(valid))
        part = whole
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = to
        return whole

    kernel = ("mechanism", "kernel")
    return [
        ("an id that is not its own", changed("id", to="0" * 64)),
        ("an id in capitals", changed("id", to=valid["id"].upper())),
        ("another epsilon under the id", changed("epsilon", to=2.0)),
        ("another cap under the id", changed("caps", "lifetime_micro_epsilon", to=900_000_000)),
        ("another domain under the id", changed("domain", "period", to=24.0)),
        ("a weight that is a number", changed(*kernel, "background", to=4_757_171_797_706_816)),
        ("a weight with a sign", changed(*kernel, "extra", to="+" + valid["mechanism"]["kernel"]["extra"])),
        ("a weight of 21 digits", changed(*kernel, "extra", to="0" * 21)),
        ("codes that are no integer", changed(*kernel, "codes", to=128.5)),
        ("a schema version that is not known", changed("arcwise_task", to=2)),
        ("a step under the id of a task without one", changed("domain", to=valid["domain"] | _STEP)),
        ("a step without a rounding", changed("domain", to=valid["domain"] | {"step": 2.8125})),
        ("a unit under the id of a task without one", changed("unit", to="min")),
        ("a unit that is null", changed("unit", to=None)),
        ("a description that is an object", changed("description", to={"en": "x"})),
        ("a lateness under the id of a task without one", changed("lateness_seconds", to=3600)),
        ("a lateness that is a string", changed("lateness_seconds", to="3600")),
        ("a release under the id of a task without one", changed("release", to="closed-epochs")),
        ("a central statement that is a list", changed("central", to=[])),
        ("a central statement that is null", changed("central", to=None)),
        ("a central statement without caps", changed("central", to=_STATEMENT)),
        ("a central statement without a delta", changed("central", to={"epsilon": 1.0, "reports": 100})),
    ]
