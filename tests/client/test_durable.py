"""The order of commits and sends: what leaves was charged in a commit that is on the disk."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from arcwise.client import FileLedger
from tests.support.stepped import stepped

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from arcwise.tasks import Task
    from tests.support.recorder import Recorder


class Trace:
    """What a ledger's connection is told to do, and what leaves, in their order.

    "report" and "seal" are commits of such transactions, with a "!" when SQLite then waits for the disk.
    """

    def __init__(self, ledger: FileLedger, recorder: Recorder) -> None:
        self.events: list[str] = []
        self._full = True  # SQLite's default
        self._changes = ""
        self._recorder = recorder
        with ledger._database.reading() as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
            connection.set_trace_callback(self._statement)

    def _statement(self, statement: str) -> None:
        if found := re.fullmatch(r"PRAGMA synchronous = (\w+)", statement):
            self._full = found[1] == "FULL"
        elif statement.startswith("BEGIN"):
            self._changes = ""
        elif statement.startswith("INSERT INTO reports"):
            self._changes = "report"
        elif statement.startswith("UPDATE batches SET leased_until") and "leased_by" in statement:
            self._changes = "seal"
        elif statement == "COMMIT" and self._changes:
            self.events.append(self._changes + "!" * self._full)

    def post(
        self, url: str, body: bytes, headers: Mapping[str, str], timeout: float
    ) -> tuple[int, str | None]:
        self.events.append("send")
        return self._recorder.post(url, body, headers, timeout)

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("relaxed", "report"), [(False, "report!"), (True, "report")], ids=["strict", "relaxed"]
)
def test_every_send_follows_a_commit_that_waited_for_the_disk(
    tmp_path: Path, recorder: Recorder, heading: Task, delay: Task, relaxed: bool, report: str
) -> None:
    with FileLedger(tmp_path / "ledger.db", create=True, relaxed=relaxed) as ledger:
        trace = Trace(ledger, recorder)
        client, uplink = stepped(ledger, trace, heading, delay, interval=0, batch_size=2)
        expected: list[str] = []
        for name, answer in (("heading", 204), ("delay", 503), ("heading", 204), ("delay", 410)):
            recorder.script.append(answer)
            client.report(name, 1.0)
            expected += [report, "seal!", "send"]
            uplink.send()
            if answer == 503:
                uplink.expedite()  # the attempt that follows is preceded by a commit of its own
                expected += ["seal!", "send"]
        client.report("heading", 1.0)
        assert trace.events == [*expected, report]
