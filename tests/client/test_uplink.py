"""The uplink with its thread: what it sends when, how answers change the queue, and how it ends."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from arcwise.client import Counters, Environment, HttpxTransport, Uplink
from arcwise.client.memory import MemoryOutbox
from arcwise.errors import ParameterError
from arcwise.wire import MEDIA_TYPE
from tests.support.waiting import Started, wait_until

if TYPE_CHECKING:
    from arcwise.tasks import Task
    from tests.support.recorder import Recorder
    from tests.support.twins import Twin

URL = "http://127.0.0.1:1"

pytestmark = pytest.mark.usefixtures("quick")


def put(uplink: Uplink, task: Task, epoch: int, code: int) -> None:
    """Queue a code as a client does."""
    uplink._start()
    assert isinstance(uplink._outbox, MemoryOutbox)
    if uplink._outbox.put(task, epoch, code):
        uplink._wake()


def fill(uplink: Uplink, task: Task, count: int, epoch: int = 0) -> None:
    for code in range(count):
        put(uplink, task, epoch, code % 100)


def test_a_request(recorder: Recorder, heading: Task) -> None:
    with Uplink("https://reports.example/base/", transport=recorder, request_timeout=3) as uplink:
        fill(uplink, heading, 3, epoch=20_000)
        assert uplink.flush(60)
    (post,) = recorder.posts
    assert post.url == f"https://reports.example/base/v1/tasks/{heading.id}/reports"
    assert set(post.headers) == {"Content-Type", "User-Agent"}
    assert post.headers["Content-Type"] == MEDIA_TYPE
    assert post.timeout == 3.0
    assert post.batch.task_id.hex() == heading.id
    assert (post.batch.epoch, post.batch.codes) == (20_000, b"\0\1\2")


def test_a_full_batch_goes_at_once_and_the_rest_after_the_interval(
    twin: Twin, recorder: Recorder, heading: Task
) -> None:
    def report(uplink: Any, count: int) -> None:
        client = twin.client(uplink, tasks=[heading])
        assert all(client.report("heading", n) for n in range(count))

    transport = twin.transport(recorder)
    with twin.uplink(URL, transport=transport, batch_size=5, interval=3600) as uplink:
        report(uplink, 7)
        twin.until(lambda: len(recorder.posts) == 1)
        assert uplink.pending >= 2
    with twin.uplink(URL, transport=transport, batch_size=5, interval=0.1) as uplink:
        begun = time.monotonic()
        report(uplink, 3)
        twin.until(lambda: len(recorder.posts) == 3)
        assert time.monotonic() - begun >= 0.1
    assert [len(post.batch.codes) for post in recorder.posts] == [5, 2, 3]


def test_no_thread_before_the_first_report(recorder: Recorder) -> None:
    before = set(threading.enumerate())
    with Uplink(URL, transport=recorder) as uplink:
        assert uplink.flush(0)
        assert set(threading.enumerate()) <= before
        uplink._start()
        assert len(set(threading.enumerate()) - before) == 1
    assert set(threading.enumerate()) <= before
    assert recorder.closed == 1


@pytest.mark.parametrize(
    "trouble", [503, 500, 429, 408, 404, 200, 202, 302, OSError("down"), ValueError("a bug")]
)
def test_trouble_sends_the_same_bytes_again(
    twin: Twin, recorder: Recorder, heading: Task, trouble: int | Exception
) -> None:
    recorder.script.extend([trouble, trouble])
    with twin.client(URL, tasks=[heading], transport=twin.transport(recorder)) as client:
        assert all(client.report("heading", n) for n in range(4))
        assert client.flush(60)
        assert client.counters == Counters(sent=4)
    assert len(recorder.posts) == 3
    assert len({post.body for post in recorder.posts}) == 1


def test_reports_during_trouble_gather_in_one_batch(recorder: Recorder, heading: Task) -> None:
    recorder.script.append((503, "3600"))
    with Uplink(URL, transport=recorder, interval=0) as uplink:
        fill(uplink, heading, 1)
        wait_until(lambda: len(recorder.posts) == 1)
        fill(uplink, heading, 50)
        assert not uplink.flush(0.05)  # not even a flush overrides the wait that the server asked for
        assert uplink.pending == 51
        uplink.close(0)
    assert len(recorder.posts) == 1


def test_a_flush_does_not_wait_for_our_own_backoff(
    recorder: Recorder, heading: Task, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("arcwise.client.delivery.backoff_seconds", lambda *_: 3600.0)
    recorder.script.append(503)
    with Uplink(URL, transport=recorder, interval=0) as uplink:
        fill(uplink, heading, 1)
        wait_until(lambda: "status 503" in caplog.text)  # logged once the wait has begun
        assert uplink.flush(60)


def test_an_unknown_task_is_kept_while_others_pass(recorder: Recorder, heading: Task, delay: Task) -> None:
    recorder.by_task[heading.id] = 404
    with Uplink(URL, transport=recorder) as uplink:
        fill(uplink, heading, 2)
        fill(uplink, delay, 3)
        assert not uplink.flush(0.05)
        wait_until(lambda: uplink.counters == Counters(pending=2, sent=3))
        recorder.by_task[heading.id] = 204
        assert uplink.flush(60)
        assert uplink.counters == Counters(sent=5)
    assert len({post.body for post in recorder.posts}) == 2


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_pauses_until_a_flush(
    recorder: Recorder, heading: Task, delay: Task, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    recorder.script.append(status)
    with Uplink(URL, transport=recorder, interval=0) as uplink:
        fill(uplink, heading, 1)
        wait_until(lambda: f"status {status}" in caplog.text)  # logged once the pause has begun
        fill(uplink, delay, 1)
        time.sleep(0.05)
        assert len(recorder.posts) == 1
        assert uplink.pending == 2
        assert uplink.flush(60)


def test_old_reports_expire(recorder: Recorder, heading: Task) -> None:
    recorder.script.extend([503] * 10_000)
    with Uplink(URL, transport=recorder, max_age_days=0.05 / 86_400) as uplink:
        fill(uplink, heading, 2)
        assert Started(lambda: uplink.flush(3600)).result()  # a permanent drop also ends the flush
        assert uplink.counters == Counters(dropped={"expired": 2})


@pytest.mark.slow
def test_timeouts_hold_against_a_server_that_never_answers(heading: Task) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        transport = HttpxTransport(trust_env=False)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        uplink = Uplink(url, transport=transport, request_timeout=2)
        fill(uplink, heading, 1)
        assert not uplink.flush(0.05)
        assert not uplink.close(0.05)
        # Nobody waited for the thread: it exits by itself when its request times out. A thread whose start a
        # signal test has interrupted stays listed for ever, and is never alive.
        named = [thread for thread in threading.enumerate() if thread.name == "arcwise-uplink"]
        threads = [thread for thread in named if thread.is_alive()]
        assert len(threads) == 1
        threads[0].join(60)
        assert not threads[0].is_alive()


def test_flush_waits_for_a_request_under_way(recorder: Recorder, heading: Task) -> None:
    recorder.go.clear()
    with Uplink(URL, transport=recorder, interval=0) as uplink:
        fill(uplink, heading, 1)
        assert recorder.busy.wait(60)
        threading.Timer(0.05, recorder.go.set).start()
        assert uplink.flush(60)
        assert uplink.pending == 0


def test_flush_does_not_wait_for_what_comes_later(recorder: Recorder, heading: Task, delay: Task) -> None:
    recorder.go.clear()
    with Uplink(URL, transport=recorder, interval=60) as uplink:
        fill(uplink, heading, 1)
        flush = Started(lambda: uplink.flush(60))
        assert recorder.busy.wait(60)
        fill(uplink, delay, 1)
        recorder.go.set()
        assert flush.result()
        assert uplink.pending == 1


def test_a_request_that_hangs(twin: Twin, recorder: Recorder, heading: Task) -> None:
    """A flush and a close keep their timeouts; batches left by a close are dropped."""
    recorder.go.clear()
    transport = twin.transport(recorder)
    uplink = twin.uplink(URL, transport=transport)
    client = twin.client(uplink, tasks=[heading])
    assert all(client.report("heading", n) for n in range(3))
    assert not client.flush(0.05)
    assert client.close()  # a shared uplink is left alone
    assert client.pending == uplink.pending == 3
    assert not uplink.close(0.05)
    assert not recorder.posts  # the request was not waited for
    assert uplink.counters == Counters(dropped={"closed": 3})
    if twin.kind == "async":
        assert transport.cancelled == recorder.closed == 1
    recorder.go.set()
    twin.until(lambda: recorder.closed == 1)
    assert uplink.counters == Counters(dropped={"closed": 3})
    assert not uplink.close()  # a second close does nothing and returns the same


def test_a_start_that_is_interrupted_leaves_one_thread(
    recorder: Recorder, heading: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    uplink = Uplink(URL, transport=recorder)
    before = set(threading.enumerate())
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            uplink._start()
    fill(uplink, heading, 1)
    assert len(set(threading.enumerate()) - before) == 1
    assert uplink.close(60)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_flush_starts_another_thread_after_one_that_was_ended(recorder: Recorder, heading: Task) -> None:
    """The thread ended with an exception that is not an `Exception`, raised by a transport."""

    class Ending:
        def __init__(self) -> None:
            self.posts = 0

        def post(self, *request: Any) -> tuple[int, str | None]:
            self.posts += 1
            if self.posts == 1:
                raise SystemExit
            return recorder.post(*request)

        def close(self) -> None:
            pass

    uplink = Uplink(URL, transport=Ending())
    fill(uplink, heading, 1)
    assert not uplink.flush(0)
    thread = uplink._thread
    assert thread is not None
    thread.join(60)
    assert uplink.flush(60)
    assert uplink.close()


@pytest.mark.parametrize("end", ["flush", "close"])
def test_an_app_may_flush_and_close_when_it_hears_of_an_event(
    recorder: Recorder, heading: Task, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Events arrive in the sender's own thread, which cannot wait for itself."""
    ended: list[bool] = []
    recorder.script.append(410)
    uplink = Uplink(
        URL, transport=recorder, interval=0, on_event=lambda _: ended.append(getattr(uplink, end)())
    )
    fill(uplink, heading, 1)
    thread = uplink._thread
    assert thread is not None
    wait_until(lambda: bool(ended))
    assert ended[0]
    assert uplink.close()
    thread.join(60)
    assert not thread.is_alive()
    assert "RuntimeError" not in caplog.text


def test_a_closed_uplink_takes_no_reports(recorder: Recorder) -> None:
    uplink = Uplink(URL, transport=recorder)
    assert uplink.close()
    assert recorder.closed == 1
    with pytest.raises(RuntimeError, match="closed"):
        uplink._start()


def test_one_bad_batch_does_not_block_the_others(recorder: Recorder, heading: Task, delay: Task) -> None:
    recorder.by_task[heading.id] = 500
    with Uplink(URL, transport=recorder) as uplink:
        fill(uplink, heading, 1)
        fill(uplink, delay, 1)
        assert not uplink.flush(0.2)
        wait_until(lambda: uplink.counters == Counters(pending=1, sent=1))
        uplink.close(0)


def test_nothing_left_at_the_close_includes_what_came_during_its_flush(
    recorder: Recorder, heading: Task, delay: Task
) -> None:
    recorder.go.clear()
    uplink = Uplink(URL, transport=recorder, interval=60)
    fill(uplink, heading, 1)
    close = Started(lambda: uplink.close(5))
    assert recorder.busy.wait(60)
    fill(uplink, delay, 1)
    recorder.go.set()
    assert not close.result()
    assert uplink.counters == Counters(sent=1, dropped={"closed": 1})


class NoRandomnessAtFirst(Environment):
    """A machine that has no random bytes for the id of the first batch."""

    failures = 1

    def random_bytes(self, count: int) -> bytes:
        if self.failures:
            self.failures -= 1
            raise OSError("no random bytes")
        return super().random_bytes(count)


def test_a_batch_that_cannot_be_sealed_stays_in_the_queue(
    recorder: Recorder, heading: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arcwise.client.uplink.TROUBLE_SECONDS", 0.01)
    environment = NoRandomnessAtFirst()
    with Uplink(URL, transport=recorder, environment=environment) as uplink:
        put(uplink, heading, 0, 7)
        assert uplink.flush(timeout=30)
        assert environment.failures == 0
        assert (uplink.pending, uplink.counters.sent) == (0, 1)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://a.example", "http:// or https://"),
        ("a.example", "http:// or https://"),
        ("http://", "name a host"),
        ("", "http:// or https://"),
        ("http://a.example:port", "not a URL"),
        ("http://a.example?x=1", "without user, query or fragment"),
        ("http://a.example/?", "without user, query or fragment"),
        ("http://a.example#", "without user, query or fragment"),
        (" https://a.example", "begin or end with blanks"),
        ("https://a.example\n", "begin or end with blanks"),
        ("https://a.example\r\n.other", "control characters"),
        ("https://local\thost", "control characters"),
        ("http://u:p@a.example", "without user"),
        (7, "must be a string"),
    ],
)
def test_bad_urls(url: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Uplink(url)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("batch_size", 0),
        ("batch_size", 500_001),
        ("batch_size", 1.5),
        ("max_pending", 0),
        ("interval", -1),
        ("interval", float("nan")),
        ("max_age_days", 0),
        ("request_timeout", 0),
        ("request_timeout", "1"),
        ("interval", 10**400),
    ],
)
def test_bad_options(option: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=f"{option} must be .* got {value!r}"):
        Uplink(URL, **{option: value})


BAD_TIMEOUTS = [None, "x", float("nan"), float("inf"), -1, True, 10**400]


@pytest.mark.parametrize("timeout", BAD_TIMEOUTS, ids=range(len(BAD_TIMEOUTS)))
def test_bad_timeouts(twin: Twin, heading: Task, timeout: Any) -> None:
    with twin.uplink(URL) as uplink, twin.client(URL, tasks=[heading]) as client:
        sharing = twin.client(uplink, tasks=[heading])
        for method in (uplink.flush, uplink.close, client.flush, client.close, sharing.close):
            with pytest.raises(ParameterError, match=r"timeout must be .* got "):
                method(timeout)
        uplink._start()  # not closed
