"""Mistakes of newcomers, in Python and on the command line: each message says what to change, to what.

Each case is an expression, or the arguments of `arcwise`, and a part of the message. A test of one argument's
bounds belongs with the other tests of its function.
"""

# ruff: noqa: E501 (one mistake a line)

from __future__ import annotations

import datetime
import importlib
import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner

import arcwise.client as client_package
from arcwise import analysis, client, domains, tasks
from arcwise.cli import main
from arcwise.client import Client, HttpxTransport, Uplink
from arcwise.domains import Circle, Interval
from arcwise.errors import ArcwiseError
from arcwise.mechanisms import OptimalPiecewise, SquareWave
from arcwise.noise import Laplace
from arcwise.server import Settings, create_app
from arcwise.server.store import open_store
from arcwise.tasks import Group, Task

if TYPE_CHECKING:
    from pathlib import Path

URL = "http://127.0.0.1:9"
KEY = f"arcwise_ingest_{'0' * 12}_{'0' * 64}"
HEADING = Task("heading", Circle(360), epsilon=1.0)
DELAY = Task("delay", Interval(0, 180), epsilon=1.0)
GROUP = Group("trip", [HEADING, DELAY])
COUNTS = DELAY.count(np.arange(DELAY.mechanism.kernel.codes))

NAMES = {
    **{
        name: getattr(module, name)
        for module in (analysis, client, domains, tasks)
        for name in module.__all__
    },
    "np": np,
    "datetime": datetime,
    "client": client_package,
    "create_app": create_app,
    "Settings": Settings,
    "open_store": open_store,
    "URL": URL,
    "KEY": KEY,
    "heading": HEADING,
    "delay": DELAY,
    "group": GROUP,
    "counts": COUNTS,
    "HttpxTransport": HttpxTransport,
    "SquareWave": SquareWave,
    "OptimalPiecewise": OptimalPiecewise,
    "Laplace": Laplace,
    "Uplink": Uplink,
}

MISTAKES = [
    # options and arguments that do not exist, are too many or are missing
    ("Client(URL, tasks=[heading], batchsize=3)", "Client() has no option 'batchsize'; did you mean batch_size?"),
    ("Client(URL, tasks=[heading], zzz=3)", "Client() has no option 'zzz'; it takes tasks, ledger, caps"),
    ("Client(URL, [heading])", "Client() takes server by position, got 2 arguments; give the others by name: tasks"),
    ("Client(URL)", "Client() needs tasks; it takes server, tasks"),
    ("AsyncClient(URL, tasks=[heading], intervall=3)", "AsyncClient() has no option 'intervall'; did you mean in"),
    ("Uplink(URL, batchsize=3)", "Uplink() has no option 'batchsize'; did you mean batch_size?"),
    ("FileLedger('x.db', creat=True)", "FileLedger() has no option 'creat'; did you mean create?"),
    ("Task('heading', Circle(360), eps=1)", "Task() has no option 'eps'; did you mean epsilon?"),
    ("Task('heading', Circle(360))", "Task() needs epsilon; it takes name, domain, epsilon"),
    ("Caps(lifetme=3)", "Caps() has no option 'lifetme'; did you mean lifetime?"),
    ("Interval((0, 180))", "Interval() needs high; it takes low, high"),
    ("Interval(0, 100, steps=1)", "Interval() has no option 'steps'; did you mean step?"),
    ("Circle(360, clip=True)", "Circle() has no option 'clip'; it takes period, step, rounding"),
    ("Group('trip', [heading, delay], samples=1)", "Group() has no option 'samples'; did you mean sample?"),
    ("Group([heading, delay])", "Group() needs tasks"),
    ("heading.randomize([1.0], seed=3)", "randomize() has no option 'seed'; it takes values, missing, randomness"),
    ("estimate(delay, counts, shares=[(1, 2)])", "estimate() has no option 'shares'; it takes task, counts, level"),
    ("series(delay, {0: counts}, evry='month')", "series() has no option 'evry'; did you mean every?"),
    ("plan(Interval(0, 1), epsilon=1, err=0.1)", "plan() has no option 'err'; did you mean error?"),
    ("compare(Interval(0, 1), eps=1)", "compare() has no option 'eps'; did you mean epsilon?"),
    ("simulate_counts(delay, 'normal:40,12', 1000)", "simulate_counts() needs generator"),
    ("create_app(task=[heading])", "create_app() has no option 'task'; did you mean tasks?"),
    ("Settings(stor='x')", "Settings() has no option 'stor'; did you mean store?"),
    ("client.FileLeger", "no attribute 'FileLeger'; did you mean FileLedger?"),
    ("SquareWave(Interval(0, 1), eps=1)", "SquareWave() has no option 'eps'; did you mean epsilon?"),
    ("OptimalPiecewise(Interval(0, 1))", "OptimalPiecewise() needs epsilon; it takes domain, epsilon"),
    ("Laplace(1.0, sensitivty=1)", "Laplace() has no option 'sensitivty'; did you mean sensitivity?"),
    # a task where something else is meant, or the reverse
    ("Client(URL, tasks=heading)", "tasks must be an iterable of Task and Group, such as [Task.load(FILE)]; got Task"),
    ("Client(URL, tasks='heading.json')", "such as [Task.load(FILE)]; got 'heading.json'"),
    ("Client(URL, tasks=['heading.json'])", "got 'heading.json'; Task.load(FILE) reads one"),
    ("Client(URL, tasks=[heading], caps='unlimited').report(heading, 3)", "no task is a Task: give a name; this client has 'heading'"),
    ("Client(URL, tasks=[heading], caps='unlimited').report('headng', 3)", "no task 'headng'; this client has 'heading'; did you mean"),
    ("Client(URL, tasks=[heading], caps='unlimited').report([1], 3)", "no task is a list: give a name; this client has 'heading'"),
    ("Client(URL, tasks=[heading], memoize={'headng': 3})", "got 'headng'; did you mean heading?"),
    ("Client(URL, tasks=[heading], caps='unlimited', ledger='t.db')", "got 't.db': give FileLedger('t.db')"),
    ("Client(URL, tasks=[heading])", "on task 'heading', where every report adds up: give the client caps=Caps(lifetime=5.0)"),
    ("Client(URL, tasks=[heading], cap=5.0)", "Client() has no option 'cap'; did you mean caps?"),
    ("Client(URL, tasks=[heading], caps=5.0)", "caps must be None, a Caps such as Caps(lifetime=5.0), or \"unlimited\"; got 5.0"),
    ("Client(URL, tasks=[heading], caps='unlimited', randomness=np.random.default_rng(1))", "randomness must be left out, or be a"),
    ("Task('heading', (0, 180), epsilon=1)", "got (0, 180); for example Interval(0, 180) or Circle(360)"),
    ("Task('delay', Interval(0, 1), epsilon=1, mechanism='laplace')", "of arcwise.mechanisms, such as SquareWave"),
    ("Task('delay', Interval(0, 1), epsilon=1, caps=5)", "got 5; for example Caps(lifetime=5.0)"),
    ("estimate(counts, delay)", "task must be a Task, such as Task.load(FILE) returns, got a ndarray"),
    ("estimate('delay.json', counts)", "task must be a Task, such as Task.load(FILE) returns, got 'delay.json'"),
    ("estimate(group, counts)", "task must be a Task, such as Task.load(FILE) returns, got Group"),
    ("fit_test('delay.json', counts)", "task must be a Task"),
    ("compare_samples(counts, counts, delay)", "task must be a Task"),
    ("compare_samples(delay, counts, counts, other_task='delay')", "other_task must be a Task"),
    ("compare_reference(counts, delay, 'uniform')", "task must be a Task"),
    ("post_stratify(delay, counts, {'a': 1.0})", "strata must be a mapping from names of strata"),
    ("group_reports(delay, {'delay': 3})", "group must be a Group, such as Group.load(FILE) returns"),
    ("count_batches([b'x'], [delay])", "tasks must be a Task or a non-empty iterable of Tasks, got [b'x']"),
    ("compare((0, 1), 1.0)", "domain must be an Interval or a Circle, got (0, 1)"),
    ("create_app([heading])", "settings must be a Settings; give tasks and store by name, got [Task("),
    ("create_app(tasks=heading)", "for one task, give [task]"),
    ("create_app(tasks=['heading.json'])", "Task.load(FILE) reads a task"),
    # shapes, units and bounds
    ("estimate(delay, [1, 2, 3])", "got (3,). task.count(codes) counts codes, which task.randomize(values) returns"),
    ("estimate(delay, {3: 1})", "counts must have the shape (204,), one number per code; got {3: 1}"),
    ("series(delay, {0: [1, 2]})", "counts must have the shape (204,), one number per code; got (2,)"),
    ("series(delay, counts)", "counts_by_epoch must be a mapping from numbers of epochs, such as task.epoch("),
    ("series(delay, {'2026-11-01': counts})", "counts_by_epoch must be a mapping from numbers of epochs"),
    ("estimate(delay, counts, between=(10, 30))", "between must hold pairs (low, high), such as [(10, 30)]; got (10"),
    ("estimate(delay, counts, between='10:30')", "between must hold pairs (low, high), such as [(10, 30)]; got '10"),
    ("estimate(delay, counts, between=10)", "between must hold pairs (low, high), such as [(10, 30)]; got 10"),
    ("series(delay, {0: counts}, between=[(1, 2, 3)])", "between must hold pairs (low, high)"),
    ("compare_samples(delay, counts, counts, between=(1, 2))", "between must hold pairs (low, high)"),
    ("compare_reference(delay, counts, 'uniform', between=[('1', 2)])", "between must hold pairs (low, high)"),
    ("estimate(delay, counts, level='0.95')", "level must be from 0.5 to 0.9999, got '0.95'"),
    ("estimate(delay, counts, level=95)", "level must be from 0.5 to 0.9999, got 95"),
    ("heading.epoch('2026-11-01')", "it is in Unix seconds, as time.time() gives"),
    ("heading.epoch(datetime.datetime.now())", "it is in Unix seconds, as time.time() gives"),
    ("simulate_counts(delay, 'norml:40,12', 10, np.random.default_rng(1))", "got 'norml:40,12'; did you mean normal?"),
    # files, folders, URLs and keys
    ("FileLedger('nofolder/x.db')", "nofolder does not exist"),
    ("FileLedger('nofolder/x.db', create=True)", "the folder nofolder does not exist"),
    ("FileLedger('.')", "it is a folder; give a file in it"),
    ("FileLedger('sqlite:///x.db', create=True)", "path must be the path of a file, such as 'telemetry.db', got 'sql"),
    ("FileLedger('')", "path must be the path of a file, such as 'telemetry.db', got ''"),
    ("FileLedger(None)", "path must be the path of a file, such as 'telemetry.db', got None"),
    ("Task.load(3)", "path must be the path of a file, got 3"),
    ("Task.load('missing.json')", "`arcwise task new` and `arcwise group new` make such files: 'missing.json'"),
    ("create_app(tasks='task.json')", "task.json is a file: give the directory that contains it"),
    ("create_app(tasks='nofolder')", "nofolder is not a directory of task files; make one with `arcwise task new`"),
    ("create_app(store='mysql://x')", "store must be sqlite:///FILE or postgresql://USER@HOST/DATABASE"),
    ("create_app(store='sqlite://arcwise.db')", "store must be sqlite:///FILE or postgresql://USER@HOST/DATABASE"),
    ("create_app(store='arcwise.db')", "a file arcwise.db is sqlite:///arcwise.db"),
    ("create_app(store=None)", "store must be sqlite:///FILE or postgresql://USER@HOST/DATABASE"),
    ("Settings(store='postgresql://')", "store must be sqlite:///FILE or postgresql://USER@HOST/DATABASE"),
    ("open_store('arcwise.db')", "a file arcwise.db is sqlite:///arcwise.db"),
    ("Client(URL, tasks=[heading], caps='unlimited', key='my-key')", "key must be None or a key from `arcwise key new --scope ingest`"),
    ("Client(URL, tasks=[heading], caps='unlimited', key=KEY[:-1])", "with 12 and 64 hexadecimal digits; got something else"),
    ("Client(URL, tasks=[heading], caps='unlimited', key=KEY.replace('ingest', 'read'))", "got a key with the scope read"),
    ("Reader(URL, key=KEY)", "a key from `arcwise key new --scope read`, arcwise_read_ID_SECRET"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "message"), MISTAKES, ids=[code for code, _ in MISTAKES])
def test_a_mistake_is_named_at_once_with_what_to_do(
    code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "task.json").write_text("{}", encoding="utf-8")
    with pytest.raises((ArcwiseError, TypeError, AttributeError, FileNotFoundError)) as caught:
        eval(code, dict(NAMES))
    assert message in str(caught.value)
    assert "__init__" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_message_repeats_a_key_or_a_url_with_a_password() -> None:
    for call in (
        lambda: Client(URL, tasks=[HEADING], caps="unlimited", key="hunter2"),
        lambda: create_app(store="postgresql+psycopg://user:hunter2@host/x"),
    ):
        with pytest.raises(ArcwiseError) as caught:
            call()
        assert "hunter2" not in str(caught.value)


def test_a_good_key_is_taken() -> None:
    with Client(URL, tasks=[HEADING], caps="unlimited", key=KEY) as made:
        assert made.pending == 0


def public_callables() -> list[tuple[str, Any]]:
    """Return the public callables: the classes and functions in packages for apps and analysts."""
    found = {}
    for name in ("client", "domains", "tasks", "analysis", "server"):
        module = importlib.import_module(f"arcwise.{name}")
        found.update({each: getattr(module, each) for each in module.__all__})
    made = {name: thing for name, thing in found.items() if callable(thing) and name not in RETURNED}
    return sorted(made.items())


RETURNED = {
    "Band", "BatchCounts", "Budget", "CentralPrivacy", "Comparison", "Counters", "Distribution", "Estimate", "Event",
    "FitTest", "GroupReports", "Inspection", "Ledger", "Plan", "RecordedRequest", "Rejected", "Series", "Value", "Outcome",
    "Audit", "Tradeoff", "PostgresLedger", "AsyncTransport", "Transport", "Charge", "Domain", "Environment", "micro_epsilon",
    "AsyncHttpxTransport", "HttpxTransport",
}  # fmt: skip
"""Return types, interfaces for others, or callables with their own checks (the last two: httpx's)."""


@pytest.mark.parametrize(("name", "thing"), public_callables(), ids=[name for name, _ in public_callables()])
def test_whatever_is_called_names_itself_and_the_nearest_option(name: str, thing: Any) -> None:
    parameters = inspect.signature(thing).parameters.values()
    words = next((f"{each.name}z" for each in parameters if each.kind is each.KEYWORD_ONLY), "zzz")
    with pytest.raises(
        TypeError, match=rf"^{name}\(\) (has no option '{words}'(; did you mean|; it takes)|needs )"
    ):
        thing(**{words: 1})


COMMANDS = [
    (["tsak", "new"], "arcwise has no command 'tsak'; did you mean task?"),
    (["task", "nwe"], "arcwise task has no command 'nwe'; did you mean new?"),
    (["store", "inspect"], "arcwise store has no command 'inspect'; it has audit"),
    (["serve", "--store", "arcwise.db"], "a file arcwise.db is sqlite:///arcwise.db"),
    (["serve", "--store", "mysql://x"], "store must be sqlite:///FILE or postgresql://USER@HOST/DATABASE"),
    (["estimate", "delay.json", "--counts", "counts.csv"], "one number per code; got (3,)"),
    (
        ["estimate", "delay.json", "--counts", "values.csv"],
        "To start from values, make reports of them with `arcwise randomize`",
    ),
    (["estimate", "delay.json", "--store", "arcwise.db"], "a file arcwise.db is sqlite:///arcwise.db"),
    (["simulate", "delay.json", "--distribution", "norml:1,2", "--reports", "9"], "did you mean normal?"),
    (["reproduce", "opm-circel"], "did you mean opm-circle?"),
    (["task", "show", "trip.json"], "this is the file of a group, not of a task"),
    (["task", "new", "x", "--domain", "0-1", "--epsilon", "1"], "--domain takes LOW:HIGH, two numbers"),
    (["key", "new", "--scope", "ingest", "--store", "x.db"], "a file arcwise.db is sqlite:///arcwise.db"),
    (["client", "create", "nofolder/x.db"], "the folder nofolder does not exist"),
]


@pytest.mark.parametrize(("arguments", "message"), COMMANDS, ids=[" ".join(each) for each, _ in COMMANDS])
def test_a_mistake_on_the_command_line_is_named(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    DELAY.save("delay.json")
    GROUP.save("trip.json")
    (tmp_path / "counts.csv").write_text("1\n2\n3\n", encoding="utf-8")
    (tmp_path / "values.csv").write_text("person,minutes\n1,12.5\n", encoding="utf-8")
    result = CliRunner().invoke(main, arguments, prog_name="arcwise")
    assert result.exit_code in (1, 2)
    assert message in result.output


def test_a_command_without_its_extra_names_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("arcwise.extras.find_spec", lambda _: None)
    DELAY.save(tmp_path / "delay.json")
    result = CliRunner().invoke(main, ["count", "reports", "--task", str(tmp_path / "delay.json")])
    assert "arcwise count needs ibis, pyarrow: pip install 'arcwise[lake]'" in result.output


def test_a_call_that_fits_raises_its_own_type_error() -> None:
    class Odd:
        def __array__(self, *_: object) -> Any:
            raise TypeError("of my own")

    with pytest.raises(ArcwiseError, match=r"^values must be numbers; a Odd fails to convert"):
        HEADING.randomize(Odd())
