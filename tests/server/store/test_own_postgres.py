"""The PostgreSQL that a test run starts ends with it, also when nobody has the time to clean up."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.postgres_guard import PATIENCE, is_there

ROOT = Path(__file__).parents[3]
START = (
    "from tests.support.postgres import OwnServer; server = OwnServer(); "
    "print(server.pid, server.folder, flush=True); "
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("then", "ending"), [("input()", signal.SIGKILL), ("", None)], ids=["killed", "ended"]
)
def test_the_server_ends_with_the_process_that_started_it(then: str, ending: signal.Signals | None) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", START + then],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        pid, folder = run.stdout.readline().split()
        if ending is not None:
            assert is_there(int(pid))
            os.kill(run.pid, ending)
        run.wait(PATIENCE)
    until = time.monotonic() + PATIENCE
    while is_there(int(pid)) or Path(folder).exists():
        assert time.monotonic() < until
        time.sleep(0.02)
