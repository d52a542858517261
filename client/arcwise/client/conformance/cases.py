"""The cases of the conformance kit: requests to a client and the answers it must give."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from arcwise.client.conformance.deliveries import deliveries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Object: TypeAlias = dict[str, Any]

OPTIONAL = frozenset({"group", "deliver"})
"""Kinds of cases that a client may skip: it need not support groups, and an app may send batches itself."""


class Case(NamedTuple):
    """One request line for a client, and the expected answer."""

    kind: str
    name: str
    request: Object
    expected: Object | None
    """The expected members of the result, or None if the client must refuse the request."""
    server: Any = None
    """The server that the request names; it runs until the client has answered."""


def all_cases() -> Iterator[Case]:
    """Yield every case, kind by kind."""
    tasks = {label: entry["bytes"] for label, entry in _read("tasks").items()}
    for kind, make in _KINDS.items():
        for case in make(tasks):
            yield case._replace(request={"kind": kind, "case": case.name, **case.request})


def _read(name: str) -> Any:
    text = files(__package__).joinpath("vectors").joinpath(f"{name}.json").read_text(encoding="ascii")
    return json.loads(text)


def _tasks(_: dict[str, str]) -> Iterator[Case]:
    for label, entry in _read("tasks").items():
        expected = {"id": entry["id"], "bytes": entry["bytes"]}
        yield Case("task", f"{label}, bytes", {"bytes": entry["bytes"]}, expected)
        yield Case("task", f"{label}, file", {"json": entry["json"]}, expected)
    for label, entry in _read("refused").items():
        form = "bytes" if "bytes" in entry else "json"
        yield Case("task", f"refused: {label}", {form: entry[form]}, None)


def _groups(_: dict[str, str]) -> Iterator[Case]:
    for label, entry in _read("groups").items():
        tasks = [task["id"] for task in entry["json"]["tasks"]]
        expected = {"id": entry["id"], "bytes": entry["bytes"], "tasks": tasks}
        yield Case("group", f"{label}, bytes", {"bytes": entry["bytes"]}, expected)
        yield Case("group", f"{label}, file", {"json": entry["json"]}, expected)


def _rows(tasks: dict[str, str]) -> Iterator[Case]:
    for label, entry in _read("rows").items():
        for node, weights in entry["rows"].items():
            yield Case(
                "row",
                f"{label}, node {node}",
                {"task": tasks[label], "node": int(node)},
                {"weights": weights},
            )


def _all_rows(tasks: dict[str, str]) -> Iterator[Case]:
    for label, entry in _read("rows").items():
        yield Case("rows", label, {"task": tasks[label]}, {"sha256": entry["sha256_of_all_rows"]})


def _draws(tasks: dict[str, str]) -> Iterator[Case]:
    for label, cases in _read("draws").items():
        for case in cases:
            asked = {name: case[name] for name in ("value", "r", "u")}
            name = f"{label}, value {case['value']!r}, r {case['r']}, u {case['u']}"
            expected = {"node": case["node"], "code": case["code"]}
            yield Case("draw", name, {"task": tasks[label], **asked}, expected)
    for label, values in _read("values").items():
        for value in values:
            asked = {"value": value, "r": "0", "u": "0"}
            yield Case("draw", f"{label}, refused value {value!r}", {"task": tasks[label], **asked}, None)


def _epsilons(_: dict[str, str]) -> Iterator[Case]:
    for case in _read("epsilons"):
        expected = {"micro_epsilon": case["micro_epsilon"], "bound": case["exp_lower_bound_times_2_to_192"]}
        yield Case("epsilon", repr(case["epsilon"]), {"epsilon": case["epsilon"]}, expected)


def _ledgers(_: dict[str, str]) -> Iterator[Case]:
    for label, case in _read("ledger").items():
        expected = {"granted": case["granted"], "spent": case["spent"]}
        yield Case("ledger", label, {"task": case["task"], "times": case["times"]}, expected)


def _epochs(tasks: dict[str, str]) -> Iterator[Case]:
    for case in _read("epochs"):
        name = f"{case['task']}, time {case['time']!r}"
        yield Case(
            "epoch", name, {"task": tasks[case["task"]], "time": case["time"]}, {"epoch": case["epoch"]}
        )


def _batches(tasks: dict[str, str]) -> Iterator[Case]:
    for number, case in enumerate(_read("batches") + _read("long_batches")):
        times = case.get("times", 1)
        asked = {name: case[name] for name in ("batch_id", "epoch", "codes")}
        expected = {name: case[name] for name in ("body", "body_bytes", "body_sha256") if name in case}
        name = f"{number}, {case['task']}, {len(case['codes']) * times} codes"
        yield Case("batch", name, {"task": tasks[case["task"]], **asked, "times": times}, expected)


def _answers(_: dict[str, str]) -> Iterator[Case]:
    for status, action in _read("answers")["statuses"].items():
        yield Case("answer", status, {"status": int(status)}, {"action": action})


def _retry_after(_: dict[str, str]) -> Iterator[Case]:
    for case in _read("answers")["retry_after"]:
        text = case["text"]
        shown = text if text is None or len(text) < 40 else f"{text[:9]}... of {len(text)} characters"
        yield Case("retry-after", repr(shown), {"text": text}, {"seconds": case["seconds"]})


def _waits(_: dict[str, str]) -> Iterator[Case]:
    for case in _read("answers")["backoff"]:
        asked = {name: case[name] for name in ("failures", "uniform")}
        yield Case(
            "wait", f"{case['failures']} failures, U {case['uniform']}", asked, {"seconds": case["seconds"]}
        )


def _schedules(_: dict[str, str]) -> Iterator[Case]:
    for label, case in _read("schedules").items():
        asked = {name: case[name] for name in ("batches", "answers", "flushes")}
        yield Case("schedule", label, asked, {"sends": case["sends"]})


def _deliveries(tasks: dict[str, str]) -> Iterator[Case]:
    for delivery in deliveries(tasks):
        yield Case("deliver", delivery.name, delivery.request, delivery.expected, delivery)


_KINDS: dict[str, Callable[[dict[str, str]], Iterator[Case]]] = {
    "task": _tasks,
    "group": _groups,
    "row": _rows,
    "rows": _all_rows,
    "draw": _draws,
    "epsilon": _epsilons,
    "ledger": _ledgers,
    "epoch": _epochs,
    "batch": _batches,
    "answer": _answers,
    "retry-after": _retry_after,
    "wait": _waits,
    "schedule": _schedules,
    "deliver": _deliveries,
}
