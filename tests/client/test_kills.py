"""SIGKILL of reporting processes, 500 times at random moments, in both modes of the ledger.

`tests/soak/kill_client.py` holds the study and its checks after every kill; run it for more kills.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.soak.kill_client import hosted_place, kill_reporting, kill_while_made

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["strict", "relaxed"])
def test_charged_is_never_less_than_released_and_the_queue_is_never_damaged(mode: str, path: Path) -> None:
    went = kill_reporting(str(path), mode, kills=250, seed=5)
    assert went.charged == went.released > 0
    # Some processes died between the server's answer and recording it, so those batches came again.
    assert went.repeats > 0
    assert went.unacknowledged > 0


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["postgres", "postgres-relaxed"])
def test_the_same_holds_for_an_account_in_a_database(mode: str) -> None:
    with hosted_place() as place:
        went = kill_reporting(place, mode, kills=40, seed=5)
    assert went.charged == went.released > 0


@pytest.mark.slow
def test_a_ledger_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    assert kill_while_made(tmp_path, kills=60, seed=6) > 0
