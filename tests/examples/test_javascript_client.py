"""The JavaScript client: its requests, its refusals, and its reaction to answers."""

from __future__ import annotations

import inspect
import json
import re
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import arcwise.client
from arcwise import errors
from arcwise.client.uplink import UplinkOptions
from arcwise.domains import Circle, Interval
from arcwise.mechanisms import DesignedCircular
from arcwise.tasks import Caps, Task
from arcwise.version import __version__
from arcwise.wire import MEDIA_TYPE, decode_batch
from tests.support import nodejs
from tests.support.cases import mostly_slow
from tests.support.nodejs import DRIVE, JAVASCRIPT, run_json
from tests.support.scripted import Answer, Request, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADING = Task("heading", Circle(360), 1.0, caps=Caps(lifetime=5.0))
DELAY = Task("delay", Interval(-60, 180), 0.5)
SCORE = Task("score", Interval(0, 10, step=0.5), 0.5)
# Almost without noise (one code in 2**24 differs), so any effect of a value on a request would show.
PLAIN = Task("plain", Circle(2), 20.0, mechanism=DesignedCircular(Circle(2), 20.0, [2**64 - 2**40, 2**40]))
NOWHERE = "http://127.0.0.1:9"
KEY = "arcwise_ingest_0123456789ab_SECRET"


def drive(url: str, *steps: Any, tasks: tuple[Task, ...] = (HEADING, DELAY), **given: Any) -> Any:
    return nodejs.drive(url, tasks, *steps, **given)


def stored(path: Path) -> Any:
    """Return the content of a ledger's file, without its checksum."""
    text, _checksum = path.read_text(encoding="utf-8").split("\n")
    return json.loads(text)


def test_what_leaves_is_one_batch_and_nothing_about_the_device() -> None:
    def headers_and_body(value: float) -> tuple[dict[str, str], bytes]:
        with serving() as (url, requests):
            result = drive(url, ["reportAll", "plain", [value] * 3], ["flush", 10], tasks=(PLAIN,))
        assert result["results"] == [3, True]
        (request,) = requests
        assert request.path == f"/v1/tasks/{PLAIN.id}/reports"
        host = request.headers.pop("host")
        assert url.endswith(host)
        return request.headers, request.body

    before = PLAIN.epoch(time.time())
    one, other = headers_and_body(0.0), headers_and_body(1.0)
    assert one[0] == other[0]
    assert one[0].keys() == {
        *("accept", "accept-encoding", "accept-language", "cache-control", "connection", "content-length"),
        *("content-type", "pragma", "sec-fetch-mode", "user-agent"),
    }
    assert one[0]["content-type"] == MEDIA_TYPE
    assert one[0]["user-agent"] == "arcwise-js/0.1.0"
    assert one[0]["accept-language"] == "*"
    for (_, body), code in ((one, 0), (other, 1)):
        batch = decode_batch(body)
        assert batch.task_id.hex() == PLAIN.id
        assert before <= batch.epoch <= PLAIN.epoch(time.time())
        assert batch.codes == bytes([code] * 3)
    assert one[1][38:54] != other[1][38:54]  # the batch ids, random
    assert (one[1][:38], one[1][54:-3]) == (other[1][:38], other[1][54:-3])


@pytest.mark.parametrize("deaf", ["throws", "rejects"])
def test_an_app_that_fails_at_the_news_stops_nothing(deaf: str) -> None:
    with serving() as (url, _):
        result = drive(url, *[["report", "delay", 1], ["flush", 10]] * 2, deaf=deaf)
    assert result["results"] == [True] * 4


def test_a_key_is_one_header_more() -> None:
    def headers(**options: Any) -> dict[str, str]:
        with serving() as (url, requests):
            assert drive(url, ["report", "delay", 1], ["flush", 10], options=options)["results"] == [
                True,
                True,
            ]
        (request,) = requests
        return {
            name: value for name, value in request.headers.items() if name not in ("host", "content-length")
        }

    assert headers(key=KEY) == headers() | {"authorization": f"Bearer {KEY}"}
    assert headers(key=None) == headers()


@pytest.mark.parametrize("seconds", [5e6, 1e300, 16.1, 1.0005])
def test_a_request_may_take_longer_than_a_timer_counts(seconds: float) -> None:
    """A timer of more than 2^31 ms fires immediately or raises; so does one with parts of a millisecond."""

    def slowly(_request: Request) -> Answer:
        time.sleep(0.1)
        return 204, {}

    with serving(slowly) as (url, _):
        result = drive(url, ["report", "delay", 1], ["flush", 10], options={"requestTimeout": seconds})
    assert result["results"] == [True, True]


REFUSED_VALUES = {
    181: "from -60 to 180",
    -60.000001: "from -60 to 180",
    "NaN": "a finite number",
    "Infinity": "a finite number",
    "12": "a finite number",
    None: "a finite number",
    True: "a finite number",
}
"""Values with the requirement that the error states."""


def test_a_value_that_is_refused_costs_nothing() -> None:
    others = [["report", "speed", 1], ["report", 60.000001, "delay"], ["spent", "delay"], ["counters"]]
    *refused, speed, a_number, spent, counters = drive(
        NOWHERE, *(["report", "delay", value] for value in REFUSED_VALUES), *others
    )["results"]
    for error, wanted in zip(refused, REFUSED_VALUES.values(), strict=True):
        assert error.startswith(f"DomainError: value must be {wanted}")
        assert "60.000001" not in error  # an app may log it
    assert speed == "UnknownTaskError: no task speed; this client has heading, delay"
    assert a_number == "UnknownTaskError: no task is a number; this client has heading, delay"
    assert (spent, counters["pending"]) == (0, 0)
    steps = [["report", "score", 2.6], ["spent", "score"], ["pending"], ["report", "score", 2.5]]
    refused, *others = drive(NOWHERE, *steps, tasks=(SCORE,))["results"]
    assert refused.startswith("DomainError: value must be a whole number of steps of 0.5")
    assert others == [0, 0, True]


NO_TIMEOUT = "ParameterError: timeout must be a number of at least 0"
SPENT = {"epsilon": 3, "epsilonLeft": 2, "reportsLeft": 2}
STEPS: dict[str, tuple[dict[str, Any], list[tuple[list[Any], Any]]]] = {
    # A deadline that never comes would keep an app waiting for ever.
    "no timeouts": (
        {},
        [
            *(
                ([what, time], NO_TIMEOUT)
                for what in ("flush", "close")
                for time in ("NaN", "Infinity", -1, "soon")
            ),
            (["report", "delay", 1], True),
        ],
    ),
    "no clock": (
        {},
        [
            (["report", "heading", 1], True),
            (["clock", "NaN"], None),
            (["report", "heading", 1], False),
            (["clock", -1], None),
            (["report", "heading", 1], False),
            (["clock", 2e12], None),
            (["spent", "heading"], 1),
            (["counters"], {"sent": 0, "dropped": {}, "refused": {"failed": 2}, "pending": 1}),
        ],
    ),
    "caps": (
        {},
        [
            (["reportAll", "heading", [1] * 9], 5),
            (["reportAll", "delay", [1] * 9], 9),
            (["spent", "heading"], 5),
            (["counters"], {"sent": 0, "dropped": {}, "refused": {"capped": 4}, "pending": 14}),
        ],
    ),
    "a full queue": (
        {"options": {"maxPending": 4}},
        [
            (["reportAll", "delay", [1] * 9], 4),
            (["spent", "delay"], 2),
            (["counters"], {"sent": 0, "dropped": {}, "refused": {"full": 5}, "pending": 4}),
        ],
    ),
    # The queue is dropped, and spending is not given back.
    "opting out": (
        {},
        [
            (["reportAll", "heading", [1, 2]], 2),
            (["optOut"], None),
            (["pending"], 0),
            (["report", "heading", 3], False),
            (
                ["counters"],
                {"pending": 0, "sent": 0, "dropped": {"opted-out": 2}, "refused": {"opted-out": 1}},
            ),
            (["optIn"], None),
            (["report", "heading", 3], True),
            (["budget", "heading"], dict.fromkeys(("recentEpsilon", "recentEpsilonLeft", "window")) | SPENT),
        ],
    ),
}


@pytest.mark.parametrize(("given", "steps"), STEPS.values(), ids=STEPS)
def test_what_a_client_without_a_server_answers(
    given: dict[str, Any], steps: list[tuple[list[Any], Any]]
) -> None:
    assert drive(NOWHERE, *(step for step, _ in steps), **given)["results"] == [told for _, told in steps]


@pytest.mark.parametrize("how", ["throws", "is missing"])
@pytest.mark.parametrize("options", [{}, {"delay": 60}])
@pytest.mark.parametrize("earlier", [0, 1])
def test_without_random_bytes_nothing_is_charged(how: str, options: dict[str, Any], earlier: int) -> None:
    """No other source is used, and the sender waits until random bytes are available again."""
    steps = [["randomness", how], ["report", "heading", 1], ["counters"], ["spent", "heading"], ["flush", 1]]
    mended = [["randomness", "works"], ["report", "heading", 1], ["flush", 10], ["counters"]]
    with serving() as (url, requests):
        result = drive(url, ["reportAll", "heading", [1] * earlier], *steps, *mended, options=options)
    _, _, report, counters, spent, _, _, *after = result["results"]
    assert (report, spent, counters["refused"]) == (False, earlier, {"no-randomness": 1})
    assert counters["pending"] == earlier
    assert after[:2] == [True, True]
    assert after[2]["sent"] == earlier + 1
    assert len(requests) <= 2
    assert set(result["troubles"]) == {"the operating system gave no random bytes: failed"}


def test_an_answer_that_cannot_be_noted_is_not_asked_for_at_once() -> None:
    """A wait is drawn at random; without a draw the batch would be sent again and again."""
    with serving(lambda _: (503, {})) as (url, requests):
        drive(url, ["report", "delay", 1], ["randomness", "throws"], ["flush", 0.5])
    assert len(requests) == 1


def test_what_was_spent_and_what_waits_outlast_the_process(tmp_path: Path) -> None:
    file: dict[str, Any] = {"file": str(tmp_path / "state.json")}
    assert drive(NOWHERE, ["reportAll", "heading", [1, 2, 3]], **file)["results"] == [3]
    assert stored(tmp_path / "state.json")["open"][0].keys() == {
        *("task", "name", "to", "owner", "id", "epoch", "width", "created", "codes")
    }
    with serving() as (url, requests):
        steps = [["reportAll", "heading", [1, 2, 3]], ["spent", "heading"], ["flush", 10], ["counters"]]
        granted, spent, flushed, counters = drive(url, *steps, **file)["results"]
    assert (granted, spent, flushed) == (2, 5, True)
    assert counters == {"sent": 5, "dropped": {}, "refused": {"capped": 1}, "pending": 0}
    # One batch for each client: the batch of a page that may have sent it on leaving gets no more codes.
    assert sorted(len(request.batch.codes) for request in requests) == [2, 3]


def test_a_changed_bit_is_noticed_and_nothing_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    drive(NOWHERE, ["reportAll", "heading", [1, 2, 3]], ["flush", 1], file=str(path))
    text = path.read_text(encoding="utf-8")
    found = nodejs.ask("damage", {"text": text})
    assert found["bits"] > 2000
    assert found["unnoticed"] == []


def test_a_file_of_an_earlier_version_keeps_what_was_spent(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    drive(NOWHERE, ["reportAll", "heading", [1, 2, 3]], ["flush", 1], file=str(path))
    path.write_text(json.dumps(stored(path)), encoding="utf-8")
    assert drive(NOWHERE, ["reportAll", "heading", [1, 2, 3]], file=str(path))["results"] == [2]


def test_a_folder_that_cannot_be_written_to_the_disk_costs_nothing(tmp_path: Path) -> None:
    """The folder may be written and entered, but not opened: a refused report is neither charged nor sent."""
    with tempfile.TemporaryDirectory() as name:  # a folder that another user can reach
        Path(name).chmod(0o755)
        folder = Path(name) / "folder"
        folder.mkdir()
        folder.chmod(0o333)
        file = folder / "state.json"
        with serving() as (url, requests):
            result = drive(url, ["report", "delay", 1], ["flush", 1], file=str(file), user=65_534)
        assert result["results"] == [False, False]
        assert not file.exists()
        assert not requests


def test_a_damaged_batch_ends_no_process_and_holds_up_no_other(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    drive(NOWHERE, ["report", "heading", 1], ["flush", 1], file=str(path))
    text = json.dumps(stored(path), separators=(",", ":"))
    assert text.count('"body"') == 1
    path.write_text(text.replace('"body"', '"bodx"'), encoding="utf-8")
    with serving() as (
        url,
        requests,
    ):  # the damaged one is tried first; up to a second of backoff follows
        results = drive(url, ["report", "delay", 1], ["flush", 4], ["pending"], file=str(path))["results"]
    assert results == [True, False, 1]
    assert len(requests) == 1


def test_a_link_to_the_file_stays_one(tmp_path: Path) -> None:
    """Otherwise, the state would be outside the intended volume, and be lost with the next deployment."""
    (tmp_path / "volume").mkdir()
    (tmp_path / "state.json").symlink_to("volume/state.json")
    for granted in (3, 2):
        results = drive(NOWHERE, ["reportAll", "heading", [1, 2, 3]], file=str(tmp_path / "state.json"))[
            "results"
        ]
        assert results == [granted]
        assert (tmp_path / "state.json").is_symlink()


@pytest.mark.parametrize(
    "text", mostly_slow(["", "{}", "[]", "null", '{"version": 2}', '{"version": 1'], every=3)
)
def test_an_account_that_cannot_be_read_lets_nothing_out(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text, encoding="utf-8")
    with serving() as (url, requests):
        result = drive(url, ["report", "delay", 1], ["flush", 1], file=str(tmp_path / "state.json"))
    assert result["results"] == [False, False]
    assert result["troubles"]
    assert not requests
    assert (tmp_path / "state.json").read_text(encoding="utf-8") == text


def test_a_report_that_cannot_be_stored_does_not_leave(tmp_path: Path) -> None:
    with serving() as (url, requests):
        result = drive(url, ["report", "delay", 1], ["flush", 1], file=str(tmp_path / "missing" / "s"))
    assert result["results"] == [False, False]
    assert result["troubles"]
    assert all("ENOENT: no such file" in trouble for trouble in result["troubles"])
    assert not requests


def test_caps_need_a_ledger_that_outlasts_the_process() -> None:
    """Node.js has no IndexedDB; without caps a new process has nothing to forget."""
    with serving() as (url, _):
        steps = [["report", "delay", 1], ["flush", 10], ["counters"]]
        *_, counters = drive(url, *steps, tasks=(DELAY,), ledger="default")["results"]
    assert counters["sent"] == 1
    for caps in (Caps(lifetime=5.0), Caps(rolling=5.0)):
        task = Task("heading", Circle(360), 1.0, caps=caps)
        with pytest.raises(AssertionError, match=r"ledger must be given, .* new MemoryLedger\(\)"):
            drive(NOWHERE, tasks=(DELAY, task), ledger="default")


@pytest.mark.parametrize("status", [204, pytest.param(404, marks=pytest.mark.slow), 410])
def test_a_wait_that_a_server_names_holds_every_task(status: int) -> None:
    """The tasks and lengths of several waits would be a number by which a server recognises the device."""
    with serving(lambda _: (status, {"Retry-After": "600"})) as (url, requests):
        steps = [["report", "heading", 1], ["report", "delay", 1], ["flush", 1]]
        assert drive(url, *steps)["results"] == [True, True, False]
    assert len(requests) == 1


def test_waits_that_were_written_down_otherwise_are_read(tmp_path: Path) -> None:
    """An earlier version stored a wait per task; a wait from before the clock was set back is over."""
    path = tmp_path / "state.json"
    drive(NOWHERE, ["report", "heading", 1], ["report", "delay", 1], file=str(path))
    state = stored(path)
    state["waits"]["all"] |= {"own": time.time() + 3700, "asked": time.time() + 1e6}
    state["waits"]["tasks"][DELAY.id] = {"failures": 0, "own": 0, "asked": time.time() + 600}
    path.write_text(json.dumps(state), encoding="utf-8")
    with serving() as (url, requests):
        assert drive(url, ["flush", 1], file=str(path))["results"] == [False]
    assert [request.path for request in requests] == [f"/v1/tasks/{HEADING.id}/reports"]


@pytest.mark.parametrize(
    ("status", "headers", "others_go_on", "left"),
    [
        (404, {}, True, 1),  # kept: the server may register the task
        (410, {}, True, 0),
        (422, {}, True, 0),
        pytest.param(401, {}, False, 2, marks=pytest.mark.slow),
        pytest.param(403, {}, False, 2, marks=pytest.mark.slow),
        (503, {"Retry-After": "600"}, False, 2),
        pytest.param(429, {"Retry-After": "999999999"}, False, 2, marks=pytest.mark.slow),
        pytest.param(302, {"Location": "/elsewhere", "Retry-After": "600"}, False, 2, marks=pytest.mark.slow),
        pytest.param(200, {"Retry-After": "600"}, False, 2, marks=pytest.mark.slow),
    ],
)
def test_answers_do_what_the_protocol_says(
    status: int, headers: dict[str, str], others_go_on: bool, left: int
) -> None:
    def answer(request: Request) -> Answer:
        return (status, headers) if HEADING.id in request.path else (204, {})

    with serving(answer) as (url, requests):
        steps = [["report", "heading", 1], ["report", "delay", 1], ["flush", 1 if left else 60], ["counters"]]
        _, _, flushed, counters = drive(url, *steps)["results"]
    assert flushed is (left == 0)
    assert counters["pending"] == left
    assert counters["dropped"] == ({} if left else {str(status): 1})
    assert ({request.path for request in requests} >= {f"/v1/tasks/{DELAY.id}/reports"}) is others_go_on
    assert all(request.path.endswith("/reports") for request in requests)


@pytest.mark.parametrize(("wrap", "left", "dropped"), [("status", 1, {}), ("read", 0, {"410": 1})])
def test_an_odd_fetch_loses_no_report(wrap: str, left: int, dropped: dict[str, int]) -> None:
    """An invalid status is not an answer; a body that was read by then is."""
    with serving(lambda _: (410, {})) as (url, _):
        _, flushed, counters = drive(url, ["report", "heading", 1], ["flush", 1], ["counters"], wrap=wrap)[
            "results"
        ]
    assert flushed is (left == 0)
    assert (counters["pending"], counters["dropped"]) == (left, dropped)


@pytest.mark.slow
def test_waits_that_the_server_asked_for_outlast_the_process(tmp_path: Path) -> None:
    file: dict[str, Any] = {"file": str(tmp_path / "state.json")}
    with serving(lambda _request: (503, {"Retry-After": "600"})) as (url, requests):
        for _ in range(3):
            result = drive(url, ["report", "delay", 1], ["flush", 0.5], **file)
            assert result["results"] == [True, False]
    assert len(requests) == 1


@pytest.mark.slow
def test_batches_that_are_too_old_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    drive(NOWHERE, ["reportAll", "delay", [1, 2]], file=str(path))
    state = stored(path)
    state["open"][0]["created"] -= 7 * 86_400 + 1
    path.write_text(json.dumps(state), encoding="utf-8")
    with serving() as (url, requests):
        flushed, counters = drive(url, ["flush", 5], ["counters"], file=str(path))["results"]
    assert (flushed, counters["dropped"], requests) == (True, {"expired": 2}, [])


@pytest.mark.slow
def test_delayed_reports_wait_and_leave_one_by_one_in_a_random_order() -> None:
    # Of 40 places, the 20 that zeros get are in order once in 10^11 runs.
    values = [0.0] * 20 + [1.0] * 20
    options = {"delay": 1e6, "interval": 0, "batchSize": 1}
    with serving() as (url, _):
        steps = [["reportAll", "plain", values], ["sleep", 0.3], ["pending"], ["flush", 30], ["pending"]]
        result = drive(url, *steps, tasks=(PLAIN,), options=options)
    assert result["results"] == [40, True, 40, True, 0]
    sent = result["sent"][PLAIN.id]
    codes = [code for (code,) in sent]
    assert sorted(codes) == [0] * 20 + [1] * 20 != codes


def test_a_delay_ends_by_itself_and_opting_out_drops_what_is_delayed() -> None:
    with serving() as (url, _):
        options = {"delay": 0.5, "interval": 0}
        steps = [["reportAll", "plain", [0.0] * 5], ["settle", 0], ["counters"]]
        counters = drive(url, *steps, tasks=(PLAIN,), options=options)["results"][2]
        assert (counters["sent"], counters["pending"]) == (5, 0)
        steps = [["reportAll", "plain", [0.0] * 5], ["optOut"], ["flush", 10], ["counters"]]
        result = drive(url, *steps, tasks=(PLAIN,), options={"delay": 1e6})
    assert result["results"][3] == {"pending": 0, "sent": 0, "dropped": {"opted-out": 5}, "refused": {}}
    assert result["sent"] == {}


def test_what_is_delayed_outlives_the_page(tmp_path: Path) -> None:
    state = str(tmp_path / "state.json")
    with serving() as (url, _):
        drive(url, ["reportAll", "plain", [0.0] * 3], tasks=(PLAIN,), options={"delay": 1e6}, file=state)
        assert len(stored(Path(state))["delayed"]) == 3
        result = drive(url, ["pending"], ["flush", 10], tasks=(PLAIN,), options={"delay": 1e6}, file=state)
    assert result["results"] == [3, True]
    assert result["sent"] == {PLAIN.id: [[0, 0, 0]]}


def test_a_client_without_delay_leaves_those_of_another_one_alone(tmp_path: Path) -> None:
    state = str(tmp_path / "state.json")
    drive(NOWHERE, ["reportAll", "plain", [0.0] * 3], tasks=(PLAIN,), options={"delay": 1e6}, file=state)
    with serving() as (url, _):
        steps = [["report", "plain", 0.0], ["settle", 3], ["pending"]]
        result = drive(url, *steps, tasks=(PLAIN,), options={"interval": 0}, file=state)
    assert result["results"][2] == 3
    assert result["sent"] == {PLAIN.id: [[0]]}


@pytest.mark.parametrize("refused", ["capped", "full"])
def test_what_an_earlier_process_left_is_sent_though_reports_are_refused(
    tmp_path: Path, refused: str
) -> None:
    state = str(tmp_path / "state.json")
    drive(NOWHERE, ["reportAll", "heading", [1.0] * 5], file=state)
    options = {"interval": 0} | ({"maxPending": 5} if refused == "full" else {})
    with serving() as (url, _):
        steps = [["report", "heading", 1.0], ["settle", 0], ["counters"]]
        result = drive(url, *steps, options=options, file=state)
    granted, _, counters = result["results"]
    assert granted is False
    assert (counters["pending"], counters["sent"], counters["refused"]) == (0, 5, {refused: 1})


def test_a_batch_is_sent_when_its_interval_is_over() -> None:
    with serving() as (url, requests):
        steps = [["report", "delay", 1], ["sleep", 0.2], ["counters"], ["settle", 0], ["counters"]]
        _, _, before, _, after = drive(url, *steps, options={"interval": 1})["results"]
    assert (before["pending"], after["pending"], len(requests)) == (1, 0, 1)


ROLLS = Task("rolls", Circle(360), 1.0, caps=Caps(rolling=1.0))
IN_THE_CLEAR = ("reports.example", "127.0.0.1.example", "localhost.example", "[::2]")

MADE: list[dict[str, Any]] = [
    {},
    {"tasks": [HEADING, ROLLS], "caps": None},
    *({"url": f"http://{host}:9", "key": KEY} for host in ("localhost", "127.1", "127.255.0.1")),
    *({"url": f"http://{host}:9", "key": KEY} for host in ("[::1]", "[0:0:0:0:0:0:0:1]")),
    *({"url": url, "key": KEY} for url in ("https://reports.example", "HTTPS://127.0.0.2.example")),
    *({"url": f"http://{host}", "key": KEY, "insecure": True} for host in IN_THE_CLEAR),
]
"""Options of clients."""

NO_KEYS = ("", "a b", "SECRET\r\nX: 1", "SECRET\u00e9", "SECRET" * 100, 7, ["SECRET"])
NO_CLIENTS: list[tuple[dict[str, Any], str]] = [
    *(
        ({"tasks": tasks, "caps": None}, r"no cap limits what a device spends on task delay.*cap 2\.5,")
        for tasks in ([DELAY], [HEADING, DELAY])
    ),
    *(
        ({"caps": caps}, 'caps must be "unlimited" or left out')
        for caps in ("unlimted", "", 5.0, {"lifetime": 5.0})
    ),
    *(
        ({"url": f"http://{host}", **key}, "reports would cross the network in the clear")
        for host in IN_THE_CLEAR
        for key in ({}, {"key": KEY})
    ),
    *(
        ({"url": "https://reports.example", "key": key}, "key must be 1 to 512 visible ASCII characters")
        for key in NO_KEYS
    ),
    ({"maxEpsilon": 0.7}, "a report to heading spends epsilon = 1, above 0.7"),
    ({"tasks": []}, "tasks must hold at least one Task"),
    ({"tasks": [HEADING] * 2}, "tasks must have different names"),
    ({"interval": -1}, "interval must be a number of at least 0"),
    ({"delay": -1}, "delay must be a number of at least 0"),
    ({"interval": "30"}, "interval must be a number of at least 0"),
    ({"delay": None}, "delay must be a number of at least 0"),
    ({"maxAgeDays": 0}, "maxAgeDays must be a number above 0"),
    ({"requestTimeout": 0}, "requestTimeout must be a number above 0"),
    ({"batchSize": 2.5}, "batchSize must be from 1 to 500000"),
    ({"onEvent": 5}, "onEvent must be a function"),
    ({"batchSize": "many"}, "batchSize must be a number"),
    ({"batchSize": 500_001}, "batchSize must be from 1 to 500000"),
    ({"url": "ftp://127.0.0.1"}, "server must be a base URL"),
    ({"url": "http://user@127.0.0.1"}, "server must be a base URL"),
    ({"url": "http://:password@127.0.0.1"}, "server must be a base URL"),
    ({"url": "http://127.0.0.1/?"}, "server must be a base URL"),
    ({"url": "http://127.0.0.1#"}, "server must be a base URL"),
]


def test_what_makes_no_client_is_refused() -> None:
    """The error does not repeat a key."""

    def written(url: str = NOWHERE, tasks: Any = (HEADING, DELAY), **options: Any) -> dict[str, Any]:
        options = {"caps": "unlimited", **options}
        if options["caps"] is None:
            del options["caps"]
        return {"url": url, "tasks": [task.to_json() for task in tasks], "options": options}

    given = [written(**each) for each in (*MADE, *(each for each, _ in NO_CLIENTS))]
    told = nodejs.ask("made", given)
    assert told[: len(MADE)] == [""] * len(MADE)
    for (options, message), error in zip(NO_CLIENTS, told[len(MADE) :], strict=True):
        assert re.search(message, error), options
        assert "SECRET" not in error


@pytest.mark.parametrize("status", [204, 503, 404, 410])
def test_a_wait_that_a_server_names_does_not_name_the_device(status: int) -> None:
    """The server names a different wait to each device, in equal steps; the waits identify none of them."""
    told = [60 + 10 * place for place in range(1, 301)]
    waited = nodejs.ask("told", {"status": status, "told": told})
    assert all(3600 <= wait <= 7201 for wait in waited)
    # Of 300 in a random order, 11 or more are at their place once in 10^8 runs.
    order = sorted(range(300), key=waited.__getitem__)
    assert sum(place == device for place, device in enumerate(order)) <= 10


def test_a_file_with_anything_in_any_place_is_a_task_error() -> None:
    """Null, lists, strings, numbers and objects in the place of each part of a file."""
    odd: list[Any] = [None, [], [None], "", "x", 1.5, -1, True, {}]

    def spoiled(part: Any) -> Iterator[Any]:
        yield from odd
        if isinstance(part, dict):
            for key, inner in part.items():
                yield from ({**part, key: other} for other in spoiled(inner))
                yield {other: value for other, value in part.items() if other != key}

    tasks = [HEADING, SCORE, Task("table", Circle(2), 1.0, epoch_seconds=3600, lateness_seconds=60)]
    files = [file for task in tasks for file in spoiled(task.to_json())]
    thrown = nodejs.ask("fuzz", files)
    assert len(thrown) > 500
    assert set(thrown) <= {"", "TaskError", "CertificateError"}, [
        (file, name) for file, name in zip(files, thrown, strict=True) if "T" not in name and name
    ]


def test_clients_of_one_ledger_send_their_own_tasks() -> None:
    one, other = (Task(name, Circle(360), 1.0) for name in ("one", "other"))
    found = run_json(DRIVE.with_name("shared.mjs"), given=[one.to_json(), other.to_json()])
    to_here, to_there = f"https://here.example {one.id}", f"https://there.example {other.id}"
    assert found["servedFirst"] == [True, 0, [to_there], 1]
    assert found["here"] == [to_here]
    assert found["around"] == []
    assert found["moved"] == [f"https://moved.example {one.id}"]
    assert found["updated"] == [to_here]  # by a version of the app without the task
    assert 0 < found["left"] <= 120


# --- names ------------------------------------------------------------------------------------------------

ONLY_IN_JAVASCRIPT = {"fetch", "IndexedDBLedger", "read_state", "write_state"}
ONLY_IN_JAVASCRIPT |= {"bytes", "kernel", "placement", "micro_epsilon"}
"""Transports, a ledger of browsers, names for others; Python has them in `mechanism` and `charge`."""


def snake(name: str) -> str:
    return name if name[0].isupper() else re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)


def names() -> dict[str, set[str]]:
    found = nodejs.ask("names", HEADING.to_json())
    return {kind: {snake(name) for name in given} - ONLY_IN_JAVASCRIPT for kind, given in found.items()}


def test_names_are_those_of_python() -> None:
    found = names()
    client = arcwise.client.Client
    assert found["exports"] <= {*arcwise.client.__all__, *errors.__all__}
    public = {name for name in dir(client) if not name.startswith("_")}
    assert found["methods"] == public
    options = {*inspect.signature(client).parameters, *UplinkOptions.__annotations__} - {"server", "options"}
    options |= set(UplinkOptions.__mro__[0].__annotations__)
    assert found["options"] <= options
    assert found["counters"] == set(arcwise.client.Counters._fields)
    without_delta = {name for name in arcwise.client.accounts.Budget._fields if "delta" not in name}
    assert found["budget"] == without_delta
    assert found["task"] <= {name for name in dir(Task) if not name.startswith("_")}


def test_the_page_says_which_names_are_missing() -> None:
    """The last row of the table in the README covers all options that are not here."""
    found = names()
    options = {*inspect.signature(arcwise.client.Client).parameters, *UplinkOptions.__annotations__}
    missing = options - found["options"] - {"server", "options"}
    text = (JAVASCRIPT / "README.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| (.*) \| \| not here \|$", text, re.MULTILINE)
    stated = {name.strip("`") for name in row.split(", ")}
    assert missing <= stated
    assert stated - missing == {"groups"}


def test_the_version_is_that_of_the_package() -> None:
    package = json.loads((JAVASCRIPT / "package.json").read_text(encoding="utf-8"))
    assert package["version"] == __version__
    assert f'"arcwise-js/{__version__}"' in (JAVASCRIPT / "arcwise" / "transport.js").read_text(
        encoding="utf-8"
    )
