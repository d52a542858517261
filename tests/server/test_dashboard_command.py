"""`arcwise dashboard`: the pages of a store for this machine, without a login and without changes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import httpx
import pytest

from arcwise.cli.dashboard import _limits
from arcwise.domains import Circle
from arcwise.errors import ParameterError
from arcwise.server.access.keys import new_key
from arcwise.server.store import Store, open_store
from arcwise.tasks import Task
from arcwise.wire import MEDIA_TYPE, Batch, encode_batch, pack_codes
from tests.support.commands import bad, good
from tests.support.server_processes import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEADING = Task("heading", Circle(360), 1.0)


def batch(number: int, codes: list[int]) -> Batch:
    epoch = HEADING.epoch(time.time())
    return Batch(bytes.fromhex(HEADING.id), number.to_bytes(16, "big"), epoch, pack_codes(codes, 1))


def fill(path: Path, reports: int = 30) -> Store:
    store = open_store(f"sqlite:///{path}")
    store.register([HEADING])
    store.add([batch(0, [code % 50 for code in range(reports)])])
    store.add_key(new_key("read", now=0)[1])  # which is never asked for
    return store


@contextmanager
def showing(folder: Path, *arguments: str) -> Iterator[tuple[str, list[str], subprocess.Popen[str]]]:
    """Run the command; yield the URL, its earlier output, and the process."""
    command = [sys.executable, "-m", "arcwise.cli", "dashboard", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        try:
            said: list[str] = []
            for line in process.stdout or ():
                if " is at http://127.0.0.1:" in line:
                    yield line.split(" is at ")[1].split("/ ")[0], said, process
                    break
                said.append(line.rstrip())
            else:
                pytest.fail("the dashboard did not start")
        finally:
            process.terminate()


def everything(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_a_store_is_shown_and_stays_as_it_is(tmp_path: Path) -> None:
    fill(tmp_path / "counts.db").close()
    before = everything(tmp_path)
    with (
        showing(tmp_path, "counts.db") as (url, said, process),
        httpx.Client(base_url=url, timeout=60) as http,
    ):
        assert len(said) == 1
        assert "0 is assumed, so everything is shown" in said[0]
        shown = http.get(f"/v1/tasks/{HEADING.id}/estimate")
        assert (shown.status_code, shown.json()["n"]) == (200, 30)
        assert http.get("/v1/tasks").json()["tasks"][0]["name"] == "heading"
        for page in ("/", "/tasks/heading"):
            shown = http.get(page)
            assert (shown.status_code, shown.headers["content-type"]) == (200, "text/html; charset=utf-8")
            assert "heading" in shown.text
            assert '<form method="post"' not in shown.text
        assert http.get("/operator").status_code == 404  # it accepts no reports
        for method, path in (
            ("POST", f"/v1/tasks/{HEADING.id}/reports"),
            ("POST", "/v1/tasks"),
            ("POST", f"/v1/tasks/{HEADING.id}/close"),
            ("POST", "/login"),
            ("PUT", "/"),
            ("DELETE", "/"),
        ):
            refused = http.request(
                method, path, content=encode_batch(batch(1, [1])), headers={"content-type": MEDIA_TYPE}
            )
            assert refused.status_code == 503
            assert refused.json()["type"] == "urn:arcwise:problem:read-only"
            assert refused.headers["retry-after"] == "60"
        # Other clients than a browser on this machine: another name that points here, or a proxy.
        path = f"/v1/tasks/{HEADING.id}/estimate"
        assert http.get(path, headers={"host": "evil.example"}).status_code == 401
        assert http.get(path, headers={"x-forwarded-for": "203.0.113.1"}).status_code == 401
        process.send_signal(signal.SIGINT)
        process.wait(60)
    assert everything(tmp_path) == before


@pytest.mark.slow
def test_a_server_goes_on_writing(tmp_path: Path) -> None:
    HEADING.save(tmp_path / "heading.json")
    with serving(tmp_path, "--min-reports", "10", "--min-reports-days", "1") as (server, _):

        def send(number: int, codes: list[int]) -> None:
            answer = httpx.post(
                f"{server}/v1/tasks/{HEADING.id}/reports",
                content=encode_batch(batch(number, codes)),
                headers={"content-type": MEDIA_TYPE},
            )
            assert answer.status_code == 204

        send(1, [1] * 9)
        store = f"sqlite:///{tmp_path / 'server.db'}"
        with showing(tmp_path, store) as (url, said, _):
            assert said == []  # the store knows what its server shows

            def shown() -> tuple[int, int, int]:
                answer = httpx.get(f"{url}/v1/tasks/{HEADING.id}/estimate", timeout=60).json()
                return answer["n"], answer["withheld"], answer["min_reports"]

            assert shown() == (0, 9, 10)
            send(2, [2])
            assert shown() == (10, 0, 10)
    with closing(open_store(store)) as opened:
        assert opened.check() == []
        assert opened.report_count(HEADING) == 10


def test_the_limits_are_never_lower_than_the_servers(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'counts.db'}"
    with closing(fill(tmp_path / "counts.db")) as store:
        assert _limits(url, {"min_reports": 3}) == ({"min_reports": 3}, [])
        limits, said = _limits(url, {})
        assert (limits, len(said)) == ({}, 1)
        store.remember("min_reports", 100)
        store.remember("min_reports_days", 7)
    remembered = {"min_reports": 100, "min_reports_days": 7}
    assert _limits(url, {}) == (remembered, [])
    assert _limits(url, {"min_reports": 200}) == (remembered | {"min_reports": 200}, [])
    with pytest.raises(ParameterError, match="must be at least 100"):
        _limits(url, {"min_reports": 99})
    with pytest.raises(ParameterError, match="min_reports_days must be 7"):
        _limits(url, {"min_reports_days": 1})


@pytest.mark.slow
def test_the_configuration_of_the_server_counts(tmp_path: Path) -> None:
    fill(tmp_path / "counts.db").close()
    (tmp_path / "arcwise.toml").write_text('tasks = "/not/here"\nmin_reports = 31\nport = 1\n')
    with showing(tmp_path, "counts.db", "--config", "arcwise.toml") as (url, said, _):
        answer = httpx.get(f"{url}/v1/tasks/{HEADING.id}/estimate", timeout=60).json()
        assert (said, answer["n"], answer["withheld"]) == ([], 0, 30)


def test_what_cannot_be_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = partial(bad, "dashboard", code=1)
    assert "there is no store at typo.db" in told("typo.db")
    assert "store must be sqlite:///FILE or postgresql://" in told("http://x")
    for mistyped in ("postgres//u:PW@h/db", "postgresql:/u:PW@h/db", "u:PW@h/db", "host=h password=PW"):
        for command in ("dashboard", "store merge sqlite:///target.db"):
            said = bad(*command.split(), mistyped, code=1)
            assert "not an existing file, and neither sqlite:///FILE" in said
            assert "PW" not in said
    (tmp_path / "other.db").write_bytes(b"")
    assert "is not a store of arcwise" in told("other.db")
    fill(tmp_path / "counts.db").close()
    assert "port must be an integer from 0 to 65535" in told("counts.db", "--port", "70000")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["counts.db", "other.db"]


def test_a_browser_is_opened_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "counts.db").close()
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)

    def run(_app: object, listener: object, _settings: object, *, started: object) -> None:
        assert callable(started)
        listener.close()  # type: ignore[attr-defined]
        started("http://127.0.0.1:1")

    monkeypatch.setattr("arcwise.cli.dashboard.run", run)
    said = good("dashboard", str(tmp_path / "counts.db"), "--open")
    deadline = time.monotonic() + 60
    while not opened and time.monotonic() < deadline:
        time.sleep(0.01)
    assert opened == ["http://127.0.0.1:1/"]
    assert "is at http://127.0.0.1:1/ until Ctrl-C" in said
