"""A signal handler that raises at any line of a report: nothing stays held, and nothing leaves uncharged."""

from __future__ import annotations

import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from arcwise.client import Client, FileLedger, MemoryLedger, Outcome
from arcwise.domains import Circle
from arcwise.tasks import Caps, Task
from tests.support.stepped import SteppedUplink

if TYPE_CHECKING:
    from pathlib import Path

    from arcwise.client import Ledger
    from tests.support.recorder import Recorder

TASK = Task("task", Circle(360), epsilon=1.0, caps=Caps(lifetime=100_000.0))
URL = "http://127.0.0.1:1"


class Signal(BaseException):
    """What the handler raises."""


class RaisingAt:
    """Raises at the so-manieth line that is run in the client and in contextlib."""

    def __init__(self, line: int) -> None:
        self.left = line

    def __call__(self, frame: Any, event: str, _: object) -> Any:
        # Not in the queue in memory: the end of a `with` over a lock is a line for whoever traces, and no
        # place at which Python looks for signals.
        name = frame.f_code.co_filename.replace("\\", "/")
        if name.endswith("memory/outbox.py") or not ("arcwise/client" in name or "contextlib" in name):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise Signal
        return self


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_ledger_is_free_after_an_exception_at_any_line(
    tmp_path: Path, recorder: Recorder, kind: str
) -> None:
    ledger: Ledger = MemoryLedger()
    if kind == "file":
        ledger = FileLedger(tmp_path / "ledger.db", create=True, relaxed=True)
    uplink = SteppedUplink(URL, ledger=ledger, transport=recorder)
    client = Client(uplink, tasks=[TASK], ledger=ledger)
    client.report("task", 1.0)
    kept, others = [], 0  # the exceptions are kept, with all that they hold
    before = sys.gettrace()
    for line in range(1, 10_000):
        sys.settrace(RaisingAt(line))
        try:
            client.report("task", 1.0)
        except Signal as error:
            kept.append(error)
        else:
            break
        finally:
            sys.settrace(before)
        outcomes: list[Outcome] = []
        again = partial(lambda outcomes: outcomes.append(client.report("task", 1.0)), outcomes)
        if line % 2:
            again()
        else:
            thread = threading.Thread(target=again, daemon=True)
            thread.start()
            thread.join(20)
        assert outcomes == [Outcome.ACCEPTED], line
        others += 1
    assert len(kept) > 50
    # What was interrupted is charged and queued, or neither, or in memory charged alone.
    spent = client.budget("task").epsilon
    assert others + 2 <= client.pending <= spent <= others + 2 + len(kept)
    uplink.close(0)
