"""`arcwise estimate` over several tasks and over ranges of epochs, from a real store."""

import csv
import json
from contextlib import closing
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from arcwise.analysis import estimate
from arcwise.analysis.estimators.comparison import compare_samples
from arcwise.analysis.estimators.estimation import empty_estimate
from arcwise.analysis.estimators.poststratification import post_stratify
from arcwise.analysis.timeseries.series import series
from arcwise.domains import Circle, Interval
from arcwise.server.store import open_store
from arcwise.tasks import Task
from arcwise.wire import Batch, pack_codes
from tests.support import commands

DELAY = Task("delay", Interval(0, 100), 2.0)
HEADING = Task("heading", Circle(360), 2.0)
HOURLY = Task("hourly", Interval(0, 1), 2.0, epoch_seconds=3600)
EMPTY = Task("empty", Interval(0, 1), 2.0)
STORE = ("--store", "sqlite:///a.db")


def epoch_of(task: Task, text: str) -> int:
    return task.epoch(datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp())


DAY = epoch_of(DELAY, "2026-11-01")


run = partial(commands.run, "estimate")
good = partial(commands.good, "estimate")
bad = partial(commands.bad, "estimate")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for task in (DELAY, HEADING, HOURLY, EMPTY):
        task.save(f"{task.name}.json")
    store = open_store("sqlite:///a.db")
    store.register([DELAY, HEADING, HOURLY, EMPTY])
    for task, epochs in ((DELAY, range(DAY, DAY + 10)), (HEADING, [DAY, DAY + 3])):
        store.add([a_batch(task, epoch) for epoch in epochs])
    store.add([a_batch(HOURLY, hour) for hour in range(24 * DAY - 5, 24 * DAY + 30)])
    store.close()


def the_codes(task: Task, epoch: int) -> list[int]:
    """Return codes that differ from epoch to epoch, 100 + 2 (epoch mod 7) of them."""
    return [(j * j + epoch) % task.mechanism.kernel.codes for j in range(100 + 2 * (epoch % 7))]


def a_batch(task: Task, epoch: int) -> Batch:
    return Batch(
        bytes.fromhex(task.id), epoch.to_bytes(16, "big"), epoch, pack_codes(the_codes(task, epoch), 1)
    )


def the_counts(task: Task, epochs: range) -> Any:
    codes = [code for epoch in epochs for code in the_codes(task, epoch)]
    return task.count(codes)


@pytest.mark.parametrize(
    ("task", "start", "end", "epochs"),
    [
        (DELAY, "2026-11-01", "2026-11-08", range(DAY, DAY + 7)),
        (DELAY, str(DAY + 2), str(DAY + 5), range(DAY + 2, DAY + 5)),
        (DELAY, "2026-11-09", None, range(DAY + 8, DAY + 10)),
        (DELAY, None, "2026-11-02T00:00:01", range(DAY, DAY + 2)),
        (HOURLY, "2026-11-01", "2026-11-02", range(24 * DAY, 24 * DAY + 24)),
        (HOURLY, "2026-11-01T06:30+01:00", "2026-11-01T09:00Z", range(24 * DAY + 6, 24 * DAY + 9)),
    ],
)
def test_a_range_merges_the_epochs_that_start_in_it(
    task: Task, start: str | None, end: str | None, epochs: range
) -> None:
    bounds = [*(["--from", start] if start else []), *(["--to", end] if end else [])]
    shown = json.loads(good(f"{task.name}.json", *STORE, *bounds, "--json"))
    assert shown["epochs"]["first"] == (None if start is None else epochs[0])
    assert shown["epochs"]["last"] == (None if end is None else epochs[-1])
    del shown["epochs"]
    assert shown == estimate(task, the_counts(task, epochs), epochs=len(epochs)).to_dict()


def test_a_range_is_told_in_words() -> None:
    text = good("delay.json", *STORE, "--from", "2026-11-01", "--to", "2026-11-08")
    assert "from 2026-11-01 to before 2026-11-08" in text
    for bounds in (("--from", "2026-12-01"), ("--from", "2026-11-03", "--to", "2026-11-03")):
        assert f"delay: no reports from {bounds[1]}" in bad("delay.json", *STORE, *bounds, code=1)


def test_several_tasks_are_estimated_in_turn_over_the_same_store() -> None:
    files = ("delay.json", "empty.json", "heading.json")
    text = good(*files, *STORE)
    assert text.index("delay:") < text.index("empty: no reports yet") < text.index("heading:")
    delay, empty, heading = json.loads(good(*files, *STORE, "--json"))
    assert delay == estimate(DELAY, the_counts(DELAY, range(DAY, DAY + 10)), epochs=10).to_dict()
    assert empty == empty_estimate(EMPTY).to_dict()
    assert heading["direction"]
    nothing = run("empty.json", *STORE, "--json")
    assert nothing.exit_code == 1
    assert json.loads(nothing.stdout)["n"] == 0
    bad("empty.json", "empty.json", *STORE, code=1)


@pytest.mark.slow
def test_several_tasks_are_drawn_in_rows_and_written_in_lines() -> None:
    files = ("delay.json", "empty.json", "heading.json")
    good(*files, *STORE, "--plot", "rows.svg", "--csv", "all.csv", "--to", "2026-11-05")
    text = Path("rows.svg").read_text(encoding="utf-8")
    assert len(text) > 10_000
    assert "cannot write nowhere" in bad("delay.json", *STORE, "--csv", "nowhere/all.csv")
    with Path("all.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    result = estimate(DELAY, the_counts(DELAY, range(DAY, DAY + 4)))
    assert result.mean is not None
    mean = lines[0]
    assert (mean["task"], mean["estimate"], mean["n"]) == ("delay", "mean", str(result.n))
    assert (mean["start"], mean["end"], float(mean["level"])) == ("", "2026-11-05", 0.95)
    assert [float(mean[name]) for name in ("value", "low", "high")] == [
        result.mean.value,
        result.mean.low,
        result.mean.high,
    ]
    named = {(line["task"], line["estimate"]) for line in lines}
    assert {("delay", "quantile 0.5"), ("heading", "direction"), ("heading", "resultant_length")} <= named
    assert "empty" not in {task for task, _ in named}


def test_epochs_are_points_of_a_series() -> None:
    shown = json.loads(good("heading.json", *STORE, "--by", "day", "--json", "--level", "0.9"))
    counts = {epoch: the_counts(HEADING, range(epoch, epoch + 1)) for epoch in (DAY, DAY + 3)}
    assert shown == series(HEADING, counts, level=0.9).to_dict()
    assert [point["n"] > 0 for point in shown["points"]] == [True, False, False, True]
    bounds = ("--from", "2026-11-01", "--to", "2026-11-02")
    shown = json.loads(good("hourly.json", *STORE, "--by", "6", *bounds, "--json"))
    assert [point["start"] for point in shown["points"]] == [
        "2026-11-01", "2026-11-01T06:00Z", "2026-11-01T12:00Z", "2026-11-01T18:00Z",
    ]  # fmt: skip
    weeks = json.loads(good("delay.json", *STORE, "--by", "week", "--simultaneous", "--json"))
    assert [(point["start"], point["end"]) for point in weeks["points"]] == [
        ("2026-10-26", "2026-11-02"),
        ("2026-11-02", "2026-11-09"),
        ("2026-11-09", "2026-11-16"),
    ]
    assert weeks["simultaneous"] is True
    assert sum(point["n"] for point in weeks["points"]) == the_counts(DELAY, range(DAY, DAY + 10)).sum()


@pytest.mark.slow
def test_series_of_several_tasks_are_printed_drawn_and_written() -> None:
    files = ("delay.json", "empty.json", "heading.json")
    text = good(*files, *STORE, "--by", "day", "--csv", "all.csv", "--plot", "all.png")
    assert text.index("delay:") < text.index("empty: no reports yet") < text.index("heading:")
    assert text.count("2026-11-01 ") == 3  # the mean, the direction, the resultant length
    assert Path("all.png").stat().st_size > 10_000
    with Path("all.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    means = [line for line in lines if line["estimate"] == "mean"]
    assert len(means) == 10
    assert (means[1]["start"], means[1]["end"]) == ("2026-11-02", "2026-11-03")
    assert int(means[1]["n"]) == the_counts(DELAY, range(DAY + 1, DAY + 2)).sum()
    assert len([line for line in lines if line["task"] == "heading"]) == 4
    text = good("delay.json", *STORE, "--by", "5", "--share", "0:50", "--quantiles")
    assert "share 0:50" in text
    assert "quantile 0.5" in text
    for more in ((), ("--by", "5")):
        text = good("delay.json", *STORE, "--quantile", "0.9", "--quantile", "0.01", *more)
        assert [text.count(f"quantile {level}") > 0 for level in ("0.01", "0.5", "0.9")] == [True] * 3
    assert "between 0 and 1" in bad("delay.json", *STORE, "--quantile", "90", code=1)


def test_quantiles_of_a_circle_need_an_origin() -> None:
    for more in ((), ("--by", "day")):
        assert "quantile 0.5" in good("heading.json", *STORE, "--origin", "180", *more)
    assert "origin must be given" in bad("heading.json", *STORE, "--by", "day", "--quantiles", code=1)
    two = ("delay.json", "heading.json")
    assert "--origin takes a single task" in bad(*two, *STORE, "--origin", "0")


def test_reports_of_another_task_of_the_same_name_are_told_with_its_id() -> None:
    """After a file was replaced by a new version of the task, it looks like the file that devices had."""
    newer = Task("delay", Interval(0, 100), 3.0)
    newer.save("delay.json")
    result = run("delay.json", *STORE)
    assert result.exit_code == 1
    assert result.stdout == "delay: no reports yet\n"
    with closing(open_store(STORE[1])) as store:
        reports = store.report_count(DELAY)
    assert f"has no report of the task {newer.id} in this file" in result.stderr
    assert f"with this name: {DELAY.id} ({reports:,} reports). Give that task's file" in result.stderr
    result = run("heading.json", *STORE, "--against-task", "delay.json")
    assert f"{DELAY.id} ({reports:,} reports)" in result.stderr
    result = run("empty.json", *STORE)
    assert (result.exit_code, result.stderr) == (1, "")


def test_what_is_wrong_is_said() -> None:
    counts = ["--counts", "delay.json"]
    for args, message in (
        (["delay.json", "heading.json", *counts], "--counts takes a single task, got 2"),
        (["delay.json", "heading.json", *STORE, "--share", "0:5"], "--share takes a single task"),
        (["delay.json", *counts, "--from", "3"], "--from and --to are for --store"),
        (["delay.json", *STORE, "--from", "yesterday"], "--from must be a date"),
        (["delay.json", *STORE, "--to", "99999999999"], "from 1970 to the year 9999"),
        (["delay.json", *STORE, "--to", "1969-12-31"], "from 1970 to the year 9999"),
        ([*STORE], "Missing argument"),
        (["delay.json", *STORE, "--quantiles"], "--quantiles needs --by"),
        (["delay.json", *counts, "--by", "day"], "--counts does not go with --by"),
        (["delay.json", *STORE, "--by", "day", "--fit-test"], "--fit-test does not go with --by"),
        (["delay.json", *STORE, "--by", "hour"], "--by must be epoch, day, week, month or a whole number"),
        (["delay.json", *STORE, "--by", "0"], "--by must be epoch, day, week, month or a whole number"),
    ):
        assert message in bad(*args)


@pytest.mark.slow
def test_two_ranges_of_a_store_are_compared() -> None:
    ranges = ("--to", "2026-11-05", "--against-from", "2026-11-05", "--against-to", "2026-11-08")
    shown = json.loads(good("delay.json", *STORE, *ranges, "--json", "--csv", "all.csv"))
    first, other = the_counts(DELAY, range(DAY, DAY + 4)), the_counts(DELAY, range(DAY + 4, DAY + 7))
    expected = compare_samples(DELAY, first, other, epochs=4, other_epochs=3)
    assert shown["difference"] == expected.to_dict()
    assert shown["n"] == first.sum()
    with Path("all.csv").open(encoding="utf-8", newline="") as file:
        names = {line["estimate"] for line in csv.DictReader(file)}
    assert {"mean", "difference mean", "difference quantile 0.5"} <= names
    text = good("delay.json", *STORE, *ranges, "--reference", "uniform")
    assert f"{other.sum():,} other reports minus delay's {first.sum():,} reports:" in text
    assert "uniform minus delay's" in text


def test_two_tasks_of_a_store_are_compared() -> None:
    slow = Task("slow", DELAY.domain, 1.0)
    slow.save("slow.json")
    store = open_store("sqlite:///a.db")
    store.register([slow])
    store.add([a_batch(slow, DAY)])
    store.close()
    result = json.loads(good("delay.json", *STORE, "--against-task", "slow.json", "--json"))
    assert result["difference"]["n"] == the_counts(slow, range(DAY, DAY + 1)).sum()
    assert "test" not in result["difference"]


@pytest.mark.slow
def test_tasks_are_strata_of_one_population() -> None:
    later = Task("later", DELAY.domain, 2.0)
    later.save("later.json")
    store = open_store("sqlite:///a.db")
    store.register([later])
    store.add([a_batch(later, DAY + 1)])
    store.close()
    Path("weights.json").write_text('{"delay": 1, "later": 3}', encoding="ascii")
    weighted = ("delay.json", "later.json", *STORE, "--weights", "weights.json")
    shown = json.loads(good(*weighted, "--share", "0:50", "--json", "--plot", "all.svg"))
    strata = {
        "delay": the_counts(DELAY, range(DAY, DAY + 10)),
        "later": the_counts(later, range(DAY + 1, DAY + 2)),
    }
    weights = {"delay": 1, "later": 3}
    expected = post_stratify(DELAY, strata, weights, between=[(0, 50)], bands=True, epochs=10)
    assert "the task has no caps" in str(expected)
    assert shown == expected.to_dict()
    assert shown["task"] == "delay + later"
    assert Path("all.svg").stat().st_size > 10_000
    assert "these parts are strata: delay 0.25, later 0.75" in good(*weighted)
    Path("weights.json").write_text('{"delay": 1}', encoding="ascii")
    assert "must have the same names" in bad(*weighted)
    Path("weights.json").write_text("[1, 2]", encoding="ascii")
    assert "--weights must hold a JSON object" in bad(*weighted)


@pytest.mark.slow
def test_what_cannot_be_compared_or_weighted_is_said() -> None:
    counts = ["--counts", "counts.json"]
    Path("counts.json").write_text(json.dumps([3] * DELAY.mechanism.kernel.codes), encoding="ascii")
    Path("weights.json").write_text('{"delay": 1, "heading": 3}', encoding="ascii")
    weights = ("--weights", "weights.json")
    for args, message in (
        (["delay.json", *counts, "--against-from", "3"], "need --store or --against"),
        (["delay.json", *counts, "--against", "counts.json", "--against-to", "3"], "are for --store"),
        (["delay.json", *STORE, "--against-from", "2027-01-01"], "delay: no other reports to compare with"),
        (["delay.json", *STORE, "--against-from", "soon"], "--against-from must be a date"),
        (["delay.json", *STORE, "--against-task", "heading.json"], "other_task must be on [0, 100]"),
        (
            ["delay.json", *STORE, "--by", "day", "--reference", "uniform"],
            "--reference does not go with --by",
        ),
        (["delay.json", *STORE, "--reference", "gauss:3"], "gauss"),
        (["delay.json", "heading.json", *STORE, "--reference", "uniform"], "--reference takes a single task"),
        (["delay.json", "heading.json", *STORE, *weights], "tasks of the same domain, unit and mechanism"),
        (["delay.json", "delay.json", *STORE, *weights], "tasks of different names, got delay twice"),
        (["delay.json", *STORE, "--against-from", "2026-11-05"], "but those of 2026-11-05 are"),
        (["delay.json", *STORE, "--against-task", "delay.json"], "no report may be in both samples"),
        (["delay.json", *counts, *weights], "--counts does not go with --weights"),
        (["delay.json", *STORE, "--by", "day", *weights], "--by does not go with --weights"),
        (["delay.json", *STORE, "--fit-test", *weights], "--fit-test does not go with --weights"),
    ):
        assert message in bad(*args)
