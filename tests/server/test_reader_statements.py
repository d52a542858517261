"""The page of a task says what holds against whom, the local epsilon first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.domains import Interval
from arcwise.tasks import CentralStatement, Task

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx
    from fastapi import FastAPI

ONCE = CentralStatement(1.0, 1e-8, 10_000)
AGE = Task("age", Interval(0, 100), 5.17, caps=ONCE.caps(5.17, 86_400), central=ONCE, lateness_seconds=60)
PLAIN = Task("plain", Interval(0, 100), 1.0)


def test_the_page_of_a_task_has_a_statement_for_each_reader(with_app: Callable[..., None]) -> None:
    async def scenario(http: httpx.AsyncClient, _app: FastAPI) -> None:
        page = (await http.get(f"/tasks/{AGE.id}")).text
        local, central = (page.index(f"<p>Against {who}: {what}.</p>") for who, what in AGE.readers.items())
        assert page.index("That is epsilon&nbsp;5.17") < local < central
        assert f"<p>A{AGE.release_words[1:]}.</p>" in page
        assert "Against who" not in (await http.get(f"/tasks/{PLAIN.id}")).text

    with_app([AGE, PLAIN], scenario)
