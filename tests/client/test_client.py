from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from arcwise import client
from arcwise.client import AsyncUplink, Counters, MemoryLedger, Outcome, Uplink
from arcwise.domains import Circle, Domain, Interval
from arcwise.errors import CertificateError, DomainError, ParameterError, UnknownTaskError
from arcwise.kernels.certificate import UNIT
from arcwise.randomness import SYSTEM, InsecureSeededRandomness
from arcwise.tasks import Caps, Group, Task
from tests.support.ledgers import ledger_opener
from tests.support.unlimited import Client
from tests.support.waiting import in_threads

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from typing_extensions import Self

    from arcwise.client import Ledger
    from tests.support.recorder import Recorder
    from tests.support.twins import Twin

URL = "http://127.0.0.1:1"


def test_reports_arrive_as_the_mechanisms_codes(recorder: Recorder, heading: Task) -> None:
    values = [10.0 * n for n in range(36)]
    with Client(URL, tasks=[heading], randomness=InsecureSeededRandomness(7), transport=recorder) as client:
        assert all(client.report("heading", value) for value in values)
    twin = InsecureSeededRandomness(7)
    expected = [heading.mechanism.randomize(value, randomness=twin) for value in values]
    (post,) = recorder.posts
    assert list(post.batch.codes) == sorted(expected)
    assert abs(post.batch.epoch - heading.epoch(time.time())) <= 1


def test_caps_stop_reports_and_the_budget_says_so(
    twin: Twin, recorder: Recorder, heading: Task, delay: Task
) -> None:
    options = {"ledger": MemoryLedger(), "transport": twin.transport(recorder)}
    with twin.client(URL, tasks=[heading, delay], **options) as client:
        outcomes = [client.report("delay", 5) for _ in range(5)]
        assert outcomes == [Outcome.ACCEPTED] * 3 + [Outcome.CAPPED] * 2
        assert [bool(outcome) for outcome in outcomes] == [True, True, True, False, False]
        with pytest.raises(DomainError):
            client.report("delay", 1e9)
        with pytest.raises(UnknownTaskError) as caught:
            client.report("speed", 1.0)
        assert str(caught.value) == "no task 'speed'; this client has 'heading', 'delay'"
        with pytest.raises(UnknownTaskError, match="'delay'"):
            client.budget("speed")
        assert client.budget("delay").epsilon == 6.0
        assert client.budget("heading").epsilon == 0.0
        assert client.budget().epsilon == 6.0
        assert client.pending == 3
        assert client.flush(60)
        assert client.counters == Counters(sent=3, refused={"capped": 2})
        assert client.report("heading", 5)
    with pytest.raises(RuntimeError, match="closed"):  # closing the client closes the uplink that it made
        client.report("heading", 5)
    assert client.budget("heading").epsilon == 1.0
    assert client.close()
    assert recorder.codes == 4
    assert recorder.closed == 1


@pytest.mark.parametrize("value", [181, -60.1, float("nan"), float("inf"), "5", None, True, 10**400])
def test_a_value_that_fails_costs_nothing(recorder: Recorder, delay: Task, value: Any) -> None:
    with Client(URL, tasks=[delay], ledger=MemoryLedger(), transport=recorder) as client:
        with pytest.raises(DomainError):
            client.report("delay", value)
        assert client.budget("delay").epsilon == 0.0
        assert client.pending == 0


@pytest.mark.parametrize("domain", [Interval(0, 10, step=0.5), Circle(10, step=0.5)], ids=str)
def test_a_value_between_two_steps_costs_nothing(recorder: Recorder, domain: Domain) -> None:
    task = Task("score", domain, 1.0)
    with Client(URL, tasks=[task], ledger=MemoryLedger(), transport=recorder) as client:
        with pytest.raises(DomainError, match=r"in steps of 0\.5: it is between two steps"):
            client.report("score", 2.6)
        assert (client.budget("score").epsilon, client.pending) == (0.0, 0)
        assert client.report("score", 2.5)


def test_a_full_queue_costs_nothing(recorder: Recorder, heading: Task, delay: Task) -> None:
    with Uplink(URL, transport=recorder, max_pending=5) as uplink:
        client = Client(uplink, tasks=[heading, delay], ledger=MemoryLedger())
        assert [client.report("delay", 5) for _ in range(4)] == [Outcome.ACCEPTED] * 3 + [Outcome.CAPPED]
        assert client.counters == Counters(pending=3, refused={"capped": 1})
        assert [client.report("heading", 1) for _ in range(4)] == [Outcome.ACCEPTED] * 2 + [Outcome.FULL] * 2
        assert client.budget("heading").epsilon == 2.0
        assert uplink.counters == Counters(pending=5, refused={"capped": 1, "full": 2})
        assert client.flush(60)
        assert client.report("heading", 1)


def test_charged_before_it_is_randomised_and_queued(
    recorder: Recorder, heading: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If anything fails after the charge, no uncharged report leaves the device and no charge is refunded."""

    def broken(*_: object) -> int:
        assert ledger._contents is not None  # the ledger itself is busy with this report
        assert ledger._contents.accounts[heading.id].balance.epsilon == 1_000_000
        raise MemoryError

    ledger = MemoryLedger()
    with Client(URL, tasks=[heading], ledger=ledger, transport=recorder) as client:
        monkeypatch.setattr(type(heading.mechanism.kernel), "sample", broken)
        with pytest.raises(MemoryError):
            client.report("heading", 1.0)
        assert client.budget("heading").epsilon == 1.0
        assert client.pending == 0


def test_network_trouble_is_not_raised(recorder: Recorder, heading: Task) -> None:
    recorder.script.extend([OSError("down")] * 1000)
    client = Client(URL, tasks=[heading], transport=recorder, interval=0)
    assert all(client.report("heading", n) for n in range(100))
    assert not client.close(0.02)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_ledger_can_outlive_its_client(
    twin: Twin, tmp_path: Path, recorder: Recorder, delay: Task, kind: str
) -> None:
    recorder.script.append(503)
    with ledger_opener(kind, tmp_path / "ledger.db") as open_ledger:
        for expected in (True, True, True, False):
            ledger, _ = open_ledger()
            transport = twin.transport(recorder)
            with twin.client(URL, tasks=[delay], ledger=ledger, transport=transport) as client:
                assert bool(client.report("delay", 1.0)) is expected
    assert len(recorder.posts) == 4
    assert recorder.codes == 3


def test_a_shared_uplink_is_left_alone(recorder: Recorder, heading: Task, delay: Task) -> None:
    with Uplink(URL, transport=recorder) as uplink:
        for _ in range(50):
            with Client(uplink, tasks=[heading, delay], ledger=MemoryLedger()) as client:
                assert [bool(client.report("delay", 1.0)) for _ in range(4)] == [True, True, True, False]
        assert recorder.posts == []
        assert recorder.closed == 0
        assert client.pending == 150
    assert recorder.codes == 150
    assert len(recorder.posts) == 1
    assert recorder.closed == 1


@pytest.mark.parametrize("kind", [client.Client, client.AsyncClient, Uplink, AsyncUplink])
@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("foo", "; it takes "),
        ("batchsize", "; did you mean batch_size?"),
        ("transprt", "; did you mean transport?"),
        ("ledgr", "; did you mean ledger?"),
        ("options", "; it takes "),
    ],
)
def test_an_option_that_there_is_not_is_named_with_the_nearest(
    heading: Task, kind: Any, name: str, question: str
) -> None:
    own = {"tasks": [heading]} if kind in {client.Client, client.AsyncClient} else {}
    with pytest.raises(TypeError) as caught:
        kind("https://reports.example", **own, **{name: 1})
    said = str(caught.value)
    assert said.startswith(f"{kind.__name__}() has no option {name!r}{question}")
    assert said.endswith("?") or "max_pending, " in said


def test_an_option_of_clients_is_nearest_for_clients(heading: Task) -> None:
    wrong: Any = {"max_epsilonn": 1.0}
    with pytest.raises(TypeError, match=r"^Client\(\) has no option .*; did you mean max_epsilon\?$"):
        client.Client(URL, tasks=[heading], **wrong)
    with Uplink(URL) as uplink, pytest.raises(TypeError, match=r"; did you mean max_epsilon\?$"):
        client.Client(uplink, tasks=[heading], **wrong)


class Shifty(float):
    """A number that changes each time it is read: 5 first, then the result of `then`."""

    def __init__(self, then: Callable[[], float]) -> None:
        self._answers = [lambda: 5.0]
        self._then = then

    def __new__(cls, then: Callable[[], float]) -> Self:
        return super().__new__(cls, 5.0)

    def __float__(self) -> float:
        return self._answers.pop()() if self._answers else self._then()


def broken() -> float:
    raise RuntimeError("broken")


@pytest.mark.parametrize(
    "value",
    [
        np.timedelta64(5, "s"),
        np.timedelta64(5, "D"),
        np.datetime64("NaT", "s"),
        np.array(5.0),
        [10**5000],
        10**5000,
    ],
    ids=range(6),
)
def test_what_is_no_number_costs_nothing(recorder: Recorder, delay: Task, ledger: Ledger, value: Any) -> None:
    group = Group("pair", [Task("one", Interval(0, 10), 1.0), Task("two", Interval(0, 10), 1.0)])
    with Client(URL, tasks=[delay, group], ledger=ledger, transport=recorder) as client:
        with pytest.raises(DomainError, match=r"^value must be .* in \[-60, 180\], got"):
            client.report("delay", value)
        with pytest.raises(DomainError, match=r"^'two': value must be .* in \[0, 10\], got"):
            client.report("pair", {"one": 5.0, "two": value})
        assert client.budget().epsilon == 0.0
        assert client.pending == 0


@pytest.mark.parametrize("then", [broken, lambda: math.nan, lambda: 1e9], ids=["broken", "nan", "outside"])
def test_what_is_checked_is_what_is_reported(
    recorder: Recorder, delay: Task, ledger: Ledger, then: Callable[[], float]
) -> None:
    """A value is read once, before it is charged; if it changes later, that makes no difference."""
    group = Group("pair", [Task("one", Interval(0, 10), 1.0), Task("two", Interval(0, 10), 1.0)])
    # On a busy machine, the sender could run in between.
    with Client(URL, tasks=[delay, group], ledger=ledger, transport=recorder, interval=3600) as client:
        assert client.report("delay", Shifty(then))
        assert client.report("pair", {"one": Shifty(then), "two": Shifty(then)})
        assert client.pending == 3


@pytest.mark.usefixtures("restless")
def test_threads_lose_nothing(recorder: Recorder, heading: Task) -> None:
    capped = Task("capped", Circle(24), 0.5, caps=Caps(rolling=500.0))
    uplink = Uplink(URL, transport=recorder, batch_size=100, interval=0.001)
    with uplink, Client(uplink, tasks=[heading, capped], ledger=MemoryLedger()) as client:

        def work() -> int:
            return sum(bool(client.report(name, n)) for n in range(1000) for name in ("heading", "capped"))

        granted = in_threads(*[work] * 8)
        assert sum(granted) == 8000 + 1000
        assert client.budget("heading").epsilon == 8000.0
        assert client.budget("capped").epsilon == 500.0
    assert recorder.codes == 9000


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1:80", "[::1]:8000", "localhost", "LOCALHOST:8000"])
def test_insecure_randomness_is_for_this_machine(recorder: Recorder, heading: Task, host: str) -> None:
    randomness = InsecureSeededRandomness(1)
    with Client(f"http://{host}", tasks=[heading], randomness=randomness, transport=recorder) as client:
        assert client.report("heading", 1.0)


@pytest.mark.parametrize(
    "host", ["example.org", "128.0.0.1", "[::2]", "127.0.0.1.example.org", "localhost.example.org", "0.0.0.0"]
)
def test_insecure_randomness_is_refused_elsewhere(
    twin: Twin, recorder: Recorder, heading: Task, host: str
) -> None:
    options = {"tasks": [heading], "transport": twin.transport(recorder)}
    with pytest.raises(ParameterError, match=r"randomness must be secure.*InsecureSeededRandomness"):
        twin.client(f"https://{host}", randomness=InsecureSeededRandomness(1), **options)
    twin.client(f"https://{host}", randomness=SYSTEM, **options)


def test_max_epsilon_names_both_numbers(heading: Task, delay: Task) -> None:
    Client(URL, tasks=[heading, delay], ledger=MemoryLedger(), max_epsilon=2)
    for _ in range(2):  # a task that was refused once is refused again
        with pytest.raises(CertificateError, match=r"'delay' spends epsilon = 2\.0, .* max_epsilon = 1\.9"):
            Client(URL, tasks=[heading, delay], max_epsilon=1.9)


def test_every_certificate_is_verified() -> None:
    honest, forged = Task("t", Circle(24), 1.0), Task("t", Circle(24), 1.5)
    object.__setattr__(forged.mechanism, "epsilon", 1.4)  # claims less than its integers spend
    Client(URL, tasks=[honest])
    with pytest.raises(CertificateError, match="ratio"):
        Client(URL, tasks=[forged])


@pytest.mark.parametrize("max_epsilon", [0, -1.0, True, "1", float("nan"), -(10**400), 10**400])
def test_bad_max_epsilon(heading: Task, max_epsilon: Any) -> None:
    Client(URL, tasks=[heading], max_epsilon=1)  # the cached result for 1 is not used for True
    with pytest.raises(ParameterError, match="max_epsilon must be"):
        Client(URL, tasks=[heading], max_epsilon=max_epsilon)


def test_max_delta_names_both_numbers_and_is_compared_exactly(noisy: Task, heading: Task) -> None:
    assert noisy.mechanism.certificate().delta == UNIT >> 20
    exactly = 2.0**-20
    Client(URL, tasks=[heading, noisy], ledger=MemoryLedger(), max_delta=exactly)
    Client(URL, tasks=[heading, noisy], ledger=MemoryLedger(), max_delta=0.5, max_epsilon=1)
    for below in (0, 0.0, 1e-9, math.nextafter(exactly, 0.0)):
        message = f"'noisy' spends delta = 9.53675e-07 .*{UNIT >> 20} / 2.*more than max_delta = {below!r}"
        with pytest.raises(CertificateError, match=message):
            Client(URL, tasks=[heading, noisy], max_delta=below)
    with pytest.raises(CertificateError, match="max_delta = 0"):
        Client(URL, tasks=[noisy])


@pytest.mark.parametrize("max_delta", [-1e-9, 1, 1.0, True, False, "0", None, float("nan"), 10**400])
def test_bad_max_delta(heading: Task, max_delta: Any) -> None:
    Client(URL, tasks=[heading], max_delta=0)
    with pytest.raises(ParameterError, match=r"max_delta must be a number in \[0, 1\), got"):
        Client(URL, tasks=[heading], max_delta=max_delta)


def test_a_report_that_spends_delta_only_is_charged_delta(recorder: Recorder, noisy: Task) -> None:
    ledger = MemoryLedger()
    with Client(URL, tasks=[noisy], max_delta=1e-6, ledger=ledger, transport=recorder) as client:
        assert all(client.report("noisy", 1.0) for _ in range(50))
        assert client.budget("noisy").epsilon == 0.0
        assert client.budget("noisy").delta == 50 * 2.0**-20
    assert recorder.codes == 50


def test_bad_tasks(heading: Task) -> None:
    with pytest.raises(ParameterError, match="at least one"):
        Client(URL, tasks=[])
    with pytest.raises(ParameterError, match="must be Tasks and Groups, got 'heading'"):
        Client(URL, tasks=["heading"])
    with pytest.raises(ParameterError, match="iterable of Task"):
        Client(URL, tasks=heading)
    with pytest.raises(ParameterError, match="'heading' twice"):
        Client(URL, tasks=[heading, Task("heading", Interval(0, 1), 1.0)])


def test_a_server_is_a_url_with_options_or_an_uplink_that_has_them(twin: Twin, heading: Task) -> None:
    kind = "Uplink" if twin.kind == "sync" else "AsyncUplink"
    with twin.uplink(URL) as uplink:
        for server, options, message in (
            (
                uplink,
                {"interval": 1, "batch_size": 2},
                f"interval, batch_size must be given to the shared {kind},",
            ),
            (42, {}, f"server must be a URL or an {kind}, got 42"),
            ("gopher://a", {}, "http:// or https://"),
        ):
            with pytest.raises(ParameterError, match=message):
                twin.client(server, tasks=[heading], **options)
