"""Settings of `arcwise serve`: options, else the environment, else a file; each of them documented."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from arcwise.cli import main
from arcwise.domains import Interval
from arcwise.errors import ParameterError
from arcwise.server import Settings
from arcwise.server.process.configuration import Configuration, configure
from arcwise.tasks import Task
from tests.support.server_processes import serving

DELAY = Task("delay", Interval(0, 1), 1.0)
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("ARCWISE_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_options_before_environment_before_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("arcwise.toml").write_text('port = 1\nhost = "file"\nretention_days = 1\nallow_origins = ["*"]\n')
    monkeypatch.setenv("ARCWISE_PORT", "2")
    monkeypatch.setenv("ARCWISE_HOST", "environment")
    monkeypatch.setenv("ARCWISE_TRUSTED_PROXIES", '["10.0.0.1"]')
    found = configure({"port": 3}, Path("arcwise.toml"))
    assert (found.port, found.host, found.retention_days) == (3, "environment", 1)
    assert (found.allow_origins, found.trusted_proxies) == (["*"], ["10.0.0.1"])
    assert found.max_connections == 4096
    assert configure({}).retention_days == 30


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "prot: Extra inputs are not permitted"),
        ('port = "SECRET"', "port: Input should be a valid integer"),
        ("port = 70000", "port: Input should be less than or equal to 65535"),
        ('log_format = "SECRET"', "log_format: Input should be 'json' or 'text'"),
        ("drain_seconds = -1", "drain_seconds: Input should be greater than or equal to 0"),
        ("port = ", "settings cannot be read"),
    ],
)
def test_what_is_wrong_is_named_and_not_repeated(text: str, message: str) -> None:
    Path("arcwise.toml").write_text(text)
    with pytest.raises(ParameterError, match=message) as caught:
        configure({}, Path("arcwise.toml"))
    assert "SECRET" not in str(caught.value)


def test_a_file_that_is_not_there_is_no_default() -> None:
    with pytest.raises(ParameterError, match=r"config must be a TOML file, and nowhere\.toml is none"):
        configure({}, Path("nowhere.toml"))


def test_a_password_in_a_store_is_not_shown() -> None:
    settings = Settings([DELAY], store="postgresql://arcwise:SECRET@db/arcwise")
    assert "SECRET" not in repr(settings)


def test_every_setting_of_the_app_can_be_set_with_the_same_default() -> None:
    names = {field.name for field in dataclasses.fields(Settings) if field.init}
    assert names <= set(Configuration.model_fields)
    DELAY.save("delay.json")
    made = configure({"tasks": Path()}).settings()
    plain = Settings([DELAY])
    for name in names - {"tasks", "estimates_apart"}:  # of these the command has its own
        assert (
            tuple(getattr(made, name) or ()) == ()
            if name == "allow_origins"
            else (getattr(made, name) == getattr(plain, name))
        )
    assert configure({}).settings().served == ()


def test_every_setting_is_an_option_and_is_documented() -> None:
    shown = CliRunner().invoke(main, ["serve", "--help"]).output
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    singular = {"allow_origins": "allow-origin", "trusted_proxies": "trusted-proxy"}
    for name, setting in Configuration.model_fields.items():
        assert f"--{singular.get(name, name.replace('_', '-'))}" in shown
        assert setting.description
        row = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        assert len(row) == 1, f"docs/operating.md has {len(row)} rows for {name}"
        stated = row[0].split("|")[2].strip().strip("`")
        default = setting.default
        words = "" if default is None else str(default).lower() if type(default) is bool else str(default)
        assert stated == words, f"docs/operating.md: the default of {name}"


def test_a_process_takes_a_file_and_the_environment() -> None:
    DELAY.save("delay.json")
    Path("arcwise.toml").write_text("max_batch_codes = 7\nopen = true\n")
    environment = {**os.environ, "ARCWISE_ALLOW_ORIGINS": '["https://app.example"]'}
    environment["ARCWISE_CONFIG"] = "arcwise.toml"
    with serving(Path.cwd(), environment=environment) as (url, _):
        path = f"{url}/v1/tasks/{DELAY.id}/reports"
        answer = httpx.post(path, headers={"origin": "https://app.example", "host": "reports.example"})
        assert answer.status_code == 415  # open: not 401
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
