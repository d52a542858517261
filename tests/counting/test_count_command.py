"""`arcwise count`, and the use of its files and its sources with `arcwise estimate`."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from arcwise.analysis import count_table, estimate
from arcwise.domains import Circle, Interval
from arcwise.server.store import open_store
from arcwise.tasks import Task
from arcwise.wire import Batch, pack_codes
from tests.support.commands import bad, good, run
from tests.support.lake import Row, arrow_table

DELAY = Task("delay", Interval(0, 100), 2.0)
HEADING = Task("heading", Circle(360), 2.0)
DAY = 20_000


def rows(first: int, count: int = 40) -> list[Row]:
    """Return batches of two tasks over four days."""
    return [
        Row(
            (DELAY if number % 2 else HEADING).id,
            DAY + number % 4,
            bytes([number]) * 16,
            tuple((number * 7 + place * place) % 50 for place in range(20)),
        )
        for number in range(first, first + count)
    ]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lake").mkdir()
    (tmp_path / "tasks").mkdir()
    for task in (DELAY, HEADING):
        task.save(tmp_path / "tasks" / f"{task.name}.json")
    held = rows(0)
    pq.write_table(arrow_table([*held, held[0], Row("0" * 64, DAY, bytes(16), (1,))]), "lake/0.parquet")


def test_it_prints_counts_and_what_was_not_counted() -> None:
    lines = [line.split() for line in good("count", "lake", "--task", "tasks").splitlines()]
    assert lines[0] == ["task", "epoch", "starts", "reports"]
    assert ["delay", "20001", "2024-10-05", "200"] in lines
    assert ["800", "reports"] in lines
    assert ["unknown-task", "1", "1"] in lines
    assert ["replayed", "1", "20"] in lines


@pytest.mark.parametrize("name", ["counts.json", "counts.csv"])
def test_its_files_go_to_estimate(name: str) -> None:
    good("count", "lake/*.parquet", "--task", "tasks", "-o", name)
    result = count_table("lake", [DELAY, HEADING])

    def estimated(*options: str) -> Any:
        return json.loads(good("estimate", *options, "--counts", name, "--json"))

    both = estimated("tasks/delay.json", "tasks/heading.json")
    for task, document in zip((DELAY, HEADING), both, strict=True):
        known = result.by_epoch(task)
        expected = estimate(task, result.of(task), epochs=max(known) - min(known) + 1)
        assert document == json.loads(json.dumps(expected.to_dict()))
    some = estimated("tasks/delay.json", "--from", str(DAY + 3))
    assert some["n"] == result.of(DELAY, str(DAY + 3)).sum() == 200
    by_day = estimated("tasks/delay.json", "--by", "day")
    assert [point["n"] for point in by_day["points"] if point["n"]] == [200, 200]
    told = good("estimate", "tasks/delay.json", "--counts", name, "--against", name)
    assert "400 other reports minus delay's 400 reports" in told


def test_a_file_that_is_not_one_is_refused(tmp_path: Path) -> None:
    good = json.dumps(
        {"arcwise_counts": 1, "tasks": [{"task_id": DELAY.id, "epochs": {"20000": [1, 2]}}], "rejected": []}
    )
    head = "task,task_id,epoch,code,reports\n"
    for text, words in (
        ("{}", "must hold the number of reports of each code"),
        ('{"arcwise_counts": 1}', "must be a file of arcwise count"),
        (good.replace("[1, 2]", "[1.5]"), "must be a file of arcwise count"),
        (good.replace('"arcwise_counts": 1', '"arcwise_counts": 2'), "must be a file of arcwise count"),
        (good, "must have counts of"),
        (f"{head}delay,{DELAY.id},20000,9999,5\n", "must have counts of"),
        (
            f"{head}delay,{DELAY.id},20000,1,5\ndelay,{DELAY.id},20000,1,5\n",
            "must be a file of arcwise count",
        ),
        (f"{head}delay,{DELAY.id},20000,1,-5\n", "must be a file of arcwise count"),
    ):
        (tmp_path / "bad").write_text(text, encoding="utf-8")
        assert words in bad("estimate", "tasks/delay.json", "--counts", "bad", code=1)


@pytest.mark.slow
def test_parts_of_a_lake_under_one_name_are_warned_of() -> None:
    into = ("--task", "tasks", "--into", "sqlite:///a.db", "--source", "lake")
    pq.write_table(arrow_table(rows(1, 1)), "part.parquet")
    assert "warning" not in run("count", "lake", *into).output
    assert "warning" not in run("count", "lake", *into).output
    said = " ".join(run("count", "part.parquet", *into).stderr.split())
    assert "warning: 1 epoch of source lake shrank, by " in said
    assert "give each part its own source name" in said
    assert "warning: 3 epochs of source lake are not in these counts, and stay" in said


def test_counts_go_into_a_store_as_a_source_that_is_replaced() -> None:
    into = ("--task", "tasks", "--into", "sqlite:///a.db", "--source", "lake")
    assert "source lake: +800 reports, 4 epochs changed, 0 as before" in good("count", "lake", *into)
    assert "source lake: +0 reports, 0 epochs changed, 4 as before" in good("count", "lake", *into)
    pq.write_table(arrow_table(rows(40, 4)), "lake/1.parquet")
    assert "source lake: +80 reports" in good("count", "lake", *into)
    with closing(open_store("sqlite:///a.db")) as store:
        assert store.report_count(DELAY) == 440
        first = rows(1)[0]
        batch = Batch(bytes.fromhex(DELAY.id), first.batch_id or b"", DAY + 1, pack_codes([1], 1))
        assert store.add([batch])[0].value == "replayed"
        other = Batch(bytes.fromhex(DELAY.id), b"x" * 16, DAY + 1, pack_codes([1], 1))
        store.add([other])
    pq.write_table(arrow_table([Row(DELAY.id, DAY + 1, b"x" * 16, (1,)), *rows(44, 2)]), "lake/2.parquet")
    refused = run("count", "lake", *into)
    assert refused.exit_code == 1
    assert "counted" in refused.stderr
    with closing(open_store("sqlite:///a.db")) as store:
        assert store.report_count(DELAY) == 441


def test_mistakes_are_named(tmp_path: Path) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"no")
    for arguments, code, words in (
        (("lake", "--task", "tasks", "--into", "sqlite:///a.db"), 2, "go together"),
        (
            ("lake", "--task", "tasks", "--into", "sqlite:///a.db", "--source", "a b"),
            1,
            "the name of a source must be",
        ),
        (("lake",), 2, "--task"),
        (("none.parquet", "--task", "tasks"), 1, "there is no file"),
        (("broken.parquet", "--task", "tasks"), 1, "cannot count: "),
        (("lake", "--task", "tasks", "--layout", "bodies"), 1, "body missing"),
        (("lake", "--task", "tasks", "--engine", "nothing://"), 1, "engine must be"),
        (("reports", "--task", "tasks", "--engine", "postgresql://127.0.0.1:9/x"), 1, "cannot count: "),
    ):
        done = run("count", *arguments)
        assert done.exit_code == code, done.output
        assert words in done.output
        assert "Traceback" not in done.output
        assert not (tmp_path / "a.db").exists()


def test_a_file_of_counts_is_replaced_only_when_asked(tmp_path: Path) -> None:
    (tmp_path / "counts.csv").write_text("mine", encoding="utf-8")
    options = ("count", "lake", "--task", "tasks", "-o", "counts.csv")
    assert "already exists" in bad(*options, code=1)
    assert (tmp_path / "counts.csv").read_text("utf-8") == "mine"
    good(*options, "--force")
    assert (tmp_path / "counts.csv").read_text("utf-8").startswith("task,task_id,epoch")
    assert not list(tmp_path.glob("*.part"))
