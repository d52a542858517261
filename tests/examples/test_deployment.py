"""The files of examples/deployment say what the command understands."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from arcwise.domains import Circle
from arcwise.server.cli import main
from arcwise.server.cli.serve import serve
from arcwise.server.serving.configuration import Configuration, configure
from arcwise.tasks import Task
from server_processes import serving

FOLDER = Path(__file__).parents[2] / "examples" / "deployment"
HEADING = Task("heading", Circle(360), 1.0)


@pytest.fixture
def unit() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(FOLDER / "arcwise.service")
    return parser["Service"]


def test_a_server_runs_with_the_settings(tmp_path: Path) -> None:
    HEADING.save(tmp_path / "heading.json")
    # The command's options take the place of the paths and the port of the file.
    with serving(tmp_path, "--config", str(FOLDER / "arcwise.toml"), "--drain-seconds", "0") as (
        url,
        process,
    ):
        assert httpx.get(f"{url}/health/ready").status_code == 200
        assert httpx.get(f"{url}/v1/tasks").status_code == 200
        # As the proxy sends it: keys are needed.
        assert httpx.get(f"{url}/v1/tasks", headers={"x-forwarded-for": "203.0.113.1"}).status_code == 401
        process.terminate()
        process.wait(30)
    assert all(json.loads(line) for line in (tmp_path / "stderr").read_text("utf-8").splitlines())


def test_the_unit_runs_the_command_and_waits_for_its_end(unit: configparser.SectionProxy) -> None:
    words = shlex.split(unit["ExecStart"])
    assert Path(words[0]).name == "arcwise"
    assert words[1] == "serve"
    serve.make_context("serve", ["--config", str(FOLDER / "arcwise.toml")])
    assert words[2:] == ["--config", "/etc/arcwise/arcwise.toml"]
    settings = configure({}, FOLDER / "arcwise.toml")
    assert int(unit["TimeoutStopSec"]) >= settings.drain_seconds + 15
    assert int(unit["LimitNOFILE"]) >= 2 * settings.max_connections
    assert settings.store.startswith(f"sqlite:////var/lib/{unit['StateDirectory']}/")


def test_the_container_sets_what_there_is_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (FOLDER / "Containerfile").read_text(encoding="utf-8")
    variables = dict(re.findall(r"(ARCWISE_\w+)=(\S+)", text))
    assert {name.removeprefix("ARCWISE_").lower() for name in variables} <= set(Configuration.model_fields)
    for name in [name for name in os.environ if name.startswith("ARCWISE_")]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ARCWISE_STORE", f"sqlite:///{tmp_path / 'a.db'}")
    # Without a key it does not start, and `arcwise key new` in the same container uses the same store.
    refused = CliRunner().invoke(main, ["serve"])
    assert "the store has no keys, and 0.0.0.0 is not this machine alone" in refused.output
    assert CliRunner().invoke(main, ["key", "new", "--scope", "ingest"]).exit_code == 0
    assert "/health/ready" in text
    assert re.search(r'^ENTRYPOINT \["arcwise"\]$', text, re.MULTILINE)
