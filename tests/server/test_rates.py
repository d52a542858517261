"""How often one sender may ask: the count, the waits, and the stored form of an address."""

import pickle

import pytest

from arcwise.server.access import rates
from arcwise.server.access.rates import Rate, address_of


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_minute_holds_so_many_requests_and_no_more() -> None:
    clock = Clock()
    rate = Rate(60, clock=clock)
    assert [rate.wait("a") for _ in range(60)] == [0] * 60
    assert [rate.wait("a") for _ in range(3)] == [1, 1, 1]  # refusals are not counted
    assert rate.wait("b") == 0
    taken = 0
    for _ in range(600):
        clock.now += 0.1
        taken += rate.wait("a") == 0
    assert taken == 60


def test_the_wait_is_as_long_as_it_has_to_be() -> None:
    for per_minute in (1, 7, 60, 1000):
        clock = Clock()
        rate = Rate(per_minute, clock=clock)
        assert [rate.wait("a") for _ in range(per_minute)] == [0] * per_minute
        wait = rate.wait("a")
        assert wait == max(1, -(-60 // per_minute))
        clock.now += wait
        assert rate.wait("a") == 0


def test_no_limit() -> None:
    rate = Rate(0)
    assert not rate.is_limited
    assert [rate.wait("a") for _ in range(1000)] == [0] * 1000


def test_no_address_is_kept_and_what_is_kept_is_forgotten() -> None:
    clock = Clock()
    rate = Rate(1, clock=clock)
    assert rate.wait("203.0.113.77") == 0
    first = dict(rate._empty_at)
    kept = pickle.dumps((first, rate._key))
    assert b"203.0.113.77" not in kept
    assert bytes([203, 0, 113, 77]) not in kept
    assert rate.wait("203.0.113.77") > 0
    clock.now += 601  # with another random key, the same address counts as another sender
    assert rate.wait("203.0.113.77") == 0
    assert not set(first) & set(rate._empty_at)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "_MOST", 100)
    clock = Clock()
    rate = Rate(2, clock=clock)
    for number in range(1000):
        clock.now += 0.01
        assert rate.wait(str(number)) == 0
        assert len(rate._empty_at) <= 100
    # Those that asked last are still known.
    assert rate.wait("999") == 0
    assert rate.wait("999") > 0


@pytest.mark.parametrize(
    ("client", "sender"),
    [
        (("203.0.113.77", 1), "203.0.113.77"),
        (("2001:db8:1:2:3:4:5:6", 1), "2001:db8:1:2::"),
        (("2001:db8:1:2:ffff::1", 1), "2001:db8:1:2::"),
        (("::ffff:203.0.113.77", 1), "203.0.113.77"),
        (("/run/socket", 0), "/run/socket"),
        (None, ""),
    ],
)
def test_who_a_request_counts_for(client: object, sender: str) -> None:
    assert address_of({"type": "http", "client": client}) == sender
