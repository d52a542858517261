"""`docs/reference/http.md` in practice: its requests and its Python run against a real server."""

from __future__ import annotations

import re
import shlex
import subprocess
from contextlib import closing, redirect_stdout
from datetime import datetime, timezone
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest

from arcwise.domains import Interval
from arcwise.server.estimates.question import KINDS
from arcwise.server.store import open_store
from arcwise.tasks import Task
from tests.support.server_processes import serving
from tests.support.store_samples import batch

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "http.md").read_text("utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
(PROGRAM,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
BASE = "http://127.0.0.1:8000"
DELAY = Task("delay", Interval(0, 180), 2.0, unit="min")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server")
    DELAY.save(folder / "delay.json")
    first = DELAY.epoch(datetime(2026, 11, 1, tzinfo=timezone.utc).timestamp())
    generator = np.random.default_rng(1)
    with closing(open_store(f"sqlite:///{folder / 'server.db'}")) as store:
        store.register([DELAY])
        for day in range(14):
            codes = DELAY.randomize(generator.normal(40 + day, 10, 5000).clip(0, 180))
            store.add([batch(DELAY, codes.tolist(), number=day, epoch=first + day)])
    with serving(folder) as (base, _):
        yield base


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.split("/delay/")[1][:20])
def test_the_requests_are_answered(command: str, url: str, tmp_path: Path) -> None:
    program, *arguments = shlex.split(command)
    assert program == "curl"
    asked = [argument.replace(BASE, url) for argument in arguments]
    done = subprocess.run(
        [program, "--fail", "--silent", *asked], cwd=tmp_path, check=True, capture_output=True
    )
    files = list(tmp_path.iterdir())
    said = files[0].read_bytes() if files else done.stdout
    assert b"delay" in said
    assert len(said) > 200


def test_the_program_prints_what_it_reads(url: str) -> None:
    shown = StringIO()
    with redirect_stdout(shown):
        exec(compile(PROGRAM.replace(BASE, url), "http.md", "exec"), {})
    names, estimate, weeks, difference = shown.getvalue().splitlines()
    assert names == "['delay']"
    assert re.fullmatch(r"4\d(\.\d+)? \[.*\] 0\.\d+ \[.*\]", estimate)
    assert re.fullmatch(r"(49|50|51)(\.\d+)? \[.*\] \S+", weeks)
    assert float(difference.split(" ")[0]) == pytest.approx(7.0, abs=3.0)


def test_every_parameter_is_in_the_table() -> None:
    table = PAGE.split("## Parameters")[1].split("\n\n")[1]
    listed = set(re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in table.splitlines())))
    assert listed == {name for names in KINDS.values() for name in names}
    for command in COMMANDS:
        address = next(part for part in shlex.split(command) if part.startswith(BASE))
        assert {name for name, _ in parse_qsl(urlsplit(address).query)} <= listed
