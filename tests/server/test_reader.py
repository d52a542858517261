"""`Reader`: the same objects from a server as from counts, and errors in the server's words."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from arcwise.analysis import Reader, compare_samples, estimate, series
from arcwise.analysis.estimators.estimation import empty_estimate
from arcwise.domains import Circle, Interval
from arcwise.errors import AnswerError, ArcwiseError, ParameterError
from arcwise.tasks import Task
from arcwise.wire import MEDIA_TYPE, Batch, encode_batch
from tests.support import scripted
from tests.support.apps import add_key
from tests.support.server_processes import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HEADING = Task("heading/true", Circle(360), 2.0, unit="°")
KEY = f"arcwise_read_{'5ec2e7' * 2}_{'5ec2' * 16}"
DELAY = Task("delay", Interval(0, 180), 2.0, unit="min")
CODES = list(range(100)) * 3


@pytest.mark.slow
def test_what_a_server_has_is_what_its_counts_give(tmp_path: Path) -> None:
    for number, task in enumerate((HEADING, DELAY)):
        task.save(tmp_path / f"{number}.json")
    keys = {scope: add_key(f"sqlite:///{tmp_path / 'server.db'}", scope) for scope in ("ingest", "read")}
    today = HEADING.epoch(time.time())
    counts = {task: task.count([c % task.mechanism.kernel.codes for c in CODES]) for task in (HEADING, DELAY)}
    with serving(tmp_path) as (url, _), Reader(url, keys["read"]) as reader:
        for task, epoch in ((HEADING, today), (HEADING, today - 3), (DELAY, today)):
            codes = bytes(code % task.mechanism.kernel.codes for code in CODES)
            body = encode_batch(Batch(bytes.fromhex(task.id), os.urandom(16), epoch, codes))
            headers = {"content-type": MEDIA_TYPE, "authorization": f"Bearer {keys['ingest']}"}
            sent = httpx.post(f"{url}/v1/tasks/{task.id}/reports", content=body, headers=headers)
            assert sent.status_code == 204
        assert set(reader.tasks()) == {HEADING, DELAY}
        assert reader.task("heading/true") == reader.task(HEADING) == reader.task(HEADING.id) == HEADING
        for asked in (DELAY, DELAY.id, "delay"):
            assert reader.estimate(asked) == estimate(DELAY, counts[DELAY])
        options: dict[str, Any] = {
            "between": [(350, 10), (0, 0.1)],
            "bands": True,
            "origin": 0.1,
            "level": 0.9,
            "quantiles": (0.9, 0.333333),
        }
        both = 2 * counts[HEADING]
        assert reader.estimate(HEADING, **options) == estimate(HEADING, both, epochs=4, **options)
        repeated: dict[str, Any] = {"reports_per_device": 2.5, "memoised": True}
        for said in (repeated, {"reports_per_device": 1.0}):
            assert reader.estimate(HEADING, **said) == estimate(HEADING, both, **said)
        start = datetime.fromtimestamp(today * 86_400, timezone.utc)
        for time_ in (today, start, start.date(), start.isoformat(), start.replace(tzinfo=None)):
            assert reader.estimate(HEADING, start=time_) == estimate(HEADING, counts[HEADING])
        tokyo = start.astimezone(timezone(timedelta(hours=9)))
        none = reader.estimate(HEADING, start=tokyo + timedelta(microseconds=1), target="users")
        assert none == empty_estimate(HEADING, target="users")
        by_epoch = dict.fromkeys((today, today - 3), counts[HEADING])
        for every in ("day", 7, "month"):
            asked_for = reader.series(HEADING, every=every, simultaneous=True)
            size: Any = 1 if every == "day" else every
            assert asked_for == series(HEADING, by_epoch, every=size, simultaneous=True)
        difference = reader.difference(
            "heading/true", start=today, other_end=date.fromordinal(start.toordinal())
        )
        assert difference == compare_samples(HEADING, counts[HEADING], counts[HEADING])
        with pytest.raises(AnswerError, match="against must be a task on the same domain") as caught:
            reader.difference(HEADING, "delay")
        assert (caught.value.status, caught.value.kind) == (422, "invalid-request")
        with pytest.raises(AnswerError, match="does not have this task"):
            reader.estimate("no such task")
        assert reader.document(DELAY, "plan", [("half_width", "2")])["n"] == 300
        with Reader(url) as nobody, pytest.raises(AnswerError, match="requires a key") as caught:
            nobody.tasks()
        assert (caught.value.status, caught.value.kind) == (401, "key-missing")


Answer = httpx.Response


@pytest.fixture
def reader_of() -> Iterator[Callable[..., Reader]]:
    clients = []

    def make(answer: Callable[[httpx.Request], Answer], **options: Any) -> Reader:
        clients.append(httpx.Client(transport=httpx.MockTransport(answer)))
        return Reader("https://reports.example/base/", client=clients[-1], **options)

    yield make
    for client in clients:
        client.close()


def test_of_a_given_client_the_connections_alone_take_part() -> None:
    """The given client would replace the key by its own authentication, and keep the server's cookies."""
    seen: list[httpx.Request] = []
    hooked: list[object] = []

    def answer(request: httpx.Request) -> Answer:
        seen.append(request)
        return Answer(200, json={"tasks": []}, headers={"Set-Cookie": "server=1"})

    with httpx.Client(
        transport=httpx.MockTransport(answer),
        auth=("app", "SECRET"),
        cookies={"app": "1"},
        headers={"X-App": "1", "User-Agent": "app"},
        params={"app": "1"},
        base_url="http://app.example",
        event_hooks={"request": [hooked.append], "response": [hooked.append]},
    ) as client:
        with Reader("https://reports.example", KEY, client=client) as reader:
            assert reader.tasks() == reader.tasks() == []
        assert dict(client.cookies) == {"app": "1"}
    assert hooked == []
    for request in seen:
        assert str(request.url) == "https://reports.example/v1/tasks"
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert request.headers["user-agent"].startswith("arcwise/")
        assert not {"cookie", "x-app"} & set(request.headers)
    with pytest.raises(RuntimeError, match="is closed"):
        reader.tasks()


def test_a_key_for_this_machine_leaves_it_by_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    here = "http://127.0.0.1:9"
    with httpx.Client(proxy="http://proxy.example:3128") as proxied:
        with pytest.raises(ParameterError, match="would leave this machine unencrypted by the proxy of"):
            Reader(here, KEY, client=proxied)
        for url, key, insecure in (
            (here, None, False),
            (here, KEY, True),
            ("https://127.0.0.1", KEY, False),
        ):
            Reader(url, key, insecure=insecure, client=proxied)
    with (
        scripted.serving(lambda _: (404, {})) as (proxy, seen),
        scripted.serving(lambda _: (404, {})) as (
            url,
            arrived,
        ),
    ):
        monkeypatch.setenv("HTTP_PROXY", proxy)
        monkeypatch.delenv("NO_PROXY", raising=False)
        with Reader(url, KEY) as reader, pytest.raises(AnswerError):
            reader.tasks()
    assert (len(seen), len(arrived)) == (0, 1)


@pytest.mark.parametrize("client", [httpx, "client", httpx.AsyncClient()])
def test_what_is_no_client_is_refused(client: Any) -> None:
    with pytest.raises(ParameterError, match=r"client must be None or an httpx\.Client, got"):
        Reader("https://reports.example", client=client)


def test_what_is_asked_again_is_only_compared(reader_of: Callable[..., Reader]) -> None:
    shown, asked = ['"1"'], []
    document = empty_estimate(DELAY).to_dict()

    def answer(request: httpx.Request) -> Answer:
        asked.append((request.url.raw_path.decode(), request.headers.get("if-none-match")))
        if request.headers.get("if-none-match") == shown[0]:
            return Answer(304)
        return Answer(200, json=document, headers={"etag": shown[0]})

    reader = reader_of(answer, key=KEY)
    for _ in range(2):
        assert reader.estimate("delay").n == 0
    shown[0] = '"2"'
    reader.estimate("delay")
    reader.estimate("delay", level=0.9, between=[(0.1, 2)])
    url = "/base/v1/tasks/delay/estimate"
    assert asked[:3] == [(url, None), (url, '"1"'), (url, '"1"')]
    assert asked[3] == (f"{url}?share=0.1%3A2.0&level=0.9", None)
    for number in range(100):
        reader.estimate(f"delay{number}")
    assert len(reader._kept) == 64


@pytest.mark.parametrize(
    ("name", "path"),
    [("a/b", "a%2Fb"), ("..", "%2E%2E"), ("100%", "100%25"), ("ü?#", "%C3%BC%3F%23"), (".", "%2E")],
)
def test_a_name_is_one_segment(reader_of: Callable[..., Reader], name: str, path: str) -> None:
    asked = []

    def answer(request: httpx.Request) -> Answer:
        asked.append(request.url.raw_path.decode())
        return Answer(200, json=empty_estimate(DELAY).to_dict())

    reader_of(answer).estimate(name)
    assert asked == [f"/base/v1/tasks/{path}/estimate"]


PROBLEM = {"type": "urn:arcwise:problem:estimates-busy", "detail": "Too many estimates."}


@pytest.mark.parametrize(
    ("answer", "words", "status"),
    [
        (Answer(503, json=PROBLEM, headers={"content-type": "application/problem+json"}), "Too many", 503),
        (Answer(502, text="<html>Bad Gateway" + "x" * 9000), "HTTP 502 Bad Gateway: <html>Bad Gateway", 502),
        (Answer(302, headers={"location": "https://elsewhere.example/"}), "HTTP 302 Found", 302),
        (Answer(304), "HTTP 304 Not Modified", 304),
        (Answer(200, text="<html>Log in"), "not a JSON object", 200),
        (Answer(200, json=[1]), "not a JSON object", 200),
        (Answer(200, json={"tasks": 3}), "it has no tasks", 200),
        (Answer(200, json={"tasks": [{}]}), "not a task", 200),
        (Answer(403, text="[]", headers={"content-type": "application/problem+json"}), "not a JSON", 200),
    ],
)
def test_what_is_not_an_answer_is_an_error(
    reader_of: Callable[..., Reader], answer: Answer, words: str, status: int
) -> None:
    with pytest.raises(AnswerError, match=words) as caught:
        reader_of(lambda _: answer).tasks()
    assert caught.value.status == status
    assert len(str(caught.value)) < 500
    assert isinstance(caught.value, ArcwiseError)


def test_another_task_than_the_one_that_was_asked_for_is_an_error(reader_of: Callable[..., Reader]) -> None:
    reader = reader_of(lambda _: Answer(200, json=DELAY.to_json()))
    assert reader.task("delay") == DELAY
    with pytest.raises(AnswerError, match="another task"):
        reader.task(HEADING)


def test_no_answer_is_an_error_that_names_the_server(reader_of: Callable[..., Reader]) -> None:
    def fails(request: httpx.Request) -> Answer:
        raise httpx.ConnectTimeout("", request=request)

    with pytest.raises(AnswerError, match=r"no answer from https://reports\.example/base: ConnectTimeout"):
        reader_of(fails).estimate("delay")


def test_a_key_is_sent_to_this_machine_or_encrypted(reader_of: Callable[..., Reader]) -> None:
    sent = []

    def answer(request: httpx.Request) -> Answer:
        sent.append(request.headers.get("authorization"))
        return Answer(200, json={"tasks": []})

    assert reader_of(answer, key=KEY).tasks() == reader_of(answer).tasks() == []
    assert sent == [f"Bearer {KEY}", None]
    for url in ("http://127.0.0.1:8000", "http://localhost", "http://[::1]:8000", "https://reports.example"):
        Reader(url, KEY).close()
    Reader("http://reports.example", KEY, insecure=True).close()
    for url in ("http://reports.example", "http://127.0.0.1.example", "http://localhost@elsewhere.example"):
        with pytest.raises(ParameterError) as caught:
            Reader(url, KEY)
        assert "5ec2e7" not in str(caught.value)
    for wrong in ({"key": "a\nb"}, {"timeout": 0}, {"timeout": float("nan")}, {"insecure": 1}):
        with pytest.raises(ParameterError):
            Reader("https://reports.example", **wrong)
    with pytest.raises(ParameterError, match="task must be a Task, an id or a name"):
        Reader("https://reports.example").estimate("")


def test_httpx_is_imported_with_the_first_request() -> None:
    code = (
        f"import sys; from arcwise.analysis import Reader; Reader('https://a.example', {KEY!r});"
        "print('httpx' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"
