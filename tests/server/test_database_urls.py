"""URLs of PostgreSQL in every place: no error shows part of a password, or takes it for a host."""

from collections.abc import Callable
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from arcwise.analysis import count_table
from arcwise.client import PostgresLedgers
from arcwise.domains import Interval
from arcwise.errors import ParameterError
from arcwise.server.store import open_store
from arcwise.tasks import Task
from arcwise.urls import libpq_settings

TASK = Task("delay", Interval(0, 60), epsilon=1.0)
USES: dict[str, Callable[[str], Any]] = {
    "store": open_store,
    "url": PostgresLedgers,
    "engine": lambda url: count_table("reports", TASK, engine=url),
}


@pytest.mark.parametrize(
    "place",
    [
        *("me:%s3cret%@h/lake", "me:s3cret%zz@h/lake", "me:s3cret x@h/lake", "me:s3cret\0x@h/lake"),
        *("me:x@s3cret@h/lake", "me:s3cret@[::1/lake", "me:x[y@s3cret]@h/lake", "me:x@s3cret?y@h/lake"),
        *("me:x/s3cret@h/lake", "me:s3cret/x@h/lake", "s3cret/x@h/lake", "localhost:4711/s3cret@h/lake"),
        *(
            "me:1,s3cret/x@h/lake",
            "me:x/y?s3cret=1@h/lake",
            "me:s3cret/x?user=y@h/lake",
            "x:y@h1,z:s3cret@h/db",
        ),
        *(
            "me:s3cret/lake",
            "me:s3cret",
            "h/lake?port=s3cret",
            "h/lake?password=s3cret&bogus=1",
            "h/lake?s3cret",
        ),
    ],
)
@pytest.mark.parametrize("name", USES)
def test_a_url_that_libpq_does_not_read_as_it_is_meant_is_not_repeated(name: str, place: str) -> None:
    with pytest.raises(ParameterError) as refused:
        USES[name](f"postgresql://{place}")
    assert str(refused.value) == (
        f"{name} must be a URL that libpq can read, such as postgresql://USER@HOST/DATABASE, with %, @ and / "
        "in a password written as %25, %40 and %2F"
    )
    assert refused.value.__cause__ is refused.value.__context__ is None


@pytest.mark.parametrize(
    "begin", ["Postgresql://", " postgres://", "postgre\nsql://", "postgresql:", "postgresql:/"]
)
def test_an_engine_of_ibis_s_spelling_is_read_by_libpq_or_not_at_all(begin: str) -> None:
    with pytest.raises(ParameterError, match="engine must be a URL that libpq can read"):
        USES["engine"](f"{begin}s3cret/x@h/lake")


@pytest.mark.parametrize(
    "place",
    [
        *("", "/", "h", "h/lake", "h:/lake", "h:1/lake", "[::1]:1/lake", "me@h:1,[::1]:2,/lake"),
        *("me:x%40y%2Fz%25@h/lake", "me:x?y#z[,:@h/lake", "me:x@/lake?host=/run&port=1&user=a@b/c"),
    ],
)
def test_what_libpq_reads_as_it_is_meant_is_taken(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"postgresql://{place}"
    expected = conninfo_to_dict(url) | {"client_encoding": "UTF8"}
    assert libpq_settings(url, "url", conninfo_to_dict, changes=False) == expected
    monkeypatch.setenv("PGHOST", "one,two")
    assert libpq_settings(url, "url", conninfo_to_dict, changes=False) == expected
    if "host" not in expected:
        several = libpq_settings(url, "url", conninfo_to_dict)
        assert several == expected | {"target_session_attrs": "read-write"}
    monkeypatch.delenv("PGHOST")
    if "," in str(expected.get("host")):
        expected |= {"target_session_attrs": "read-write"}
    assert libpq_settings(url, "url", conninfo_to_dict) == expected
