"""`arcwise task report`: the page agrees with the file, its bounds hold, and it loads nothing."""

from __future__ import annotations

import re
import shutil
from functools import partial
from html import unescape
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from arcwise.cli.privacy import PRIORS, Limit, beliefs, limits, percent, privacy_page
from arcwise.domains import Circle, Interval
from arcwise.kernels.certificate import UNIT
from arcwise.mechanisms import GaussianMechanism
from arcwise.tasks import Caps, Group, Task
from arcwise.version import __version__
from tests.support import commands
from tests.support.chromium import launch

if TYPE_CHECKING:
    from pathlib import Path

COMMUTE = Task(
    "commute",
    Interval(0, 120, clip=True),
    epsilon=1.0,
    caps=Caps(lifetime=30.0, rolling=2.0),
    unit="min",
    description="How long <b>you</b> took",
)
HEADING = Task("heading", Circle(360), epsilon=0.5)
LOAD = Task("load", Interval(0, 1), epsilon=1.0, mechanism=GaussianMechanism(Interval(0, 1), 1.0, 1e-6))
TRIP = Group("trip", [COMMUTE, HEADING], caps=Caps(lifetime=3.0))


def words(page: str) -> str:
    """Return the text of a page, with single spaces."""
    body = re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+([.,;:])", r"\1", " ".join(unescape(body).split()))


good, bad = partial(commands.good, "task", "report"), partial(commands.bad, "task", "report")


def test_the_page_of_a_task_says_what_the_file_says() -> None:
    page = privacy_page(COMMUTE, "commute.json")
    text, ratio = words(page), COMMUTE.mechanism.certificate().ratio
    assert ratio is not None
    for said in (
        "Privacy report: commute",
        "How long <b>you</b> took",
        "[0, 120] min; a value outside is moved to the nearer end",
        "at most 30 reports in all, for ever and 2 reports within any day",
        "epsilon = 1 (local differential privacy)",
        "at most 2.72 times as likely",
        "before after one report after 30 reports, in all, for ever after 2 reports, within any day",
        "50 % 73.2 % more than 99.9 % 88.1 %",
        "The limits add up to: epsilon 30 in all, for ever; epsilon 2 within any day.",
        "Such a large epsilon promises little for such a value.",
        COMMUTE.id,
        f"{ratio.numerator} / {ratio.denominator}",
        "delta is 0. Mechanism optimal-piecewise 1, 128 nodes, 204 answers",
        "arcwise task verify commute.json",
        f"arcwise {__version__}, schema 1 of tasks",
        "Name and role Date Signature",
    ):
        assert said in text, said
    assert "How long <b>" not in page


def test_the_page_of_a_group_adds_up_what_a_round_reveals() -> None:
    text = words(privacy_page(TRIP, "trip.json"))
    for said in (
        "2 questions to the same device, answered together: in each round all of them.",
        "Each round is protected by epsilon = 1.5",
        "at most 2 rounds in all, for ever",
        "of task commute at most 30 in all, for ever and 2 within any day",
        "heading no description in the file [0, 360) modulo 360; a value outside is taken modulo the",
        "Task commute; no other of the group has a larger epsilon.",
        COMMUTE.id,
        HEADING.id,
        TRIP.id,
        "arcwise group verify trip.json",
    ):
        assert said in text, said
    drawn = words(privacy_page(Group("trip", [COMMUTE, HEADING], sample=1), "trip.json"))
    assert "in each round 1 of them, which the device draws at random, independently of its values." in drawn


def test_a_delta_is_said_wherever_it_matters() -> None:
    text, delta = words(privacy_page(LOAD, "load.json")), LOAD.charge.delta_units
    assert "except for an additional probability of at most 1e-06" in text
    assert f"delta is exactly {delta} / 2 64" in text
    assert "which is above e 1 = 2.71828182846 for some answers, which delta covers" in text
    assert "apart from delta" in text


def test_no_limit_is_a_warning() -> None:
    text = words(privacy_page(HEADING, "heading.json"))
    assert "as often as the app reports: the file sets no limit." in text
    assert "the value can be found out" in text
    assert "The limits add up" not in text


@pytest.mark.parametrize("task", [COMMUTE, HEADING], ids=["interval", "circle"])
def test_no_answer_makes_an_observer_surer_than_the_page_says(task: Task) -> None:
    kernel = task.mechanism.kernel
    columns = list(zip(*(kernel.row(node) for node in range(kernel.nodes)), strict=True))
    ratio = max(max(column) / min(column) for column in columns)
    for prior, belief in zip(PRIORS, beliefs([task.epsilon]), strict=True):
        surest = prior * ratio / (1 - prior + prior * ratio)
        assert surest <= float(belief.after[0].removesuffix(" %")) / 100 <= surest + 0.001


@pytest.mark.parametrize(
    ("caps", "expected"),
    [
        (Caps(), []),
        (Caps(lifetime=2.5), [Limit("in all, for ever", 2, 2.0, 0.0)]),
        (Caps(rolling=3.0, window=7_200), [Limit("within any 2 hours", 3, 3.0, 0.0)]),
        (Caps(rolling=1.0, window=90), [Limit("within any 90 seconds", 1, 1.0, 0.0)]),
    ],
)
def test_caps_are_whole_numbers_of_answers(caps: Caps, expected: list[Limit]) -> None:
    assert limits(caps, COMMUTE.charge) == expected


def test_a_cap_of_delta_counts_too() -> None:
    (limit,) = limits(Caps(lifetime=9.0, lifetime_delta=2.5e-6), LOAD.charge)
    assert (limit.most, limit.epsilon) == (2, 2.0)
    assert limit.delta == 2 * LOAD.charge.delta_units / UNIT


def test_percentages_are_rounded_up() -> None:
    assert [percent(share) for share in (0.0702, 0.9991, 1.0)] == [
        "7.1 %",
        "more than 99.9 %",
        "more than 99.9 %",
    ]


class Links(HTMLParser):
    """Collects the resources that a page would load, run or link."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        wrong = [name for name, _ in attrs if name in {"src", "href"} or name.startswith("on")]
        self.found += [tag] if tag in {"script", "link", "iframe", "img"} or wrong else []


@pytest.mark.parametrize("asked", [COMMUTE, TRIP, LOAD], ids=["task", "group", "delta"])
def test_a_page_runs_and_loads_nothing(asked: Task | Group) -> None:
    page, links = privacy_page(asked, "file.json"), Links()
    links.feed(page)
    assert links.found == []
    assert "url(" not in page
    assert "@import" not in page


def test_the_command_writes_a_page_for_each_file_and_overwrites_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    COMMUTE.save("commute.json")
    TRIP.save("trip.json")
    (tmp_path / "bad.json").write_text("{}", encoding="utf-8")
    good("commute.json", "trip.json")
    page = tmp_path / "commute-privacy.html"
    assert page.read_text(encoding="utf-8") == privacy_page(COMMUTE, "commute.json")
    assert "Privacy report: trip" in (tmp_path / "trip-privacy.html").read_text(encoding="utf-8")
    page.write_text("signed", encoding="utf-8")
    said = "commute-privacy.html already exists; use another --output, or --force"
    assert said in bad("commute.json", code=1)
    assert page.read_text(encoding="utf-8") == "signed"
    good("commute.json", "--force")
    assert "Privacy" in page.read_text(encoding="utf-8")
    good("trip.json", "-o", "pages/trip.html")
    assert (tmp_path / "pages" / "trip.html").exists()
    for arguments, message in (
        (("bad.json",), "bad.json: a task file needs the key"),
        (("missing.json",), "'missing.json' does not exist"),
        (("commute.json", "trip.json", "-o", "x.html"), "--output is for one FILE"),
        (("commute.json", "./commute.json", "--force"), "two FILEs have the same name"),
    ):
        assert message in bad(*arguments)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (1, "1 second"),
        (60, "1 minute"),
        (90, "90 seconds"),
        (3_599, "3,599 seconds"),
        (3_600, ""),
        (86_400, ""),
    ],
)
def test_an_epoch_below_an_hour_is_warned_of_wherever_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    short, long = ("--epoch-seconds", str(seconds), "--epsilon", "1"), ("--task", "a=0:1", "--task", "b=0:2")
    for command in (
        ("task", "new", "t", "--domain", "0:1", *short),
        ("task", "show", "t.json"),
        ("task", "report", "t.json"),
        ("group", "new", "g", *long, *short),
        ("group", "show", "g.json"),
        ("task", "report", "g.json"),
    ):
        done = commands.run(*command)
        assert done.exit_code == 0, done.output
        told = (
            f"reveals when a report was made, to within {said}: a relay, or anyone who knows other times of "
            "a device"
        )
        assert ("warning" in done.output and told in done.output) == bool(said), command
    for page in ("t-privacy.html", "g-privacy.html"):
        text = words((tmp_path / page).read_text(encoding="utf-8"))
        assert ("reveals when a report was made" in text) == bool(said)
        assert said in text


@pytest.mark.slow
def test_a_browser_prints_one_page_of_a_task_and_two_of_a_group(tmp_path: Path) -> None:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed")
    printed = {}
    with launch(program) as browser:
        for asked in (COMMUTE, LOAD, TRIP):
            file = tmp_path / f"{asked.name}.html"
            file.write_text(privacy_page(asked, f"{asked.name}.json"), encoding="utf-8")
            for width, scheme in ((390, "dark"), (1280, "light")):
                context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
                page = context.new_page()
                page.goto(file.as_uri())
                assert page.evaluate("document.documentElement.scrollWidth") <= width
            pdf = page.pdf(prefer_css_page_size=True)
            printed[asked.name] = max(int(count) for count in re.findall(rb"/Count (\d+)", pdf))
    assert printed == {"commute": 1, "load": 1, "trip": 2}
