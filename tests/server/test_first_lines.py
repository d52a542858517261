"""The first lines of the log of `arcwise serve`."""

from __future__ import annotations

import json
import logging
import platform
import re
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from arcwise.domains import Circle, Interval
from arcwise.server.access.keys import new_key
from arcwise.server.process.logs import configure_logs
from arcwise.server.store import open_store
from arcwise.server.store.urls import shown_url
from arcwise.tasks import Task
from arcwise.version import __version__
from tests.support.server_processes import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEADING = Task("heading", Circle(360), 1.0)
DELAY = Task("delay", Interval(0, 60), 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_server_says_what_it_serves(tmp_path: Path, form: str) -> None:
    HEADING.save(tmp_path / "heading.json")
    url = f"sqlite:///{tmp_path / 'server.db'}"
    with closing(open_store(url)) as store:
        store.register([DELAY])
        store.close_task(DELAY.id, 1)
        keys = [new_key(scope, now=0) for scope in ("read", "ingest", "ingest")]
        for _, stored in keys:
            store.add_key(stored)
    with serving(tmp_path, "--log-format", form) as (at, process):
        lines = (tmp_path / "stderr").read_text("utf-8").splitlines()
        process.terminate()
        process.wait(60)
    if form == "json":
        entries = [json.loads(line) for line in lines]
        assert {(entry["logger"], entry["level"]) for entry in entries} == {("arcwise.server", "info")}
        said = [entry["message"] for entry in entries]
    else:
        said = [line.partition(" INFO arcwise.server: ")[2] for line in lines]
    version, where, tasks, who, listening, dashboard = said
    assert version == f"arcwise {__version__} on Python {platform.python_version()}"
    assert re.fullmatch(rf"store: {re.escape(url)}, [0-9,]+ bytes", where)
    assert tasks == f"tasks: heading ({HEADING.id[:8]}), delay ({DELAY.id[:8]}, closed)"
    assert who == "keys: 2 ingest, 1 read"
    assert listening == f"listening on {at}"
    assert dashboard == f"dashboard: {at}/"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:////var/lib/a@b:c/x.db", "sqlite:////var/lib/a@b:c/x.db"),
        ("postgresql://me:SECRET@db/arcwise", "postgresql://me@db/arcwise"),
        ("postgresql://me:SEC%40RET@db/a?sslmode=require", "postgresql://me@db/a?sslmode=require"),
        ("postgresql://db/a?password=SECRET&user=me", "postgresql://db/a?user=me"),
        ("postgresql://me:SEC@RET@db/arcwise", "postgresql://..."),
        ("postgresql://me:SEC@x/RET@db/arcwise", "postgresql://..."),
        ("other://me:SECRET@host/place", "other://me@host/place"),
    ],
)
def test_a_stores_url_is_shown_without_what_is_secret(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@pytest.fixture
def log_levels() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("", "arcwise", "uvicorn.error", "uvicorn.access")]
    before = [(each.level, each.disabled, each.handlers[:]) for each in loggers]
    yield
    for logger, (level, disabled, handlers) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.disabled = disabled
        logger.handlers[:] = handlers


@pytest.mark.usefixtures("log_levels")
def test_info_is_what_arcwise_says_and_not_its_libraries() -> None:
    configure_logs("text", "info")
    assert logging.getLogger("arcwise.server").isEnabledFor(logging.INFO)
    for name in ("uvicorn.error", "httpx", "matplotlib"):
        assert not logging.getLogger(name).isEnabledFor(logging.INFO)
    configure_logs("text", "error")
    assert not logging.getLogger("arcwise.server").isEnabledFor(logging.WARNING)
