"""The page of a task says what holds against whom, the local epsilon first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from arcwise.analysis import Estimate, estimate
from arcwise.analysis.tidy import tidy_rows
from arcwise.domains import Interval
from arcwise.tasks import CentralStatement, Task

if TYPE_CHECKING:
    from tests.support.apps import Serve

pytestmark = pytest.mark.anyio

ONCE = CentralStatement(1.0, 1e-8, 10_000)
AGE = Task("age", Interval(0, 100), 5.17, caps=ONCE.caps(5.17, 86_400), central=ONCE, lateness_seconds=60)
PLAIN = Task("plain", Interval(0, 100), 1.0)


async def test_the_page_of_a_task_has_a_statement_for_each_reader(serve: Serve) -> None:
    http = await serve([AGE, PLAIN])
    page = (await http.get(f"/tasks/{AGE.id}")).text
    at = [page.index(f"<p>Against {who}: {what}.</p>") for who, what in AGE.readers.items()]
    assert len(at) == 3
    assert sorted(at) == at
    assert page.index("That is epsilon&nbsp;5.17") < at[0]
    assert f"<p>A{AGE.release_words[1:]}.</p>" in page
    assert "Against who" not in (await http.get(f"/tasks/{PLAIN.id}")).text


async def test_json_has_a_statement_for_each_reader(serve: Serve) -> None:
    kinds = ("estimate", "series", "fit", "plan?half_width=1", "difference?to=3&against_from=3")
    local = "epsilon = 5.17 per report"
    assert list(AGE.readers.values()) == [local, f"{local}, without its address", str(ONCE)]
    http = await serve([AGE, PLAIN])
    listed = (await http.get("/v1/tasks")).json()["tasks"]
    assert listed == [AGE.to_json() | {"readers": AGE.readers}, PLAIN.to_json()]
    for task in (AGE, PLAIN):
        path = f"/v1/tasks/{task.id}"
        shown = (await http.get(path)).json()
        assert Task.from_json(shown) == task
        for kind in kinds:
            found = (await http.get(f"{path}/{kind}")).json()
            assert found.get("readers") == shown.get("readers") == (AGE.readers if task == AGE else None)
        for file in ("estimate.csv", "series.csv", "series.svg"):
            answer = await http.get(f"{path}/{file}")
            assert answer.status_code in (200, 404)
            assert "readers" not in answer.text
    described = (await http.get("/openapi.json")).json()["paths"]
    for path in ("/v1/tasks", "/v1/tasks/{task}"):
        assert "readers" in described[path]["get"]["description"]
    assert "readers" in described["/v1/tasks/{task}/fit"]["get"]["responses"]["200"]["description"]


def test_documents_with_statements_are_read_as_before() -> None:
    found = estimate(AGE, [100] * AGE.mechanism.kernel.codes)
    said = found.to_dict() | {"readers": AGE.readers}
    assert Estimate.from_dict(said) == found
    assert list(tidy_rows(said)) == list(tidy_rows(found.to_dict()))
