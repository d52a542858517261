"""``python -m arcwise.client.conformance.reference``: the Python client as an executable for the kit."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from arcwise.client.client import Client
from arcwise.client.delivery import Schedule, Verdict, backoff_seconds, classify, retry_after_seconds
from arcwise.client.environment import Environment
from arcwise.client.memory import MemoryLedger
from arcwise.client.recording import RecordingTransport
from arcwise.errors import ArcwiseError, CertificateError, DomainError, TaskError
from arcwise.kernels.certificate import exp_lower_bound
from arcwise.tasks import Group, Task, micro_epsilon
from arcwise.wire import Batch, code_width, encode_batch, pack_codes

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.client.conformance.cases import Object


def answer(request: Object) -> Object:
    """Return the answer to one request."""
    ask = _KINDS.get(request["kind"])
    if ask is None:
        return {"skip": "unknown kind"}
    try:
        return {"result": ask(request)}
    except (TaskError, CertificateError, DomainError) as error:
        return {"refused": str(error)}
    except ArcwiseError as error:
        return {"error": repr(error)}


def main() -> None:
    """Answer each line of standard input with one line on standard output."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


@cache
def _task(data: str) -> Task:
    task = Task.from_bytes(bytes.fromhex(data))
    task.mechanism.certificate()
    return task


def _read_task(request: Object) -> Object:
    task = _task(request["bytes"]) if "bytes" in request else Task.from_json(request["json"])
    task.mechanism.certificate()
    return {"id": task.id, "bytes": task.to_bytes().hex()}


def _read_group(request: Object) -> Object:
    data = request.get("bytes")
    group = Group.from_json(request["json"]) if data is None else Group.from_bytes(bytes.fromhex(data))
    return {"id": group.id, "bytes": group.to_bytes().hex(), "tasks": [task.id for task in group.tasks]}


def _row(request: Object) -> Object:
    return {
        "weights": [str(weight) for weight in _task(request["task"]).mechanism.kernel.row(request["node"])]
    }


def _rows(request: Object) -> Object:
    kernel = _task(request["task"]).mechanism.kernel
    digest = hashlib.sha256()
    for node in range(kernel.nodes):
        digest.update((",".join(map(str, kernel.row(node))) + "\n").encode())
    return {"sha256": digest.hexdigest()}


def _draw(request: Object) -> Object:
    mechanism = _task(request["task"]).mechanism
    value = math.nan if request["value"] is None else request["value"]
    node = mechanism.node(value, int(request["r"]))
    return {"node": node, "code": mechanism.kernel.sample(node, int(request["u"]))}


def _epsilon(request: Object) -> Object:
    epsilon = request["epsilon"]
    return {"micro_epsilon": micro_epsilon(epsilon), "bound": str(int(exp_lower_bound(epsilon) * 2**192))}


class _Clock(Environment):
    """A machine with a clock that the case sets."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0.0

    def time(self) -> float:
        return self.now


def _ledger(request: Object) -> Object:
    clock = _Clock()
    client = Client(
        "http://127.0.0.1:9",
        tasks=[task := _task(request["task"])],
        ledger=MemoryLedger(),
        caps="unlimited",  # only the caps of the task apply
        transport=RecordingTransport(),
        environment=clock,
    )
    granted = []
    for clock.now in request["times"]:
        granted.append(bool(client.report(task.name, 0.25)))
    spent = round(client.budget(task.name).epsilon * 1_000_000)
    client.close()
    return {"granted": granted, "spent": spent}


def _epoch(request: Object) -> Object:
    return {"epoch": _task(request["task"]).epoch(request["time"])}


def _batch(request: Object) -> Object:
    task = _task(request["task"])
    packed = pack_codes(request["codes"] * request["times"], code_width(task.mechanism.kernel.codes))
    batch = Batch(bytes.fromhex(task.id), bytes.fromhex(request["batch_id"]), request["epoch"], packed)
    return {"body": encode_batch(batch).hex()}


def _answer(request: Object) -> Object:
    return {"action": classify(request["status"]).value}


def _retry_after(request: Object) -> Object:
    return {"seconds": retry_after_seconds(request["text"])}


def _wait(request: Object) -> Object:
    return {"seconds": backoff_seconds(request["failures"], request["uniform"])}


def _schedule(request: Object) -> Object:
    """Send a queue according to the uplink's schedule; this loop replaces the uplink's thread and clock."""
    uniforms: list[float] = []
    schedule = Schedule(uniform=lambda: uniforms[-1])
    queue = list(enumerate(request["batches"]))
    flushes, now, sends = list(request["flushes"]), 0.0, []
    for reply in request["answers"]:
        while queue:
            ready = min(schedule.ready_at(task) for _, task in queue)
            if not flushes or ready <= flushes[0]:
                break
            now = flushes.pop(0)
            schedule.expedite()
        if not queue:
            break
        now = max(now, ready)
        number, task = batch = next(each for each in queue if schedule.ready_at(each[1]) <= now)
        sends.append([now, number])
        queue.remove(batch)
        uniforms.append(reply["uniform"])
        verdict = classify(reply["status"])
        schedule.record(verdict, task, now, retry_after_seconds(reply["retry_after"]))
        if verdict not in (Verdict.SENT, Verdict.DROP):
            queue.append(batch)
    return {"sends": sends}


def _deliver(request: Object) -> Object:
    task = _task(request["task"])
    client = Client(
        request["url"],
        tasks=[task],
        ledger=MemoryLedger(),
        caps="unlimited",  # only the caps of the task apply
        key=request["key"],
        interval=600,
    )
    for values in filter(None, (request["values"], request["later"])):
        for value in values:
            with suppress(DomainError):  # some values are outside the domain and must not be charged
                client.report(task.name, value)
        client.flush(request["seconds"])
    counters = client.counters
    client.opt_out()  # otherwise closing logs dropped reports on standard error
    client.close(0)
    return {"sent": counters.sent, "dropped": sum(counters.dropped.values()), "pending": counters.pending}


_KINDS: dict[str, Callable[[Object], Any]] = {
    "task": _read_task,
    "group": _read_group,
    "row": _row,
    "rows": _rows,
    "draw": _draw,
    "epsilon": _epsilon,
    "ledger": _ledger,
    "epoch": _epoch,
    "batch": _batch,
    "answer": _answer,
    "retry-after": _retry_after,
    "wait": _wait,
    "schedule": _schedule,
    "deliver": _deliver,
}

if __name__ == "__main__":
    main()
