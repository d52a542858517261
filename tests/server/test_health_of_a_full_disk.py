"""A disk that is really full: a small file system under the store, or a limit on its files."""

import asyncio
import contextlib
import os
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from fastapi import FastAPI

from arcwise.domains import Interval
from arcwise.tasks import Task
from arcwise.wire import MEDIA_TYPE, Batch, encode_batch
from tests.support.disks import small_disk
from tests.support.forks import in_child
from tests.support.postgres import OwnServer

Run = Callable[..., None]
DELAY = Task("delay", Interval(0, 1), 1.0)
FULL = "The store cannot be written."


async def trouble(http: httpx.AsyncClient) -> str | None:
    answer = await http.get("/health/ready")
    assert answer.status_code == (503 if answer.is_error else 200)
    return str(answer.json()["detail"]) if answer.is_error else None


async def until(http: httpx.AsyncClient, expected: str | None) -> None:
    deadline = time.monotonic() + 60
    while (found := await trouble(http)) != expected:
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.01)


async def report(http: httpx.AsyncClient, number: int) -> int:
    batch = Batch(bytes.fromhex(DELAY.id), number.to_bytes(16, "big"), DELAY.epoch(time.time()), b"\x07")
    headers = {"content-type": MEDIA_TYPE}
    return (
        await http.post(f"/v1/tasks/{DELAY.id}/reports", content=encode_batch(batch), headers=headers)
    ).status_code


def not_ready_while(with_app: Run, full: contextlib.AbstractContextManager[object], store: str) -> None:
    """Check that an app is ready before and after `full`, and not ready within it."""

    async def scenario(http: httpx.AsyncClient, _app: FastAPI) -> None:
        assert (await report(http, 1), await trouble(http)) == (204, None)
        with full:
            await until(http, FULL)
            assert (await http.get("/health/live")).status_code == 200
        await until(http, None)
        assert await report(http, 2) == 204

    with_app([DELAY], scenario, store=store)


@contextlib.contextmanager
def filled(disk: Path, left: int = 0) -> Iterator[None]:
    """Leave about this many bytes of room on a disk that others write to."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as out, contextlib.suppress(OSError):
        while shutil.disk_usage(disk).free > left:
            out.write(bytes(1 << 16))
    yield
    filler.unlink()


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Let no file of this process grow; there is room on the disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arcwise.server.runtime.REFRESH_SECONDS", 0.01)


@pytest.mark.parametrize("left", [0, 8 << 20])  # a small change still fits into 8 MiB
def test_sqlite_on_a_full_disk(with_app: Run, tmp_path: Path, left: int) -> None:
    with small_disk(tmp_path / "disk", "64m") as disk:
        not_ready_while(with_app, filled(disk, left), f"sqlite:///{disk / 'app.db'}")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_sqlite_that_cannot_write_though_there_is_room(with_app: Run, tmp_path: Path) -> None:
    def check() -> bool:
        not_ready_while(with_app, limited(), f"sqlite:///{tmp_path / 'app.db'}")
        return True

    assert in_child(check)


@pytest.mark.slow
def test_postgres_on_a_full_disk(with_app: Run, tmp_path: Path) -> None:
    server = OwnServer()
    # Next to the server's folder, because the server runs as a user who cannot reach pytest's folders.
    place = server.folder.with_name(f"{server.folder.name}-disk")
    try:
        with small_disk(place, "64m") as disk:
            os.chown(disk, Path(f"/proc/{server.pid}").stat().st_uid, -1)
            with contextlib.closing(psycopg.connect(server.url, autocommit=True)) as connection:
                connection.execute(f"CREATE TABLESPACE small LOCATION '{disk}'".encode())
                connection.execute("CREATE DATABASE small TABLESPACE small")
            not_ready_while(with_app, filled(disk), urlsplit(server.url)._replace(path="/small").geturl())
            server.stop()
    finally:
        place.rmdir()
