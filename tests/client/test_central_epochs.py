"""Even with a wrong clock, a device never exceeds its central statement's number of reports per epoch."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from hypothesis import example, given
from hypothesis import strategies as st

from arcwise.client import Ledger, MemoryLedger
from arcwise.client.ledger import OutboxOptions
from arcwise.client.policy import policy_of
from arcwise.domains import Circle
from arcwise.randomness import SYSTEM
from arcwise.tasks import CentralStatement, Group, Task
from tests.support.nodejs import JAVASCRIPT, run_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

HOUR = 3600
STATEMENTS = [CentralStatement(20.0, 1e-6, 100, reports_each=each, releases=20) for each in (1, 2, 3)]
CENTRAL = [
    Task(
        f"central {said.reports_each}",
        Circle(360),
        1.0,
        caps=said.caps(1.0, HOUR),
        central=said,
        epoch_seconds=HOUR,
    )
    for said in STATEMENTS
]
OTHER = Task("other", Circle(360), 1.0, epoch_seconds=HOUR)
SET_AND_BACK = [(0.0, 0), (5 * HOUR, 3), (0.5, 0), (1.0, 0)]
"""One report, one of another task while the clock is five hours ahead, and two with the right clock again."""


class Recorded:
    """An open transaction that records the epochs that codes are queued for."""

    def __init__(self, opened: Any, epochs: Counter[tuple[str, int]]) -> None:
        self._opened = opened
        self._epochs = epochs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened, name)

    def put(self, task: Task, epoch: int, code: int) -> None:
        self._epochs[task.id, epoch] += 1
        self._opened.put(task, epoch, code)


def reported(
    ledger: Ledger, tasks: Sequence[Task | Group], steps: Iterable[tuple[float, int]]
) -> Counter[tuple[str, int]]:
    """Return each task's number of codes per epoch, for reports at these times of the device's clock."""
    policy = policy_of(tasks, caps="unlimited", memoize=None, max_epsilon=None, max_delta=0.0)
    opened = ledger._attach(ledger._open_outbox(OutboxOptions(batch_size=1, capacity=10_000)))
    epochs: Counter[tuple[str, int]] = Counter()
    for time, number in steps:
        reportable = policy.reportable(tasks[number].name)
        value: Any = {"a": 1.0} if isinstance(tasks[number], Group) else 1.0
        with opened(time) as transaction:
            recorded: Any = Recorded(transaction, epochs)
            reportable.submit(recorded, reportable.located(value), time, SYSTEM)
    return epochs


def check(epochs: Counter[tuple[str, int]]) -> None:
    for task in CENTRAL:
        assert task.central is not None
        counts = [count for (task_id, _), count in epochs.items() if task_id == task.id]
        assert max(counts, default=0) <= task.central.reports_each
        assert len(counts) <= task.central.releases


times = st.integers(0, 10 * HOUR * 4).map(lambda quarter: quarter / 4)
steps = st.lists(
    st.tuples(times | st.integers(0, 10).map(lambda hour: float(hour * HOUR)), st.integers(0, 3))
)


@given(steps)
@example(SET_AND_BACK)
@example([(0.0, 1), (HOUR, 1), (0.0, 1), (2 * HOUR, 1), (0.0, 1)])
def test_no_clock_puts_more_into_an_epoch_than_is_assumed(steps: list[tuple[float, int]]) -> None:
    check(reported(MemoryLedger(), [*CENTRAL, OTHER], steps))


def test_the_same_on_all_ledgers(ledger: Ledger) -> None:
    epochs = reported(ledger, [*CENTRAL, OTHER], SET_AND_BACK)
    check(epochs)
    # By ledger time, five hours have passed, so the cap has room: the report belongs to that later time.
    assert epochs == {(CENTRAL[0].id, 0): 1, (OTHER.id, 5): 1, (CENTRAL[0].id, 5): 1}


def test_other_tasks_go_by_the_clock() -> None:
    epochs = reported(MemoryLedger(), [OTHER], [(0.0, 0), (5 * HOUR, 0), (0.0, 0)])
    assert epochs == {(OTHER.id, 0): 2, (OTHER.id, 5): 1}


def test_a_task_of_a_group() -> None:
    said = STATEMENTS[0]
    task = Task("a", Circle(360), 1.0, caps=said.caps(1.0, HOUR), central=said, epoch_seconds=HOUR)
    group = Group("group", [task, Task("b", Circle(360), 1.0)])
    epochs = reported(MemoryLedger(), [group, OTHER], [(0.0, 0), (5 * HOUR, 1), (0.5, 0), (1.0, 0)])
    assert epochs == {(task.id, 0): 1, (OTHER.id, 5): 1, (task.id, 5): 1}


SCRIPT = """
import { Client, MemoryLedger, Task } from %(index)s;
import { readFileSync } from "node:fs";
const { tasks, steps } = JSON.parse(readFileSync(0, "utf8"));
let time = 0;
Date.now = () => time * 1000;
const read = await Promise.all(tasks.map((task) => Task.fromJson(task)));
const bodies = [];
const fetch = async (url, { body }) => {
  bodies.push(Buffer.from(body).toString("hex"));
  return { status: 204, headers: new Headers(), arrayBuffer: async () => new ArrayBuffer(0) };
};
const options = { tasks: read, caps: "unlimited", ledger: new MemoryLedger(), interval: 1e6, fetch };
const client = new Client("http://127.0.0.1:9", options);
for (const [at, number] of steps) {
  time = at;
  await client.report(read[number].name, 1);
}
await client.flush(10);
await client.close();
console.log(JSON.stringify(bodies));
"""


def test_the_client_in_javascript_does_the_same(tmp_path: Path) -> None:
    from arcwise.wire import decode_batch

    script = tmp_path / "clock.mjs"
    script.write_text(SCRIPT % {"index": repr((JAVASCRIPT / "arcwise" / "index.js").as_uri())}, "utf-8")
    tasks = [*CENTRAL, OTHER]
    turns = [
        (hour * HOUR + 1.0, number) for hour in (3, 0, 7, 2, 7, 8, 1) for number in (3, 1, 0, 2, 2, 1, 0)
    ]
    for times in (SET_AND_BACK, turns):
        given = {"tasks": [task.to_json() for task in tasks], "steps": times}
        found: Counter[tuple[str, int]] = Counter()
        for body in run_json(script, given=given):
            batch = decode_batch(bytes.fromhex(body))
            found[batch.task_id.hex(), batch.epoch] += len(batch.codes)
        check(found)
        assert found == reported(MemoryLedger(), tasks, times)
