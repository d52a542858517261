"""Requests made up from the OpenAPI document: each is answered as it says, and none meets a defect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.core.result import Ok

from arcwise.domains import Circle, Interval
from arcwise.server.collect.gateway_keys import GatewayKeyFile
from arcwise.server.store import open_store
from arcwise.tasks import Task
from arcwise.wire import MEDIA_TYPE
from tests.support.apps import add_key
from tests.support.server_processes import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OBLIVIOUS = "message/ohttp-req"
HEADING, DELAY = Task("heading", Circle(360), 1.0), Task("delay", Interval(0, 1), 1.0)


@schemathesis.serializer(MEDIA_TYPE, OBLIVIOUS)
def as_it_is(_context: schemathesis.SerializationContext, value: object) -> bytes:
    """Return the body of a batch as bytes; what is made up to be wrong may be anything."""
    return value if isinstance(value, bytes) else str(value).encode()


schemathesis.openapi.media_type(MEDIA_TYPE, st.binary(max_size=200))
schemathesis.openapi.media_type(OBLIVIOUS, st.binary(max_size=200))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str], Path]]:
    """Serve in a process; yield its URL, an admin's headers and its folder."""
    folder = tmp_path_factory.mktemp("server")
    for task in (HEADING, DELAY):
        task.save(folder / f"{task.name}.json")
    key = add_key(f"sqlite:///{folder / 'server.db'}", "admin")
    GatewayKeyFile(folder / "gateway.keys").make()
    with serving(folder, "--open", "--gateway-keys", str(folder / "gateway.keys")) as (url, _):
        yield url, {"authorization": f"Bearer {key}"}, folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("managed", "examples"),
    [
        pytest.param(True, 10, id="admin"),
        pytest.param(True, 25, id="admin longer"),
        pytest.param(False, 25, id="anybody"),
    ],
)
def test_nothing_that_the_document_allows_meets_a_defect(
    server: tuple[str, dict[str, str], Path], managed: bool, examples: int
) -> None:
    url, admin, folder = server
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
    assert len(operations) == 20
    statuses: dict[int, int] = {}

    for operation in operations:
        known = st.sampled_from([HEADING.id, DELAY.id])

        @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(), task_id=known, is_known=st.booleans())
        def ask(case: schemathesis.Case[Any], task_id: str, is_known: bool) -> None:
            if case.path_parameters and is_known:
                for name in {"task_id", "task"} & set(case.path_parameters):
                    case.path_parameters[name] = task_id
            answer = case.call(headers=admin if managed else {}, timeout=60)
            statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
            assert answer.status_code < 500, (case.method, case.path)
            if answer.status_code >= 400:
                assert answer.headers["content-type"][0] in (
                    "application/problem+json",
                    "text/plain; charset=utf-8",
                )

        ask()
    assert statuses[200] > examples
    assert statuses.get(404, 0) > 0
    # No report that can be counted is made up by chance.
    store = open_store(f"sqlite:///{folder / 'server.db'}")
    counted = [int(store.counts(task).sum()) for task in (HEADING, DELAY)]
    store.close()
    assert counted == [0, 0]
    assert "Traceback" not in (folder / "stderr").read_text("utf-8")
