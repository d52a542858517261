"""A damaged ledger is reported, raises nothing into the app, and stops all reporting."""

from __future__ import annotations

import contextlib
import os
import random
import re
import sqlite3
from typing import TYPE_CHECKING

import pytest

from arcwise.client import FileLedger, Outcome, inspect
from arcwise.client.file.schema import APPLICATION_ID, INDEXES, VERSION
from arcwise.errors import LedgerError
from arcwise.tasks import Caps
from tests.support.recorder import Recorder
from tests.support.stepped import stepped

if TYPE_CHECKING:
    from pathlib import Path

    from arcwise.tasks import Task

REPORTS = 30
CAPS = Caps(rolling=100.0)


@pytest.fixture
def path(tmp_path: Path, heading: Task) -> Path:
    """Make and close a ledger with charges, queued codes and a sealed batch."""
    path = tmp_path / "ledger.db"
    with FileLedger(path, create=True, relaxed=True) as ledger:
        recorder = Recorder()
        recorder.script.extend([503] * 10)
        client, uplink = stepped(ledger, recorder, heading, caps=CAPS, interval=0)
        for n in range(REPORTS):
            assert client.report("heading", n)
            if n == 10:
                uplink.send()
    assert [each.name for each in tmp_path.iterdir()] == ["ledger.db"]
    return path


def use(path: Path, task: Task) -> list[Outcome]:
    """Open and use a ledger as an app does; `LedgerError` comes from opening it, or not at all."""
    with FileLedger(path, relaxed=True) as ledger:
        client, uplink = stepped(ledger, Recorder(), task, caps=CAPS)
        outcomes = [client.report("heading", n) for n in range(5)]
        uplink.expedite()
        with contextlib.suppress(LedgerError):
            client.counters, client.budget(), inspect(path)
        uplink.close(0)
    return outcomes


def test_a_sound_ledger_can_be_used(path: Path, heading: Task) -> None:
    assert use(path, heading) == [Outcome.ACCEPTED] * 5
    assert inspect(path).sent == REPORTS + 5


def test_every_page_with_garbage_in_it_is_noticed(path: Path, heading: Task) -> None:
    sound, noticed = path.read_bytes(), 0
    generator = random.Random(1)
    for page in range(0, len(sound), 4096):
        path.write_bytes(sound[:page] + generator.randbytes(4096) + sound[page + 4096 :])
        with pytest.raises(LedgerError, match=r"ledger\.db (is|cannot|has)"):
            use(path, heading)
        noticed += 1
    assert noticed > 10


def test_a_changed_bit_gives_no_budget_back(tmp_path: Path, heading: Task) -> None:
    """This includes a bit in the name of an account, whose charges would then belong to nobody."""
    path = tmp_path / "used.db"
    with FileLedger(path, create=True, relaxed=True) as ledger:
        client, _ = stepped(ledger, Recorder(), heading, caps=Caps(lifetime=heading.epsilon))
        assert client.report("heading", 1)
        with contextlib.closing(sqlite3.connect(path)) as connection:
            (name,) = connection.execute("SELECT account FROM accounts WHERE account <> ''").fetchone()
    sound = path.read_bytes()
    places = [found.start() + offset for found in re.finditer(name.encode(), sound) for offset in range(64)]
    assert len(places) >= 3 * 64
    for place in places:
        wrong = bytearray(sound)
        wrong[place] ^= 1 << (place % 8)
        path.write_bytes(wrong)
        with pytest.raises(LedgerError, match="damaged"):
            FileLedger(path)


def test_a_ledger_of_an_earlier_version_gets_its_indexes(path: Path, heading: Task) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for name in INDEXES:
            connection.execute(f"DROP INDEX {name}")
    assert use(path, heading) == [Outcome.ACCEPTED] * 5
    with contextlib.closing(sqlite3.connect(path)) as connection:
        found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    assert found >= INDEXES.keys()


@pytest.mark.slow
def test_a_few_wrong_bytes_in_any_page_raise_nothing_else(path: Path, heading: Task) -> None:
    """Structural damage is noticed when the file is opened, or it makes reports fail."""
    sound, told = path.read_bytes(), 0
    generator = random.Random(2)
    for page in range(0, len(sound), 4096):
        for start in (0, *(generator.randrange(4096) for _ in range(5))):
            wrong = bytearray(sound)
            for at in range(page + start, min(page + start + 4, page + 4096)):
                wrong[at] ^= 0xFF
            path.write_bytes(wrong)
            try:
                outcomes = use(path, heading)
            except LedgerError:
                told += 1
            else:
                assert set(outcomes) <= {Outcome.ACCEPTED, Outcome.FAILED, Outcome.CAPPED, Outcome.FULL}
    assert told > 15


@pytest.mark.parametrize("kept", [0, 1, 50, 100, 4095, 4096, 8192, 20_480, -4096])
def test_a_file_that_was_cut_short(path: Path, heading: Task, kept: int) -> None:
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(LedgerError, match=r"damaged|not an arcwise ledger"):
        use(path, heading)


@pytest.mark.parametrize(
    ("pragma", "message"),
    [
        (f"application_id = {APPLICATION_ID + 1}", "is not an arcwise ledger, or it is damaged"),
        ("application_id = 0", "is not an arcwise ledger, or it is damaged"),
        (
            f"user_version = {VERSION + 1}",
            f"has version {VERSION + 1}; this arcwise supports version {VERSION}",
        ),
        ("user_version = 0", "has version 0"),
    ],
)
def test_what_is_no_ledger_of_this_version(path: Path, heading: Task, pragma: str, message: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA {pragma}")
    with pytest.raises(LedgerError, match=message):
        use(path, heading)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM state",
        "DROP TABLE answers",
        "DROP TABLE entries",
        "UPDATE accounts SET epsilon = 0",  # less in total than within the window
        "UPDATE accounts SET epsilon = 'much'",
        "UPDATE accounts SET delta = '1e3'",
        f"UPDATE accounts SET delta = '{'9' * 5000}'",
        "UPDATE entries SET delta = x'00'",
        "UPDATE reports SET code = -1",
        "UPDATE state SET now = 'today'",
        "UPDATE tasks SET id = 'heading'",
    ],
)
def test_what_somebody_took_out(path: Path, heading: Task, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(statement)
        connection.commit()
    with pytest.raises(LedgerError, match=r"damaged"):
        use(path, heading)


def test_a_log_that_holds_garbage_is_no_part_of_the_ledger(path: Path, heading: Task) -> None:
    for length in (0, 31, 32, 4096, 50_000):
        path.with_name("ledger.db-wal").write_bytes(os.urandom(length))
        assert use(path, heading) == [Outcome.ACCEPTED] * 5
    assert inspect(path).sent == REPORTS + 25


def test_damage_while_it_is_in_use_stops_reports_for_good(path: Path, heading: Task) -> None:
    """This holds even if the damage seems to be gone, because spending is unknown."""
    sound = path.read_bytes()
    with FileLedger(path, relaxed=True) as ledger:
        client, _ = stepped(ledger, Recorder(), heading, caps=CAPS)
        with ledger._database.reading() as connection:
            connection.execute("PRAGMA cache_size = 0")
            connection.execute("PRAGMA shrink_memory")
        with path.open("r+b") as file:
            file.seek(4096)
            file.write(random.Random(3).randbytes(len(sound) - 4096))
        assert client.report("heading", 1.0) is Outcome.FAILED
        with path.open("r+b") as file:
            file.write(sound)
        assert client.report("heading", 1.0) is Outcome.FAILED
        with pytest.raises(LedgerError, match="is damaged"):
            client.budget()
