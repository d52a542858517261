"""The files of examples/deployment: what they start runs, and what they say is what the command understands.

`tests/server/test_operating_docs.py` and `tests/server/test_proxy.py` use all of them together.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from click.testing import CliRunner

from arcwise.cli import main
from arcwise.cli.serve import serve
from arcwise.domains import Circle
from arcwise.server.process.configuration import configure
from arcwise.server.settings import ProcessSettings, settings_of
from arcwise.tasks import Task
from tests.support.machines import DEPLOYMENT
from tests.support.server_processes import serving

UNIT = "arcwise@.service"
HEADING = Task("heading", Circle(360), 1.0)


@pytest.fixture
def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOYMENT / UNIT)
    return parser


@pytest.mark.slow
def test_a_server_runs_with_the_settings(tmp_path: Path) -> None:
    HEADING.save(tmp_path / "heading.json")
    # The command's options take the place of the paths of the file.
    with serving(tmp_path, "--config", str(DEPLOYMENT / "arcwise.toml"), "--drain-seconds", "0") as (
        url,
        process,
    ):
        assert httpx.get(f"{url}/health/ready").status_code == 200
        assert httpx.get(f"{url}/v1/tasks").status_code == 200
        # As the proxy sends it: keys are needed.
        assert httpx.get(f"{url}/v1/tasks", headers={"x-forwarded-for": "203.0.113.1"}).status_code == 401
        process.terminate()
        process.wait(60)
    assert all(json.loads(line) for line in (tmp_path / "stderr").read_text("utf-8").splitlines())


def test_the_unit_runs_the_command_and_waits_for_its_end(
    unit: configparser.ConfigParser, tmp_path: Path
) -> None:
    service = unit["Service"]
    words = shlex.split(service["ExecStart"])
    assert Path(words[0]).name == "arcwise"
    assert words[1:] == ["serve", "--config", "/etc/arcwise/arcwise.toml", "--port", "%i"]
    serve.make_context("serve", ["--config", str(DEPLOYMENT / "arcwise.toml"), "--port", "8001"])
    HEADING.save(tmp_path / "heading.json")
    settings = configure({"tasks": tmp_path}, DEPLOYMENT / "arcwise.toml")
    assert int(service["TimeoutStopSec"]) >= settings.drain_seconds + 15
    assert int(service["LimitNOFILE"]) >= 2 * settings.max_connections
    assert settings.store.startswith(f"sqlite:////var/lib/{service['StateDirectory']}/")


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    targets = list(Path("/lib/systemd/system").glob("*.target"))
    if analyze is None or not targets:
        pytest.skip("systemd is not here")
    system = tmp_path / "etc" / "systemd" / "system"
    system.mkdir(parents=True)
    for file in (*targets, DEPLOYMENT / UNIT):
        shutil.copy(file, system)
    program = tmp_path / "opt" / "arcwise" / "bin" / "arcwise"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    command = [analyze, "verify", f"--root={tmp_path}", "arcwise@8001.service"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = "\n".join(line for line in done.stderr.splitlines() if "arcwise" in line)
    assert (done.returncode, said) == (0, "")


class Container(NamedTuple):
    """The last stage of the container file."""

    steps: list[tuple[str, str]]

    def all(self, instruction: str) -> list[str]:
        return [words for name, words in self.steps if name == instruction]

    def one(self, instruction: str) -> str:
        (words,) = self.all(instruction)
        return words


@pytest.fixture
def container() -> Container:
    text = (DEPLOYMENT / "Containerfile").read_text("utf-8")
    lines = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    steps = [(name, words) for name, _, words in (line.partition(" ") for line in lines if line)]
    last = max(place for place, (name, _) in enumerate(steps) if name == "FROM")
    return Container(steps[last:])


def test_the_container_is_not_root_and_holds_the_wheel_only(container: Container) -> None:
    names = [name for name, _ in container.steps]
    assert "COPY" not in names
    assert "ADD" not in names
    assert f"--uid {container.one('USER')} " in container.one("RUN")
    assert int(container.one("USER")) > 0
    assert names.index("USER") > names.index("RUN")
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", container.one("FROM"))
    assert container.one("VOLUME") in container.one("RUN")


@pytest.mark.slow
def test_the_container_starts_is_healthy_and_stops(container: Container, tmp_path: Path) -> None:
    variables = dict(words.split("=", 1) for words in container.one("ENV").split())
    assert {name.removeprefix("ARCWISE_").lower() for name in variables} <= set(settings_of(ProcessSettings))
    assert variables["ARCWISE_PORT"] == container.one("EXPOSE")
    assert variables["ARCWISE_STORE"].startswith(f"sqlite:///{container.one('VOLUME')}/")
    assert f"install -d {variables['ARCWISE_TASKS']}" in container.one("RUN")
    HEADING.save(tmp_path / "heading.json")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ARCWISE_")}
    environment |= variables
    environment |= {"ARCWISE_STORE": f"sqlite:///{tmp_path / 'server.db'}", "ARCWISE_TASKS": str(tmp_path)}
    # Without a key it does not start; `arcwise key new` in the same container uses the same store.
    refused = CliRunner().invoke(main, json.loads(container.one("CMD")), env=environment)
    assert "the store has no keys, and 0.0.0.0 is not this machine alone" in refused.output
    made = CliRunner().invoke(main, ["key", "new", "--scope", "ingest"], env=environment)
    assert made.exit_code == 0
    assert json.loads(container.one("ENTRYPOINT")) == ["arcwise"]
    assert json.loads(container.one("CMD")) == ["serve"]
    check = json.loads(container.one("HEALTHCHECK").removeprefix("CMD "))
    check[0] = sys.executable
    assert container.one("STOPSIGNAL") == "SIGTERM"
    with serving(tmp_path, "--host", "127.0.0.1", environment=environment) as (url, process):
        environment["ARCWISE_PORT"] = url.rpartition(":")[2]
        assert subprocess.run(check, env=environment, check=False).returncode == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM
    assert subprocess.run(check, env=environment, check=False, capture_output=True).returncode == 1


def test_every_file_is_of_the_deployment() -> None:
    page = (DEPLOYMENT.parents[1] / "docs" / "howto" / "run-a-server.md").read_text("utf-8")
    for file in DEPLOYMENT.iterdir():
        assert f"(../../examples/deployment/{file.name})" in page
