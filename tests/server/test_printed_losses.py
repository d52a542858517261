"""A loss is printed exactly or rounded up (1.0000004 never as 1); audits round their bounds down."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from arcwise.analysis import plan
from arcwise.analysis.auditing.result import Audit, Finding
from arcwise.cli.demo.page import write_page
from arcwise.digits import rounded_down, rounded_up
from arcwise.domains import Circle, Interval
from arcwise.errors import CoarseGridWarning, TaskError
from arcwise.mechanisms import GaussianMechanism, OptimalCircular
from arcwise.tasks import Caps, CentralStatement, Group, Task
from tests.support.commands import good
from tests.support.figures import REPOSITORY

EPSILON = 1.0000004  # charged as 1.000001
UNIT = Interval(0, 1)


def refused(make: Callable[[], object]) -> str:
    with pytest.raises(TaskError) as caught:
        make()
    return str(caught.value)


def planned() -> str:
    made = plan(UNIT, epsilon=EPSILON, reports=1000, compare=False)
    return f"{made}\n{made!r}"


def demo(folder: Path) -> str:
    write_page(folder / "demo.html", [], epsilon=EPSILON, devices=1)
    return (folder / "demo.html").read_text(encoding="utf-8")


def simulated(folder: Path) -> str:
    Task("t", UNIT, EPSILON).save(folder / "t.json")
    return good(
        "simulate", str(folder / "t.json"), "--reports", "100", "--distribution", "uniform", "--estimate"
    )


def audited() -> str:
    finding = Finding("value", "the output 0", 0.0, 1.0, 50, 0, 100, 1.99999)
    found = Audit(EPSILON, 0.0, 0.95, 100, 2, (finding,))
    return f"{found}\n{found!r}"


def coarse() -> str:
    with pytest.warns(CoarseGridWarning) as caught:
        Task(
            "t", Circle(1), EPSILON, goal="direction", mechanism=OptimalCircular(Circle(1), EPSILON, nodes=4)
        )
    return str(caught[0].message)


STATEMENT = CentralStatement(1.0, 1e-8, 10**6)
SHORT = ("--domain", "0:1", "--epsilon", str(EPSILON))
PLACES: dict[str, tuple[Callable[[Path], str], str]] = {
    "plan": (lambda _: planned(), "at epsilon 1.00001"),
    "arcwise plan": (lambda _: good("plan", *SHORT, "--reports", "1e3"), " 1.00001 "),
    "command of a plan": (lambda _: planned(), "--epsilon 1.0000004"),
    "arcwise simulate": (
        simulated,
        "at epsilon 1.00001,",
    ),
    "arcwise compare": (lambda _: good("compare", *SHORT), "epsilon = 1.00001,"),
    "demo": (demo, "epsilon = 1.00001"),
    "demo, two reports": (demo, "spends 2.00001"),
    "claim of an audit": (lambda _: audited(), "claimed: epsilon 1.00001"),
    "bound of an audit": (lambda _: audited(), "epsilon is at least 1.999 at"),
    "cap below a charge": (
        lambda _: refused(lambda: Task("t", UNIT, EPSILON, caps=Caps(lifetime=1))),
        "caps.lifetime = 1 allows no report: one costs epsilon = 1.000001",
    ),
    "cap of delta": (
        lambda _: refused(
            lambda: Task(
                "t",
                UNIT,
                1.0,
                mechanism=GaussianMechanism(UNIT, 1.0, 1.000001e-6),
                caps=Caps(lifetime=2, lifetime_delta=1e-12),
            )
        ),
        "allows no report: one costs delta = 1.00001e-06",
    ),
    "cap above a central statement": (
        lambda _: refused(lambda: Task("t", UNIT, EPSILON, central=STATEMENT, caps=Caps(1.000002, 1.000002))),
        "caps.lifetime must be at most 1.000001 in",
    ),
    "share of a group": (
        lambda _: refused(lambda: Group.share_budget("g", {"a": UNIT, "b": UNIT}, 40.000002, sample=None)),
        "would have epsilon = 20.000001, and a task takes 0.01 to 20",
    ),
    "coarse grid": (lambda _: coarse(), "for epsilon 1.00001:"),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_loss_is_not_printed_below_what_it_is(place: str, tmp_path: Path) -> None:
    say, expected = PLACES[place]
    said = say(tmp_path)
    assert expected in said
    assert not re.search(r"epsilon =? ?1(?![.\d])", said)


ROUNDED = re.compile(r"\{(?:2 \* )?(?:\w+\.)*\w*(?:epsilon|delta|claim)\w*(?: / \w+)?:[^{}]*[efg]\}")
NOT_PRINTED = {
    "analysis/planning/curve.py": "the epsilons that are tried have three digits",
    "analysis/central_privacy/promise.py": "the same",
    "client/file/inspection.py": "whole millionths",
}


def test_no_other_place_rounds_a_loss_to_the_nearest_digits() -> None:
    found = {}
    for folder in ("shared", "client", "server"):
        for path in sorted((REPOSITORY / folder / "arcwise").rglob("*.py")):
            name = path.relative_to(REPOSITORY / folder / "arcwise").as_posix()
            if not name.startswith("papers/") and name not in NOT_PRINTED:
                lines = path.read_text(encoding="utf-8").splitlines()
                found[name] = [line for line in lines if ROUNDED.search(line) and ":.15g}" not in line]
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("number", "below", "above"), [(0.1 * 3, "0.3", "0.3"), (1.0000006, "1", "1.00001"), (2.0, "2", "2")]
)
def test_both_ways_to_round(number: float, below: str, above: str) -> None:
    assert (rounded_down(number), rounded_up(number)) == (below, above)
