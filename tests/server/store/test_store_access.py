"""The contract of every store: keys, sessions, the audit log, and memory of the last server."""

from contextlib import closing
from dataclasses import replace

import pytest

from arcwise.errors import ParameterError
from arcwise.server.store import Store, StoredAction, StoredKey, StoredSession
from arcwise.server.store.base import MOST_SESSIONS
from tests.support.store_samples import DELAY, HEADING
from tests.support.stores import Opener

KEY = StoredKey("k1", bytes(range(32)), "ingest", None, "the fleet", 1_000, None)
SCOPED = StoredKey("k2", bytes(32), "read", (DELAY.id, HEADING.id), "a dashboard; Größe", 2_000, None)
SESSION = StoredSession(b"\x01" * 32, "k1", 1_000, 1_000, 5_000)
OTHER = StoredSession(b"\x02" * 32, "k2", 1_500, 1_600, 9_000)
ACTION = StoredAction(1_000, "k1", "close task", "heading; Größe", "unknown")


def test_keys_come_back_as_they_were_the_oldest_first(store: Store) -> None:
    assert store.keys() == []
    store.add_key(SCOPED)
    store.add_key(KEY)
    store.add_key(none := replace(KEY, id="k0", created=3_000, tasks=()))  # for no task, not for all tasks
    assert store.keys() == [KEY, SCOPED, none]
    with pytest.raises(ParameterError, match="the store already has a key 'k1'; make one with another id"):
        store.add_key(replace(SCOPED, id="k1"))
    assert store.keys() == [KEY, SCOPED, none]


def test_a_revoked_key_stays_revoked_from_its_first_moment_and_its_sessions_end(store: Store) -> None:
    store.add_key(KEY)
    store.add_session(SESSION)
    store.add_session(OTHER)
    assert store.revoke_key("k1", 5_000)
    assert store.session(SESSION.digest) is None
    assert store.session(OTHER.digest) == OTHER
    assert not store.revoke_key("k1", 6_000)
    assert not store.revoke_key("nobody", 6_000)
    assert store.keys() == [replace(KEY, revoked=5_000)]


def test_a_session_comes_back_as_it_was_until_it_is_ended(store: Store, opener: Opener) -> None:
    assert store.session(SESSION.digest) is None
    store.add_session(SESSION)
    store.add_session(OTHER)
    with opener() as another:  # of another worker
        assert another.session(SESSION.digest) == SESSION
        store.see_session(SESSION.digest, 2_000)
        store.see_session(SESSION.digest, 1_500)  # and never earlier than before
        assert another.session(SESSION.digest) == replace(SESSION, seen=2_000)
        assert another.end_session(SESSION.digest)
    store.see_session(SESSION.digest, 3_000)  # its use does not bring it back
    assert store.session(SESSION.digest) is None
    assert store.session(OTHER.digest) == OTHER
    assert not store.end_session(SESSION.digest)


def test_sessions_are_forgotten_after_their_idle_and_their_absolute_end(store: Store) -> None:
    store.add_session(SESSION)
    store.add_session(OTHER)
    assert store.prune_sessions(1_599, 600) == 0
    assert store.prune_sessions(1_600, 600) == 1  # unused for that long
    assert store.session(SESSION.digest) is None
    assert store.prune_sessions(8_999, 10_000) == 0
    assert store.prune_sessions(9_000, 10_000) == 1
    assert store.session(OTHER.digest) is None


def test_a_key_has_no_more_than_so_many_sessions(store: Store) -> None:
    store.add_session(OTHER)
    sessions = [
        replace(SESSION, digest=number.to_bytes(32, "little"), created=1_000 + number // 2)
        for number in range(1_000, 1_000 + MOST_SESSIONS + 2)
    ]
    for session in sessions:
        store.add_session(session)
    kept = [session for session in sessions if store.session(session.digest)]
    assert len(kept) == MOST_SESSIONS
    assert kept[-1] == sessions[-1]
    assert min(session.created for session in kept) > sessions[0].created
    assert store.session(OTHER.digest) == OTHER


def test_the_newest_session_is_kept_whatever_the_clock_says(store: Store) -> None:
    for number in range(MOST_SESSIONS):
        store.add_session(replace(SESSION, digest=number.to_bytes(32, "big"), created=10_000))
    late = replace(SESSION, digest=b"\xff" * 32, created=500)  # the clock went back
    store.add_session(late)
    assert store.session(late.digest) == late


def test_the_audit_log_has_the_newest_entry_first(store: Store, opener: Opener) -> None:
    assert store.actions(10) == []
    entries = [replace(ACTION, time=1_000 + number) for number in range(5)]
    numbers = [store.begin_action(entry) for entry in entries]
    assert numbers == sorted(set(numbers))
    expected = list(zip(numbers, entries, strict=True))[::-1]
    with opener() as another:
        assert another.actions(10) == expected
    assert store.actions(2) == expected[:2]
    assert store.actions(2, before=numbers[3]) == expected[2:4]
    assert store.actions(2, before=numbers[0]) == []
    store.end_action(numbers[3], "done")
    expected[1] = numbers[3], replace(entries[3], outcome="done")
    assert store.actions(10) == expected


def test_old_entries_are_forgotten_and_their_numbers_never_used_again(store: Store) -> None:
    numbers = [store.begin_action(replace(ACTION, time=time)) for time in (1_000, 2_000, 3_000)]
    assert store.prune_actions(1_000) == 0
    assert store.prune_actions(2_000) == 1
    assert [number for number, _ in store.actions(10)] == numbers[:0:-1]
    assert store.prune_actions(1 << 40) == 2
    assert store.begin_action(ACTION) > numbers[-1]


def test_a_number_is_remembered_until_another_is(store: Store, opener: Opener) -> None:
    assert store.recall("min_reports") is None
    store.remember("min_reports", 50)
    store.remember("min_reports_days", 7)
    store.remember("min_reports", 1 << 53)
    with opener() as another:
        assert another.recall("min_reports") == 1 << 53
        assert another.recall("min_reports_days") == 7


def test_nothing_of_it_is_exported_or_merged(store: Store) -> None:
    store.add_key(KEY)
    store.add_session(SESSION)
    store.begin_action(ACTION)
    store.remember("min_reports", 123_456)
    with closing(store.export(ids=True)) as records:
        told = repr(list(records))
    for secret in (SESSION.digest, KEY.digest, b"heading; Gr", KEY.id.encode(), b"123456"):
        assert repr(secret)[2:-1] not in told
    assert ACTION.subject not in told
