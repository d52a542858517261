"""The `arcwise` command, as a user types it."""

import json
import os
import re
import subprocess
import sys
from copy import copy
from pathlib import Path

import numpy as np
import pytest
from click import Context, Group

from arcwise.analysis.planning.fineness import worst_unit_variance
from arcwise.cli import main
from arcwise.cli.certificates import extremes, window_extremes
from arcwise.cli.main import _COMMANDS as COMMANDS
from arcwise.domains import Circle, Interval
from arcwise.errors import CertificateError, StoreError
from arcwise.kernels import WindowKernel
from arcwise.kernels.certificate import UNIT, Certificate
from arcwise.mechanisms import DesignedCircular, DesignedTable, Mechanism, OptimalPiecewise
from arcwise.mechanisms.moments import variances
from arcwise.mechanisms.registry import MECHANISMS
from arcwise.server.store import open_store
from arcwise.server.store.sqlite.store import SQLiteStore
from arcwise.tasks import Task
from arcwise.wire import Batch
from tests.support.commands import bad, good, run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_help_lists_every_command() -> None:
    text = good("--help")
    for command in ("demo", "estimate", "serve", "task"):
        assert command in text
        assert "Usage" in good(command, "--help")
    for command in ("new", "show", "verify"):
        assert command in good("task", "--help")
        assert "Usage" in good("task", command, "--help")


def modules_of(*args: str) -> set[str]:
    """Return the modules that the command has loaded when it is done."""
    script = (
        "import json, sys\nfrom arcwise.command import main\n"
        "sys.argv = ['arcwise', *json.loads(sys.argv[1])]\n"
        "try:\n    main()\nexcept SystemExit:\n    print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(args)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(json.loads(done.stderr))


def test_help_loads_no_command() -> None:
    loaded = modules_of("--help")
    assert {name for name in loaded if name.startswith("arcwise.cli")} == {"arcwise.cli", "arcwise.cli.main"}
    heavy = {"numpy", "scipy", "rich", "fastapi", "uvicorn", "pydantic", "matplotlib", "sqlite3", "asyncio"}
    assert loaded & heavy == set()


@pytest.mark.parametrize("command", ["client", "key", "store", "task"])
def test_a_commands_help_loads_that_command_alone(command: str) -> None:
    loaded = modules_of(command, "--help")
    assert {name for name in COMMANDS if f"arcwise.cli.{name}" in loaded} == {command}


def test_help_shows_the_first_sentence_of_every_command() -> None:
    """The sentence is complete, as in the command's own help; a long one continues on the next line."""
    context = Context(main)
    listed = " ".join(good("--help").split())
    for name, words in COMMANDS.items():
        command = main.get_command(context, name)
        assert command is not None
        assert words == command.get_short_help_str(limit=1000)
        assert f"{name} {words}" in listed
        if isinstance(command, Group):
            inner = " ".join(good(name, "--help").split())
            for each in command.commands.values():
                assert f"{each.name} {each.get_short_help_str(limit=1000)}" in inner


def test_new_show_and_verify() -> None:
    text = good(
        "task", "new", "delay", "--domain", "-60:180", "--clip", "--epsilon", "1", "--lifetime-cap", "3"
    )
    task = Task.load("delay.json")
    assert task.domain == Interval(-60, 180, clip=True)
    assert task.caps.lifetime == 3.0
    assert task.id in text
    shown = good("task", "show", "delay.json")
    assert "[-60, 180], values outside are clipped" in shown
    assert "epsilon 3 in all" in shown
    assert "optimal-piecewise 1, placement inset" in shown
    assert "128 rows sum to 2**64" in good("task", "verify", "delay.json")
    assert "exists" in bad("task", "new", "delay", "--circle", "24", "--epsilon", "1")
    good("task", "new", "delay", "--circle", "24", "--epsilon", "1", "--force", "-o", "delay.json")
    assert "none: every report costs epsilon again" in good("task", "show", "delay.json")


INTERVAL = ["--domain", "0:1", "--epsilon", "1"]
STEPS = ["--domain", "0:100", "--epsilon", "1"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--domain", "5:1", "--epsilon", "1"], "low < high"),
        (["--interval", "abc", "--epsilon", "1"], "LOW:HIGH"),
        (["--domain", "circle:24", "--clip", "--epsilon", "1"], "--clip is for an interval"),
        (["--epsilon", "1"], "give one of"),
        (["--circle", "24", *INTERVAL], "give one of"),
        (["--circle", "24", "--clip", "--epsilon", "1"], "modulo"),
        (["--circle", "24", "--epsilon", "21"], "0.01 to 20"),
        ([*INTERVAL, "--goal", "direction"], "must be one of"),
        ([*INTERVAL, "--lifetime-cap", "0.5"], "allows no report"),
        (["--circle", "24", "--epsilon", "1", "--unit", "x" * 21], "unit must be 1 to 20 printable"),
        # mechanisms
        ([*INTERVAL, "--mechanism", "gaussian"], "give --delta"),
        ([*INTERVAL, "--mechanism", "laplace", "--delta", "0.1"], "spends no delta"),
        ([*INTERVAL, "--delta", "0.1"], "for a --mechanism that spends one"),
        ([*INTERVAL, "--mechanism", "uniform-atom", "--delta", "0.1"], "--epsilon 0"),
        ([*INTERVAL, "--mechanism", "von-mises"], "domain must be a Circle"),
        (["--circle", "24", "--epsilon", "1", "--mechanism", "laplace"], "domain must be an Interval"),
        ([*INTERVAL, "--mechanism", "designed-table"], "is not one of"),
        (["--domain", "0:1", "--epsilon", "0", "--mechanism", "laplace"], "0.01 to 20"),
        (["--circle", "24", "--epsilon", "1", "--goal", "mean"], "must be one of"),
        # steps
        (
            [*STEPS, "--step", "7"],
            "step must divide the length of the domain, 100.0, into whole steps; got 7.0",
        ),
        ([*STEPS, "--rounding", "nearest"], "--rounding is for a domain with a --step"),
        ([*STEPS, "--step", "1", "--rounding", "up"], "'up' is not one of 'refuse', 'nearest', 'stochastic'"),
        (
            [*STEPS, "--step", "0.25", "--goal", "mean"],
            "--goal mean has no design with a node for each of 401 values",
        ),
        (
            [*STEPS, "--step", "1", "--mechanism", "duchi"],
            "Duchi must have 101 nodes on a lattice of 101 values, got 2",
        ),
    ],
)
def test_new_says_what_is_wrong(args: list[str], message: str) -> None:
    assert message in bad("task", "new", "x", *args)
    assert not Path("x.json").exists()


@pytest.mark.parametrize(("name", "version"), list(MECHANISMS))
def test_new_show_and_verify_of_every_mechanism(name: str, version: int) -> None:
    cls = MECHANISMS[name, version]
    if cls in (DesignedTable, DesignedCircular):
        return
    args = ["--domain", "0:10"] if cls.domain_type is Interval else ["--circle", "24"]
    args += ["--epsilon", "0" if name == "uniform-atom" else "1", "--mechanism", name]
    args += ["--delta", "0.01"] if cls.approximate else []
    text = good("task", "new", "x", *args)
    task = Task.load("x.json")
    assert type(task.mechanism) is cls
    certificate = task.mechanism.certificate()
    shown = good("task", "show", "x.json")
    assert shown.strip() in text
    assert f"{name} {version}, placement {task.mechanism.placement}" in shown
    assert f"{task.mechanism.kernel.nodes} nodes, {task.mechanism.kernel.codes} codes" in shown
    assert str(certificate) in shown
    assert ("caps do not bound delta" in shown) == cls.approximate
    verified = good("task", "verify", "x.json")
    assert str(certificate) in verified
    if cls.approximate:
        assert 0 < certificate.delta / UNIT <= 0.01
        assert f"exactly {certificate.delta} / 2**64" in verified
    if cls.domain_type is Interval:
        low, high = task.mechanism.values.min(), task.mechanism.values.max()
        assert f"from {low:.6g} to {high:.6g}" in shown
        # Compared with itself, the Piecewise Mechanism needs the same number of reports.
        compared = task.mechanism.unbiased and not cls.approximate and name != "piecewise"
        assert ("times as many reports" in shown) == (compared and name != "optimal-piecewise")
        assert (", unbiased" in shown) == task.mechanism.unbiased


def test_show_names_the_default_as_papers_do() -> None:
    same = "the same integers as in the Piecewise Mechanism"
    new = ("task", "new", "x", "--force", "--domain", "0:100")
    for more in (["--epsilon", "1"], ["--epsilon", "4"], ["--epsilon", "1", "--step", "2"]):
        shown = good(*new, *more)
        assert same in shown
        assert "times as many reports" not in shown
    shown = good(*new, "--epsilon", "1", "--goal", "value")
    assert "the optimum of Zheng, Mishra and Hu for a single value" in shown
    circle = ("task", "new", "x", "--force", "--circle", "360", "--epsilon", "1")
    assert "for a single value on a circle\n" in good(*circle)
    assert "for a single value on a circle, by its squared error\n" in good(*circle, "--power", "2")
    # Another window is another mechanism, so the comparison includes it.
    domain = Interval(0, 1)
    Task("y", domain, 1.0, mechanism=OptimalPiecewise(domain, 1.0, power=2)).save("y.json")
    shown = good("task", "show", "y.json")
    assert same not in shown
    assert "the Piecewise Mechanism needs" in shown


def test_new_takes_a_step_and_says_what_becomes_of_other_numbers() -> None:
    made = good("task", "new", "score", "--domain", "0:100", "--step", "1", "--epsilon", "1")
    task = Task.load("score.json")
    assert task == Task("score", Interval(0, 100, step=1), 1.0)
    assert "\nvalues       101, each a node; a number between two is refused\n" in made
    # Nothing is rounded, so the worst value is one of the values.
    worst = max(task.mechanism.variance(value) for value in range(101))
    assert f"at most {worst:.5g} (" in made
    hour = ("task", "new", "hour", "--circle", "24", "--step", "0.5", "--epsilon", "1")
    made = good(*hour, "--rounding", "stochastic")
    assert Task.load("hour.json").domain == Circle(24, step=0.5, rounding="stochastic")
    assert "48, each a node; a number between two is rounded to one of them at random" in made
    made = good(
        "task", "new", "m", "--domain", "0:1440", "--step", "1", "--rounding", "nearest", "--epsilon", "1"
    )
    assert "1,441, too many for a node each: treated as a continuous domain; a number between two is" in made


def test_new_takes_a_unit_and_a_description() -> None:
    words = "How long you waited for the bus"
    made = good(
        *("task", "new", "wait", "--domain", "0:60", "--clip", "--epsilon", "1"),
        *("--unit", "min", "--description", words),
    )
    task = Task.load("wait.json")
    assert task == Task("wait", Interval(0, 60, clip=True), 1.0, unit="min", description=words)
    assert f"\ndescription  {words}\ndomain       [0, 60] min, values outside are clipped\n" in made
    assert good("task", "show", "wait.json") in made
    assert "\nunit" not in made


@pytest.mark.slow
def test_the_goal_mean_designs_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCWISE_CACHE", "cache")
    args = ["task", "new", "dose", "--domain", "0:100", "--epsilon", "1", "--goal", "mean"]
    text = good(*args)
    task = Task.load("dose.json")
    mechanism = task.mechanism
    assert (task.goal, mechanism.name, mechanism.unbiased) == ("mean", "designed-table", True)
    assert (mechanism.kernel.nodes, mechanism.kernel.codes) == (17, 16)
    assert "17 nodes, 16 codes, a table of 272 weights" in text
    # Within 1.5 % of the bound 0.998 of all mechanisms on [0, 1]; PM has 1.306.
    variance = max(mechanism.variance(x) for x in np.linspace(0, 100, 1001))
    assert variance < 1.015 * 0.998e4
    assert "needs 1.31 times as many reports" in text or "needs 1.30 times as many reports" in text
    assert "17 rows sum to 2**64" in good("task", "verify", "dose.json")
    assert "exists" in bad(*args)
    assert list(Path("cache").rglob("*.json"))
    good(*args, "--force")  # from the cache
    assert Task.load("dose.json").id == task.id
    dose = Task.load("dose.json")
    counts = dose.count(dose.randomize(np.full(20_000, 30.0)))
    result = good("estimate", "dose.json", "--counts", "-", "--json", text=json.dumps(counts.tolist()))
    mean = json.loads(result)["mean"]
    # 5 standard errors: a false alarm in two million runs, as the draws are new each time.
    assert abs(mean["value"] - 30.0) < 5 / 3.92 * (mean["high"] - mean["low"])
    assert "average of unbiased decoded reports" in mean["method"]


@pytest.mark.slow
def test_the_goal_mean_takes_populations_and_says_what_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCWISE_CACHE", "cache")
    args = ["task", "new", "x", "--domain", "0:100", "--epsilon", "4"]
    made = run(*args, "--goal", "mean", "--population", "normal:40,5")
    text = made.output
    assert made.exit_code == 0, text
    assert "33 nodes, 16 codes" in text
    assert "without --population, 2.26 times as many reports are needed in this population" in text
    assert "up to 2.08 times as many are needed at values where the population has nobody" in text
    assert "do not take it from collected data" in text
    narrow = Task.load("x.json").id
    more = ["--goal", "mean", "--population", "normal:40,5", "--population", "beta:2,5", "--force"]
    good(*args, *more)
    assert Task.load("x.json").id != narrow
    for wrong in (["--goal", "value"], [], ["--goal", "mean", "--mechanism", "piecewise"]):
        message = bad(*args, "--force", "--population", "uniform", *wrong)
        assert "--population is for --goal mean on an interval, without --mechanism" in message


@pytest.mark.slow
@pytest.mark.parametrize("goal", ["mean", "value"])
def test_with_a_step_goals_design_a_table_of_its_values(monkeypatch: pytest.MonkeyPatch, goal: str) -> None:
    monkeypatch.setenv("ARCWISE_CACHE", "cache")
    args = ["--domain", "0:10", "--step", "1", "--epsilon", "2", "--goal", goal]
    text = good("task", "new", "x", *args)
    mechanism = Task.load("x.json").mechanism
    assert (mechanism.name, mechanism.kernel.nodes) == ("designed-table", 11)
    # On these values the Piecewise Mechanism's worst variance is 0.29409 squares of the range; here it is
    # 0.21598.
    assert ("Piecewise Mechanism needs 1.36 times as many reports" in text) == (goal == "mean")
    assert "ok" in good("task", "verify", "x.json")
    population = "0.4*atom:2 + 0.6*atom:9"
    shown = good(
        "simulate", "x.json", "--distribution", population, "--reports", "1e5", "--seed", "1", "--estimate"
    )
    assert re.search(r"^mean +6\.2 .*inside$", shown, re.MULTILINE)


def test_the_usual_mechanism_is_kept_where_no_design_is_nearer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCWISE_CACHE", "cache")
    args = ["task", "new", "x", "--goal", "value"]
    for more in (
        ["--domain", "1:5", "--step", "1", "--epsilon", "8"],
        ["--domain", "0:100", "--step", "0.25", "--epsilon", "1"],
    ):
        good(*args, *more, "--force")
        assert Task.load("x.json").mechanism.name == "optimal-piecewise"


@pytest.mark.parametrize("name", ["three-outputs", "duchi", "randomized-response", "piecewise", "hybrid"])
def test_the_worst_variance_is_that_of_the_worst_input(name: str) -> None:
    mechanism = MECHANISMS[name, 1](Interval(-20.0, 180.0), 3.0)  # type: ignore[call-arg]
    dense = variances(mechanism, np.linspace(0, 1, 20_001)).max() * 200.0**2
    worst = worst_unit_variance(mechanism) * 200.0**2
    assert dense <= worst * (1 + 1e-12)
    assert dense == pytest.approx(worst, rel=1e-5)


@pytest.mark.parametrize(
    ("epsilon", "told"), [pytest.param("8", False, marks=pytest.mark.slow), ("20", True)]
)
@pytest.mark.slow
def test_a_goal_of_means_says_where_a_table_is_too_coarse(
    monkeypatch: pytest.MonkeyPatch, epsilon: str, told: bool
) -> None:
    monkeypatch.setenv("ARCWISE_CACHE", "cache")
    made = run("task", "new", "x", "--domain", "0:1", "--epsilon", epsilon, "--goal", "mean")
    assert made.exit_code == 0, made.output
    assert ("needs only" in made.output) == told


@pytest.mark.parametrize(("domain", "words"), [("0:1e200", "at most inf"), ("0:1e-200", "at most 0 ")])
@pytest.mark.slow
def test_a_variance_beyond_floats_is_told_all_the_same(domain: str, words: str) -> None:
    text = good("task", "new", "x", "--domain", domain, "--epsilon", "1", "--mechanism", "hybrid")
    assert words in text
    assert "needs 1.22 times as many reports" in text
    text = good("compare", "--epsilon", "1", "--domain", domain, "--no-designs")
    assert "hybrid" in text


def test_show_tells_the_worst_variance_over_all_inputs() -> None:
    good("task", "new", "x", "--domain", "0:10", "--epsilon", "1", "--mechanism", "three-outputs")
    mechanism = Task.load("x.json").mechanism
    worst = max(mechanism.variance(x) for x in np.linspace(0, 10, 2001))
    # Three outputs: 1.114 on [0, 1] at epsilon 1; PM has 1.306.
    shown = good("task", "show", "x.json")
    told = re.search(r"at most ([0-9.]+) ", shown)
    assert told is not None
    assert float(told[1]) == pytest.approx(worst, rel=1e-4)
    assert worst == pytest.approx(111.4, rel=1e-3)
    assert "needs 1.17 times as many reports" in shown


@pytest.mark.parametrize(("kind", "message"), [("pure", "above e^epsilon"), ("delta", "larger delta")])
def test_verify_trusts_no_certificate(monkeypatch: pytest.MonkeyPatch, kind: str, message: str) -> None:
    extra = ["--mechanism", "truncated-laplace", "--delta", "1e-4"] if kind == "delta" else []
    good("task", "new", "x", "--domain", "0:10", "--epsilon", "1", *extra)
    honest = Task.load("x.json").mechanism.certificate()
    epsilon, delta = (0.9, honest.delta) if kind == "pure" else (honest.epsilon, honest.delta - 1)
    claimed = Certificate(epsilon, delta, honest.ratio)
    monkeypatch.setattr(Mechanism, "certificate", lambda self: claimed)
    assert message in bad("task", "verify", "x.json")


@pytest.mark.parametrize("circular", [False, True])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 7.0, 20.0])
def test_the_integers_of_a_window_tell_the_same_as_its_rows(circular: bool, epsilon: float) -> None:
    for nodes, window in ((2, 1), (5, 2), (40, 39), (131, 9)):
        kernel = WindowKernel.fit(nodes=nodes, window=window, epsilon=epsilon, circular=circular)
        assert window_extremes(kernel) == extremes(kernel)
        for name in ("codes", "nodes", "window", "background", "extra"):
            forged = copy(kernel)
            object.__setattr__(forged, name, getattr(kernel, name) + kernel.codes)
            with pytest.raises(CertificateError, match="does not sum"):
                window_extremes(forged)


def test_verify_checks_as_many_nodes_as_there_may_be() -> None:
    good("task", "new", "x", "--circle", "360", "--epsilon", "19.4", "--nodes", "65274")
    assert "65274 rows sum to 2**64" in good("task", "verify", "x.json")


def test_new_makes_the_folder_of_its_output() -> None:
    good("task", "new", "heading", "--circle", "360", "--epsilon", "1", "-o", "tasks/heading.json")
    assert Task.load("tasks/heading.json").name == "heading"
    assert "cannot write" in bad("task", "new", "\U0001d49c" * 64, "--circle", "360", "--epsilon", "1")


def test_a_name_that_is_no_file_name() -> None:
    good("task", "new", "wind / direction", "--circle", "360", "--epsilon", "1")
    assert Task.load("wind-direction.json").name == "wind / direction"


def test_verify_refuses_a_kernel_that_was_made_stronger() -> None:
    good("task", "new", "a", "--domain", "0:1", "--epsilon", "1")
    good("task", "new", "b", "--domain", "0:1", "--epsilon", "2")
    forged = json.loads(Path("b.json").read_text())
    forged["epsilon"] = 1.0
    Path("b.json").write_text(json.dumps(forged))
    result = run("task", "verify", "b.json", "a.json")
    assert result.exit_code == 1
    assert "FAILED  b.json" in result.output
    assert "more than e^epsilon" in result.output
    assert "ok      a.json" in result.output


def test_estimate_from_a_store_and_from_bare_counts() -> None:
    good("task", "new", "delay", "--domain", "0:100", "--epsilon", "2")
    task = Task.load("delay.json")
    codes = task.mechanism.kernel.codes
    store = open_store("sqlite:///a.db")
    store.register([task])
    store.add([Batch(bytes.fromhex(task.id), bytes(16), 1, bytes(range(codes)) * 20)])
    store.close()
    stored = good("estimate", "delay.json", "--store", "sqlite:///a.db", "--json")
    bare = good("estimate", "delay.json", "--counts", "-", "--json", text=json.dumps([20] * codes))
    lines = good("estimate", "delay.json", "--counts", "-", "--json", text="20\n" * codes)
    assert json.loads(stored) == json.loads(bare) == json.loads(lines)
    assert json.loads(stored)["n"] == 20 * codes
    assert f"{20 * codes:,}" in good("estimate", "delay.json", "--store", "sqlite:///a.db")


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_estimate_draws_its_picture(suffix: str) -> None:
    good("task", "new", "heading", "--circle", "360", "--epsilon", "2")
    counts = json.dumps(list(range(10, 138)))
    good("estimate", "heading.json", "--counts", "-", "--plot", f"rose.{suffix}", text=counts)
    assert Path(f"rose.{suffix}").stat().st_size > 5000
    if suffix != "svg":
        return
    assert "share 350:90" in good(
        "estimate", "heading.json", "--counts", "-", "--share", "350:90", text=counts
    )
    for wrong in ("rose", "rose.gif"):
        text = bad("estimate", "heading.json", "--counts", "-", "--plot", wrong, text=counts)
        assert "ends in .png, .svg or .pdf" in text
    assert "cannot write" in bad(
        "estimate", "heading.json", "--counts", "-", "--plot", f"nowhere/rose.{suffix}", text=counts
    )


@pytest.mark.slow
def test_estimate_tests_the_fit_when_asked() -> None:
    good("task", "new", "delay", "--domain", "0:100", "--epsilon", "2")
    counts = [500] * Task.load("delay.json").mechanism.kernel.codes
    counts[5] += 2000
    given = {"text": json.dumps(counts)}
    assert "fit" not in json.loads(good("estimate", "delay.json", "--counts", "-", "--json", **given))
    tested = json.loads(good("estimate", "delay.json", "--counts", "-", "--json", "--fit-test", **given))
    assert [each["code"] for each in tested["fit"]["flagged"]] == [5]
    text = good("estimate", "delay.json", "--counts", "-", "--fit-test", **given)
    assert tested["fit"]["report"] in text
    assert "honest reports do not explain the counts" in text
    given = {"text": json.dumps([30 * count for count in counts])}
    repeated = ("--reports-per-device", "30", "--memoised")
    text = good("estimate", "delay.json", "--counts", "-", "--fit-test", *repeated, **given)
    assert f"tested as {sum(counts):,} reports" in text


@pytest.mark.slow
def test_estimate_says_what_is_wrong() -> None:
    good("task", "new", "delay", "--domain", "0:100", "--epsilon", "2")
    assert "no store at" in bad("estimate", "delay.json", "--store", "sqlite:///nowhere.db")
    assert not Path("nowhere.db").exists()
    assert "give one of" in bad("estimate", "delay.json")
    assert "whole numbers" in bad("estimate", "delay.json", "--counts", "-", text="[1.5]")
    Path("large.json").write_text(f"[{2**63}]", encoding="utf-8")  # it would turn into a negative one
    assert "below 2^63" in bad("estimate", "delay.json", "--counts", "large.json")
    Path("picture.png").write_bytes(b"\x89PNG\xff")
    assert "must hold the number of reports" in bad("estimate", "delay.json", "--counts", "picture.png")
    counts = ["estimate", "delay.json", "--counts", "-"]
    Path("others.json").write_text(json.dumps(list(range(100, 274))), encoding="ascii")
    text = good(*counts, "--against", "others.json", text="20\n" * 174)
    assert "minus delay's 3,480 reports" in text
    assert "come from one population: the reports speak against it" in text
    shown = json.loads(good(*counts, "--against", "others.json", "--json", text="20\n" * 174))
    assert shown["difference"]["mean"]["value"] > 5
    assert "share 0:50" in good(*counts, "--share", "0:50", text="20\n" * 174)
    assert "--share takes LOW:HIGH" in bad(*counts, "--share", "50", text="20\n" * 174)
    assert "174" in bad("estimate", "delay.json", "--counts", "-", text="[1, 2]")


def test_serve_says_what_is_wrong() -> None:
    Path("tasks").mkdir()
    assert "contains no task file" in bad("serve", "--tasks", "tasks")
    good("task", "new", "a", "--circle", "24", "--epsilon", "1", "-o", "tasks/a.json")
    assert "cannot listen" in bad("serve", "--tasks", "tasks", "--host", "192.0.2.1", "--port", "0", "--open")
    assert "65535" in bad("serve", "--tasks", "tasks", "--port", "99999")
    assert "store must be" in bad("serve", "--tasks", "tasks", "--store", "mysql:///x")


def test_serve_says_in_one_line_what_is_wrong_when_it_starts(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The disk becomes full between the check of the store and the first write."""

    def remember(*_arguments: object) -> None:
        raise StoreError("cannot change arcwise.db: database or disk is full")

    monkeypatch.setattr(SQLiteStore, "remember", remember)
    good("task", "new", "a", "--circle", "24", "--epsilon", "1", "-o", "tasks/a.json")
    said = bad("serve", "--tasks", "tasks", "--port", "0")
    assert said.endswith("Error: cannot change arcwise.db: database or disk is full")
    assert "Traceback" not in said + "".join(capfd.readouterr())
