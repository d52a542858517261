"""The promise of a task: which local epsilon keeps it, how commands use it, what a device charges."""

import json
from pathlib import Path
from typing import Any

import pytest

from arcwise.analysis import central, plan
from arcwise.analysis.central_privacy.promise import check_promise, largest_local
from arcwise.cli.privacy import privacy_page
from arcwise.client import Client, MemoryLedger, RecordingTransport
from arcwise.domains import Circle, Interval
from arcwise.errors import CertificateError, ParameterError
from arcwise.tasks import Caps, CentralStatement, Group, Task
from tests.support.commands import good, run
from tests.support.known import there

AGE = Interval(0, 100)
ONCE = CentralStatement(1.0, 1e-8, 10_000)


def kernel(epsilon: float) -> Any:
    return Task("age", AGE, epsilon).mechanism.kernel


# --- the local epsilon that a promise allows -------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "reports", "expected"),
    [(1.0, 10**3, 3.09), (1.0, 10**4, 5.17), (1.0, 10**6, 9.69), (0.5, 10**4, 4.05), (2.0, 10**4, 6.05)],
)
def test_the_largest_local_epsilon_is_as_worked_out_elsewhere(
    epsilon: float, reports: int, expected: float
) -> None:
    """The grids grow with epsilon and the figures are for 128 and 256 nodes, so they agree within 1 %."""
    assert largest_local(CentralStatement(epsilon, 1e-8, reports), kernel) == pytest.approx(
        expected, rel=0.01
    )


@pytest.mark.parametrize(
    "statement",
    [
        ONCE,
        CentralStatement(0.01, 1e-8, 10_000),
        CentralStatement(0.5, 1e-6, 50_000, honest=0.3),
        CentralStatement(1.5, 1e-8, 100_000, reports_each=3),
        CentralStatement(30.0, 1e-8, 100),
    ],
)
def test_it_keeps_the_promise_and_the_next_does_not(statement: CentralStatement) -> None:
    found = largest_local(statement, kernel)
    assumed = {
        key: value for key, value in statement.to_fields().items() if key not in ("epsilon", "reports")
    }

    def at(epsilon: float) -> float:
        return central(kernel(epsilon), statement.reports, **assumed).epsilon

    assert at(found) <= statement.epsilon
    if found < 20:
        unit = 0.01 if 1 <= found < 10 else 0.001 if found < 1 else 0.1
        assert at(float(f"{found + unit:.3g}")) > statement.epsilon


def test_a_slack_leaves_little_of_the_promise() -> None:
    found = largest_local(ONCE, kernel, slack=0.05)
    assert 0.95 <= central(kernel(found), 10_000, delta=1e-8).epsilon <= 1.0


def test_a_promise_out_of_reach() -> None:
    with pytest.raises(ParameterError, match=r"^central epsilon 1e-06 is out of reach: .* use more reports"):
        largest_local(CentralStatement(1e-6, 1e-8, 100), kernel)


def test_a_promise_is_checked_against_the_kernel() -> None:
    kept = Task("age", AGE, 5.17, caps=ONCE.caps(5.17, 86_400), central=ONCE)
    found = there(check_promise(kept))
    assert 0.99 <= found.epsilon <= 1.0
    assert check_promise(Task("age", AGE, 5.17)) is None
    too_good = CentralStatement(0.9, 1e-8, 10_000)
    broken = Task("age", AGE, 5.17, caps=ONCE.caps(5.17, 86_400), central=too_good)
    with pytest.raises(
        CertificateError,
        match=r"^the central statement of task 'age' is not true\. It promises epsilon = 0\.9, "
        r"delta = 1e-08, .* at least 10,000 reports .*; its kernel guarantees epsilon = 0\.99\d+\. "
        r"Use a smaller epsilon than 5\.17 for one",
    ):
        check_promise(broken)


# --- planning and the commands ---------------------------------------------------------------------------


def test_a_plan_for_a_promise_has_the_error_of_the_local_epsilon() -> None:
    found = plan(Circle(360), central=ONCE)
    assert (found.epsilon, found.reports, found.found, found.central) == (5.17, 10_000, "error", ONCE)
    assert found.error == plan(Circle(360), epsilon=5.17, reports=10_000, compare=False).error
    assert "  central    epsilon = 1, delta = 1e-08, for the counts of one epoch" in str(found)
    assert found.to_dict()["central"] == ONCE.to_fields()
    for beside in ({"epsilon": 1.0}, {"error": 0.1}, {"reports": 10_000}):
        with pytest.raises(ParameterError, match="must be left out with central"):
            plan(Circle(360), central=ONCE, **beside)
    wrong: Any = 1.0
    with pytest.raises(ParameterError, match=r"central must be None or a CentralStatement, got 1\.0"):
        plan(Circle(360), central=wrong)


def test_the_command_of_a_plan_makes_its_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = json.loads(good("plan", "--circle", "360", "--central", "1", "--reports", "1e4", "--json"))
    assert said["epsilon"] >= 5.1
    command = said["mechanisms"][0]["command"].split()
    good(*command[1:])
    task = Task.load("NAME.json")
    assert (task.epsilon, task.central) == (said["epsilon"], ONCE)
    assert task.caps == Caps(lifetime=5.17, rolling=5.17)
    assert "central epsilon 0.99" in good("task", "verify", "NAME.json")


def test_a_new_task_finds_its_local_epsilon_and_its_caps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    new = ("task", "new", "age", "--domain", "0:100", "--central", "1", "--reports", "1e4")
    shown = good(*new, "--epoch-seconds", "3600", "--lateness-seconds", "7200")
    task = Task.load("age.json")
    assert (task.epsilon, task.central, task.lateness_seconds) == (5.18, ONCE, 7200)
    assert task.caps == Caps(lifetime=5.18, rolling=5.18, window=3600)
    whole, gateway, released = task.readers
    assert whole.startswith("readers of reports, the store, its log, a backup")
    assert f"\nreaders      {whole}: epsilon = 5.18 per report\n" in shown
    assert f"\n{'':<13}{gateway}: epsilon = 5.18 per report, without its address\n" in shown
    assert f"\n{'':<13}{released}: epsilon = 1, delta = 1e-08, for the counts of one epoch" in shown
    assert "holds at least 10,000 reports; batches are taken until 7200 s after their epoch" in shown
    window = good(*new, "--rolling-window", "86400", "--dry-run", "--epoch-seconds", "3600")
    assert "within any 86400 s" in window
    assert "closed" in good(
        "task", "new", "b", "--circle", "360", "--epsilon", "1", "--release", "closed-epochs"
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--central", "1"], "--central needs --reports"),
        (["--epsilon", "1", "--reports", "1e4"], "--reports is for --central"),
        (["--epsilon", "1", "--releases", "3"], "--releases is for --central"),
        (["--epsilon", "1", "--reports-each", "3"], "--reports-each is for --central"),
        ([], "give --epsilon, the privacy loss of one report"),
        (
            ["--central", "1", "--reports", "1e4", "--goal", "mean"],
            "needs --epsilon for a goal that a solver designs for: arcwise plan --central EPSILON",
        ),
        (
            ["--central", "1", "--reports", "1e4", "--mechanism", "piecewise"],
            "--central takes no --mechanism",
        ),
        (["--central", "1", "--reports", "1e4", "--delta", "0"], "delta must be at least 1e-200"),
        (
            ["--central", "1", "--reports", "1e4", "--epsilon", "6"],
            "its kernel guarantees epsilon = 1.8",
        ),
        (
            ["--central", "2", "--reports", "1e4", "--epsilon", "5", "--lifetime-cap", "50"],
            "caps.lifetime must be at most 5",
        ),
    ],
)
def test_bad_options(args: list[str], message: str) -> None:
    done = run("task", "new", "age", "--domain", "0:100", "--dry-run", *args)
    assert done.exit_code == (2 if "-" in message[:3] or message.startswith(("give", "needs")) else 1)
    assert message in " ".join(done.output.split())


def test_a_plan_finds_epsilon_and_error_of_a_promise() -> None:
    args = ["plan", "--circle", "360", "--central", "1", "--reports", "1e4"]
    for beside in (["--epsilon", "1"], ["--error", "1"]):
        done = run(*args, *beside)
        assert done.exit_code == 2
        assert "with --central give --reports, but not --epsilon and --error" in done.output


@pytest.mark.slow
def test_several_releases() -> None:
    month = CentralStatement(1.0, 1e-8, 10_000, releases=30)
    found = largest_local(month, kernel, slack=0.01)
    assert 0.99 <= central(kernel(found), 10_000, delta=1e-8, releases=30).epsilon <= 1.0
    task = Task("age", AGE, found, caps=month.caps(found, 86_400), central=month)
    assert check_promise(task) is not None


# --- devices ---------------------------------------------------------------------------------------------


def test_a_device_charges_the_local_epsilon_and_takes_no_more_than_its_own_bound() -> None:
    month = CentralStatement(1.0, 1e-8, 10_000, releases=2)
    task = Task("age", AGE, 2.0, caps=month.caps(2.0, 86_400), central=month)
    sent = RecordingTransport()
    with pytest.raises(CertificateError, match=r"spends epsilon = 2\.0, more than max_epsilon = 1\.0"):
        Client(
            "https://reports.example", tasks=[task], ledger=MemoryLedger(), max_epsilon=1.0, transport=sent
        )
    with Client("https://reports.example", tasks=[task], ledger=MemoryLedger(), transport=sent) as client:
        assert client.report("age", 30.0)
        assert client.budget("age").epsilon == 2.0
        assert not client.report("age", 31.0)  # the epoch has its report
        assert client.budget("age").epsilon == 2.0


def test_tasks_of_a_group_keep_their_own_promises() -> None:
    task = Task("age", AGE, 2.0, caps=ONCE.caps(2.0, 86_400), central=ONCE)
    group = Group("both", [task, Task("heading", Circle(360), 2.0)])
    sent = RecordingTransport()
    with Client("https://reports.example", tasks=[group], ledger=MemoryLedger(), transport=sent) as client:
        assert client.report("both", {"age": 30.0, "heading": 1.0})
        assert not client.report("both", {"age": 30.0, "heading": 1.0})


# --- what people read --------------------------------------------------------------------------------------


def test_the_privacy_report_has_a_statement_for_each_reader() -> None:
    task = Task("age", AGE, 5.17, caps=ONCE.caps(5.17, 86_400), central=ONCE)
    page = " ".join(privacy_page(task, "age.json").split())
    for who, what in task.readers.items():
        assert f'<th scope="row">Against {who}</th><td>{what}</td>' in page
    assert page.index("epsilon = 5.17 per report") < page.index("for the counts of one epoch")
    assert "Against who" not in privacy_page(Task("age", AGE, 1.0), "age.json")


@pytest.mark.slow
def test_outcomes_and_groups_name_each_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    task = Task("age", AGE, 5.17, caps=ONCE.caps(5.17, 86_400), central=ONCE)
    plain = Task("heading", Circle(360), 1.0)
    task.save("age.json")
    plain.save("heading.json")
    Group("both", [task, plain]).save("both.json")
    lines = [f"Against {who}: {what}." for who, what in task.readers.items()]
    args = ("--distribution", "normal:40,10", "--estimate")
    enough = run("simulate", "age.json", "--reports", "10000", *args, "-o", "counts.json").output
    assert enough.rstrip().endswith("\n".join(lines)), enough
    estimated = ("estimate", "age.json", "--counts", "counts.json")
    assert "\n".join(lines) in good(*estimated)
    assert json.loads(good(*estimated, "--json"))["readers"] == task.readers
    few = run("simulate", "age.json", "--reports", "9999", *args).output
    assert few.endswith("9,999 reports are fewer than 10,000: a server does not release them.\n")
    other = good(
        "simulate", "heading.json", "--reports", "100", "--distribution", "vonmises:90,1", "--estimate"
    )
    assert "Against" not in other
    shown = good("group", "show", "both.json")
    assert shown.count("epsilon = 5.17 per report") == 2
    assert shown.index(next(iter(task.readers))) < shown.index(str(ONCE))
