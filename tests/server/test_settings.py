"""Settings of `arcwise serve`: options, else the environment, else a file; each of them documented."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError, TaskError
from arcwise.server import Settings, create_app
from arcwise.server.process.configuration import configure, unknown_variables
from arcwise.server.settings import ProcessSettings, settings_of
from arcwise.tasks import Task
from tests.support.commands import bad, good
from tests.support.server_processes import serving

DELAY = Task("delay", Interval(0, 1), 1.0)


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
        ("prot = 1", r": prot is not a setting; did you mean port\?$"),
        ("max-body-bytes = 1", r": max-body-bytes is not a setting; did you mean max_body_bytes\?$"),
        ("xyz = 1\nprot = 1", r": xyz is not a setting, prot is not a setting; did you mean port\?$"),
        ('[server]\nport = "SECRET"', ": server is not a setting$"),
        ('port = "SECRET"', "port: Input should be a valid integer"),
        ("port = 70000", "port must be an integer from 0 to 65535, got 70000"),
        ("retention_days = 0", "retention_days must be an integer from 1 to 36500, got 0"),
        ("header_seconds = 0", "header_seconds must be above 0 and at most 3600, got 0"),
        ('open = "SECRET"', "open: Input should be a valid boolean"),
        ('allow_origins = "SECRET"', "allow_origins: Input should be a valid list"),
        ('log_format = "SECRET"', "log_format: Input should be 'json' or 'text'"),
        ("drain_seconds = -1", "drain_seconds must be at least 0 and at most 600, got -1"),
        ("min_reports = true", "min_reports: Input should be a valid integer"),
        ("min_reports = 5.0", "min_reports: Input should be a valid integer"),
        ("body_seconds = true", "body_seconds: Input should be a valid number"),
        ('trusted_proxies = ["bad addr"]', "trusted_proxies must be a list of addresses or networks"),
        ('trusted_proxies = ["*", "10.0.0.1"]', "trusted_proxies must be a list of addresses or networks"),
        ('trusted_proxies = ["10.0.0.1/8"]', "trusted_proxies must be a list of addresses or networks"),
        ("port = ", "settings cannot be read"),
    ],
)
def test_what_is_wrong_is_named_and_not_repeated(text: str, message: str) -> None:
    Path("arcwise.toml").write_text(text)
    with pytest.raises(ParameterError, match=message) as caught:
        configure({}, Path("arcwise.toml"))
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("max_body_byte", "; did you mean max_body_bytes?"),
        ("xyz", "; it takes tasks, "),
        ("port", "; it takes tasks, "),
    ],
)
def test_an_app_names_the_option_that_it_does_not_have(name: str, question: str) -> None:
    """A port is a setting of the process alone."""
    options: Any = {"tasks": [DELAY], name: 1}
    with pytest.raises(TypeError) as caught:
        create_app(**options)
    assert str(caught.value).startswith(f"create_app() has no option {name!r}{question}")


NOT_ORIGINS: list[Any] = [
    *("https://app.example", 3, [3], ["app.example"], ["https://app.example/"], ["https://app.example/path"]),
    *(["https://App.example"], ["https://user@app.example"], ["ftp://app.example"], ["null"], [""]),
    ["*", "https://app.example"],
]
NOT_PUBLIC = ("reports.example", "https://reports.example/", "HTTPS://reports.example", 7)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tasks": [DELAY, Task("delay", Circle(1), 1.0)]}, "each with a different name"),
        *(({"tasks": wrong}, "tasks must be Task objects") for wrong in (3, [1], None)),
        ({"tasks": []}, "at least one"),
        ({"tasks": "."}, "contains no task file"),
        ({"tasks": "nowhere"}, "not a directory of task files"),
        ({"max_body_bytes": 1 << 21}, "max_body_bytes must be an integer from 1 to 1048576"),
        ({"retention_days": 0}, "retention_days must be an integer from 1 to 36500, got 0"),
        ({"max_waiting_bytes": 100_000}, r"max_body_bytes \+ 1024, here 1049600, .* got 100000"),
        ({"settings": Settings([DELAY]), "tasks": [DELAY]}, "not both"),
        ({"open": "yes"}, "open must be True, False or None, got 'yes'"),
        ({"estimates_apart": 1}, "estimates_apart must be True or False, got 1"),
        *(({"allow_origins": wrong}, "allow_origins must") for wrong in NOT_ORIGINS),
        *(({"public_url": wrong}, "public_url must be an origin such as") for wrong in NOT_PUBLIC),
        (
            {"public_url": "http://reports.example"},
            "public_url must begin with https:// unless it names this",
        ),
    ],
)
def test_an_app_says_what_is_wrong(given: dict[str, Any], message: str) -> None:
    with pytest.raises((ParameterError, TaskError), match=message):
        create_app(**{"tasks": [DELAY], **given})


def test_origins_of_every_form_are_taken() -> None:
    origins = ("http://localhost:5173", "http://127.0.0.1", "https://[::1]:8443", "https://app.example")
    assert Settings([DELAY], allow_origins=iter(origins)).origins == origins
    for url in ("http://127.0.0.1:8000", "http://[::1]:8000", "https://reports.example:8443"):
        assert Settings(public_url=url).public_url == url
    DELAY.save("delay.json")
    options = ("--allow-origin", "https://app.example", "--allow-origin", "app.example")
    assert "allow_origins must" in bad("serve", "--tasks", ".", "--store", "sqlite:///a.db", *options)
    assert "--allow-origin ORIGIN" in good("serve", "--help")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_among_task_files_is_not_waited_for() -> None:
    DELAY.save("delay.json")
    os.mkfifo("pipe.json")
    with pytest.raises(TaskError, match=r"pipe\.json is not a regular file"):
        Settings(".")


@pytest.mark.parametrize("given", [["*"], ["10.0.0.1", "::1", "10.0.0.0/8"], []])
def test_proxies_are_addresses_and_networks(given: list[str]) -> None:
    assert configure({"trusted_proxies": given}).trusted_proxies == given


def test_a_variable_that_is_no_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ARCWISE_MIN_REPORT", "ARCWISE_STORE", "ARCWISE_CACHE", "ARCWISE_XYZ", "arcwise_port"):
        monkeypatch.setenv(name, "SECRET")
    assert unknown_variables() == [
        "ARCWISE_MIN_REPORT; did you mean min_reports?",
        "ARCWISE_XYZ",
    ]


def test_a_file_that_is_not_there_is_no_default() -> None:
    with pytest.raises(ParameterError, match=r"config: nowhere\.toml is not a file"):
        configure({}, Path("nowhere.toml"))


def test_a_password_in_a_store_is_not_shown() -> None:
    settings = Settings([DELAY], store="postgresql://arcwise:SECRET@db/arcwise")
    assert "SECRET" not in repr(settings)


def test_every_setting_of_the_app_can_be_set_with_the_same_default() -> None:
    DELAY.save("delay.json")
    made, plain = configure({"tasks": Path()}), Settings([DELAY])
    names = settings_of(Settings)
    assert set(names) < set(settings_of(ProcessSettings))
    for name in set(names) - {"tasks", "estimates_apart"}:  # for these the command has its own
        assert getattr(made, name) == getattr(plain, name), name
    assert made.served == plain.served
    assert (made.estimates_apart, plain.estimates_apart) == (True, False)
    assert configure({}).served == ()


def test_not_open_in_a_file_is_the_default_and_still_serves_this_machine() -> None:
    Path("arcwise.toml").write_text("open = false\n")
    assert configure({}, Path("arcwise.toml")).open is None
    assert configure({"open": True}, Path("arcwise.toml")).open is True


@pytest.mark.parametrize("name", settings_of(ProcessSettings))
def test_a_default_is_what_its_declaration_states(name: str) -> None:
    stated = settings_of(ProcessSettings)[name].default
    if stated:
        is_text = isinstance(getattr(configure({}), name), str)
        Path("arcwise.toml").write_text(f"{name} = {repr(stated) if is_text else stated}\n")
        given, default = configure({}, Path("arcwise.toml")), configure({})
        assert (
            tuple(getattr(given, name)) == ()
            if stated == "[]"
            else (getattr(given, name) == getattr(default, name))
        )


def test_every_setting_is_an_option_with_help() -> None:
    shown = " ".join(good("serve", "--help").split())
    for name, setting in settings_of(ProcessSettings).items():
        assert f"{setting.option or '--' + name.replace('_', '-')} " in shown
        assert setting.help


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
