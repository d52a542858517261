"""The golden vectors of what a client decides: charges against caps, and what answers mean."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from arcwise.client import FileLedger, MemoryLedger
from arcwise.client.delivery import backoff_seconds, classify, retry_after_seconds
from arcwise.domains import Circle
from arcwise.mechanisms import DesignedCircular
from arcwise.tasks import Caps, Task
from tests.support.charges import charge, spent
from tests.vectors.make import FOLDER

if TYPE_CHECKING:
    from pathlib import Path


def read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="ascii"))


def test_both_ledgers_grant_what_the_vectors_say(tmp_path: Path) -> None:
    for number, (label, case) in enumerate(read("ledger.json").items()):
        lifetime, rolling, window = case["caps"]
        epsilon = case["micro_epsilon"] / 1_000_000
        caps = Caps(lifetime and lifetime / 1e6, rolling and rolling / 1e6, window)
        mechanism = DesignedCircular(Circle(1), epsilon, [2**63 - 1, 2**63 + 1])
        task = Task("t", Circle(1), epsilon, mechanism=mechanism, caps=caps)
        with FileLedger(tmp_path / f"{number}.db", create=True) as file:
            for ledger in (MemoryLedger(), file):
                assert [charge(ledger, task, now) for now in case["times"]] == case["granted"], label
                assert spent(ledger, task) == case["spent"]


def test_answers_mean_this() -> None:
    answers = read("answers.json")
    for status, verdict in answers["statuses"].items():
        assert classify(int(status)).value == verdict
    assert set(answers["statuses"].values()) == {"sent", "retry", "keep", "pause", "drop"}
    for case in answers["retry_after"]:
        assert retry_after_seconds(case["text"]) == case["seconds"], case["text"]
    for case in answers["backoff"]:
        assert backoff_seconds(case["failures"], case["uniform"]) == case["seconds"]
