"""A client whose reports are not limited by a cap is refused at construction, unless the app asks for one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from arcwise.client import AsyncClient, Client, Ledger, MemoryLedger, Outcome, RecordingTransport, Uplink
from arcwise.client.asgi import Reporting
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.tasks import Caps, Group, Task

if TYPE_CHECKING:
    from collections.abc import Callable

URL = "http://127.0.0.1:1"
LIFETIME, ROLLING = Caps(lifetime=5.0), Caps(rolling=5.0, window=3600)
DELTA = Caps(lifetime_delta=1e-6, rolling_delta=1e-7)
FREE = Task("free", Circle(360), epsilon=1.0)
CAPPED = Task("capped", Circle(360), epsilon=1.0, caps=LIFETIME)
ROLLS = Task("rolls", Interval(0, 1), epsilon=0.5, caps=ROLLING)
SPEED = Task("speed", Interval(0, 180), epsilon=1.0)

UNBOUNDED: dict[str, tuple[list[Task | Group], dict[str, Any], str]] = {
    "a task": ([FREE], {}, r"task 'free'.* caps=Caps\(lifetime=5.0\), 5 reports .*caps=\"unlimited\""),
    "one task of two": ([CAPPED, FREE], {}, "task 'free'"),
    "caps of delta, and a task without": ([FREE], {"caps": DELTA}, "task 'free'"),
    "a task with caps of a delta that it has not": (
        [Task("cheap", Circle(360), epsilon=1.0, caps=DELTA)],
        {},
        "task 'cheap'",
    ),
    "no cap but a window": ([FREE], {"caps": Caps(window=60)}, "task 'free'"),
    "a group": (
        [Group("pair", [FREE, SPEED])],
        {},
        r"group 'pair', where every round adds up: .*lifetime=10.0\), 5 rounds",
    ),
    "a group that can draw around its capped task": (
        [Group("some", [CAPPED, FREE, SPEED], sample=2)],
        {},
        "group 'some'",
    ),
    "answers of another task": ([CAPPED, FREE], {"memoize": {"capped": 2}}, "task 'free'"),
}

BOUNDED: dict[str, tuple[list[Task | Group], dict[str, Any]]] = {
    "a lifetime cap of a task": ([CAPPED], {}),
    "a rolling cap of a task": ([CAPPED, ROLLS], {}),
    "a lifetime cap of the client": ([FREE, Group("pair", [ROLLS, SPEED])], {"caps": LIFETIME}),
    "a rolling cap of the client": ([FREE], {"caps": ROLLING}),
    "a cap of a group": ([Group("pair", [FREE, SPEED], caps=LIFETIME)], {}),
    "a cap of one task that each round draws": ([Group("pair", [CAPPED, FREE])], {}),
    "too few tasks without caps for a round": ([Group("some", [CAPPED, ROLLS, FREE], sample=2)], {}),
    "memoised answers": ([FREE], {"memoize": {"free": 3}}),
    "a lowest cap": ([FREE], {"caps": Caps(lifetime=1.0)}),
    "unlimited": ([FREE, Group("pair", [ROLLS, SPEED])], {"caps": "unlimited"}),
}


def on_a_loop(*arguments: Any, **options: Any) -> AsyncClient:
    async def made() -> AsyncClient:
        return AsyncClient(*arguments, **options)

    return asyncio.run(made())


@pytest.mark.parametrize("make", [Client, on_a_loop, Reporting])
@pytest.mark.parametrize(("tasks", "options", "message"), UNBOUNDED.values(), ids=UNBOUNDED)
def test_refused_where_nothing_limits_the_loss(
    make: Callable[..., object], tasks: list[Task | Group], options: dict[str, Any], message: str
) -> None:
    keeper = {"ledgers": None} if make is Reporting else {"ledger": MemoryLedger()}
    with pytest.raises(ParameterError, match=f"no cap limits what a device spends on {message}"):
        make(URL, tasks=tasks, **keeper, **options)


@pytest.mark.parametrize(("tasks", "options"), BOUNDED.values(), ids=BOUNDED)
def test_accepted_where_something_limits_it(
    tasks: list[Task | Group], options: dict[str, Any], ledger: Ledger
) -> None:
    Client(URL, tasks=tasks, ledger=ledger, **options)


def test_a_task_that_spends_delta_alone_needs_a_cap_of_delta(noisy: Task) -> None:
    """The task's caps of epsilon never stop it."""
    assert (noisy.charge.micro_epsilon, noisy.caps.rolling) == (0, 1.0)
    options: dict[str, Any] = {"tasks": [noisy], "ledger": MemoryLedger(), "max_delta": 1e-5}
    with pytest.raises(ParameterError, match=r"'noisy'.*Caps\(lifetime_delta=\.\.\.\), or make the task"):
        Client(URL, caps=LIFETIME, **options)
    Client(URL, caps=Caps(lifetime_delta=1e-5), **options)


@pytest.mark.parametrize("caps", ["unlimted", "", 5.0, True, [LIFETIME]])
def test_nothing_else_is_unlimited(caps: Any) -> None:
    with pytest.raises(ParameterError, match=r"caps must be None, a Caps .* or \"unlimited\"; got"):
        Client(URL, tasks=[FREE], ledger=MemoryLedger(), caps=caps)


@pytest.mark.parametrize(
    ("tasks", "options"),
    [(tasks, options) for name, (tasks, options) in BOUNDED.items() if name != "unlimited"],
)
def test_what_has_caps_needs_a_ledger(tasks: list[Task | Group], options: dict[str, Any]) -> None:
    """A ledger in memory forgets its charges, so it is never chosen for an app that has caps."""
    with pytest.raises(ParameterError, match=r"need a ledger: give ledger=FileLedger\(path\)"):
        Client(URL, tasks=tasks, **options)


def test_opting_in_again_buys_no_answers_past_those_that_were_allowed(ledger: Ledger) -> None:
    """Without caps, the number of answers is the only limit; opting out deletes answers that were given."""
    uplink = Uplink(URL, ledger=ledger, transport=RecordingTransport())

    def reports(**options: Any) -> list[Outcome]:
        client = Client(uplink, tasks=[FREE], ledger=ledger, **options)
        client.opt_out()
        client.opt_in()
        return [client.report("free", 12.0) for _ in range(2)]

    assert reports(memoize={"free": 2}) == [Outcome.ACCEPTED] * 2
    assert reports(memoize={"free": 2}) == [Outcome.CAPPED] * 2
    assert reports(memoize={"free": 4}) == [Outcome.CAPPED] * 2  # 2 + 4 exceeds 4
    assert reports(memoize={"free": 2}, caps=Caps(lifetime=4.0)) == [Outcome.ACCEPTED] * 2
    assert reports(memoize={"free": 2}, caps="unlimited") == [Outcome.ACCEPTED] * 2
    uplink.close(0)
