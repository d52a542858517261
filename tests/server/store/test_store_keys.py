"""The contract of every store: keys."""

from dataclasses import replace

import pytest

from arcwise.errors import ParameterError
from arcwise.server.store import Store, StoredKey
from tests.support.store_samples import DELAY, HEADING

KEY = StoredKey("k1", bytes(range(32)), "ingest", None, "the fleet", 1_000, None)
SCOPED = StoredKey("k2", bytes(32), "read", (DELAY.id, HEADING.id), "a dashboard; Größe", 2_000, None)


def test_keys_come_back_as_they_were_the_oldest_first(store: Store) -> None:
    assert store.keys() == []
    store.add_key(SCOPED)
    store.add_key(KEY)
    assert store.keys() == [KEY, SCOPED]


def test_a_key_for_no_task_is_not_a_key_for_all(store: Store) -> None:
    store.add_key(replace(KEY, tasks=()))
    assert store.keys()[0].tasks == ()


def test_a_revoked_key_stays_revoked_from_its_first_moment(store: Store) -> None:
    store.add_key(KEY)
    assert store.revoke_key("k1", 5_000)
    assert not store.revoke_key("k1", 6_000)
    assert not store.revoke_key("nobody", 6_000)
    assert store.keys() == [replace(KEY, revoked=5_000)]


def test_an_id_is_taken_once(store: Store) -> None:
    store.add_key(KEY)
    with pytest.raises(ParameterError, match="the store already has a key 'k1'; make one with another id"):
        store.add_key(replace(SCOPED, id="k1"))
    assert store.keys() == [KEY]
