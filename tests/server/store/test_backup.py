"""Backup and restore, as in docs/howto/run-a-server.md, while batches come in.

The backup has each acknowledged batch once. A batch that is sent again counts once, whether it was in the
backup or came after it.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import pytest

from arcwise.server.store import open_store
from tests.support.backups import Backup
from tests.support.postgres import fresh_schema, own_url
from tests.support.store_samples import COUNTED, DELAY, REPLAYED, batch
from tests.support.stores import opened

if TYPE_CHECKING:
    from pathlib import Path

    from arcwise.wire import Batch

BATCHES = [batch(DELAY, [number % 7, 3], number=number, epoch=100 + number % 3) for number in range(120)]


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def test_a_backup_of_a_store_that_takes_batches(kind: str, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        url = f"sqlite:///{tmp_path / 'live.db'}"
        if kind == "postgres":
            url = stack.enter_context(fresh_schema(own_url()))
        backup = Backup(url, tmp_path)
        acknowledged: list[Batch] = []
        begun, enough = threading.Event(), threading.Event()
        with opened(url) as store:

            def take() -> None:
                for number, each in enumerate(BATCHES):
                    assert store.add([each]) == [COUNTED]
                    acknowledged.append(each)
                    if number == 20:
                        begun.set()
                    if number == 60:
                        assert enough.wait(60)  # some come after the backup, even a slow one

            taking = threading.Thread(target=take)
            taking.start()
            assert begun.wait(60)
            before = len(acknowledged)
            backup.make()
            enough.set()
            taking.join()
        backup.restore()
        with contextlib.closing(open_store(url, create=False)) as store:
            assert store.check() == []
            there = store.report_count(DELAY) // 2
            assert before <= there < len(BATCHES)
            outcomes = [store.add([each])[0] for each in BATCHES]
            assert outcomes == [REPLAYED] * there + [COUNTED] * (len(BATCHES) - there)
            expected = DELAY.count([code for number in range(120) for code in (number % 7, 3)])
            assert store.counts(DELAY).tolist() == expected.tolist()  # each once
            assert store.check() == []
