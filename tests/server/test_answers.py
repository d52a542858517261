"""The headers of every answer, and requests that are refused for their length before they are read."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from arcwise.domains import Interval
from arcwise.errors import TaskError
from arcwise.server.catalogue import Catalogue
from arcwise.server.pages.rendering import assets
from arcwise.tasks import Task
from arcwise.tasks.optional import MAX_NAME

if TYPE_CHECKING:
    from tests.support.apps import Serve

pytestmark = pytest.mark.anyio

TASK = Task("delay", Interval(0, 1), 1.0)
ONE = f"/v1/tasks/{TASK.id}"
PAGES: tuple[str, ...] = (
    "/",
    "/tasks/{task}",
    "/tasks/{task}/fit",
    "/operator",
    "/login",
    "/logout",
    "/docs",
    "/openapi.json",
)
PAGES += ("/docs/start.js", assets()["icon.svg"].url, "/nothing", "/v1/nothing")
MARKS = "\u0300\u0316" * 20_000


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "closed"])
async def test_no_answer_is_kept_for_others_or_read_as_another_type(serve: Serve, *, is_open: bool) -> None:
    http = await serve([TASK], open=is_open)
    paths = [*http.app.openapi()["paths"], *PAGES]
    assert len(paths) > 25
    for template in paths:
        path = template.replace("{task}", TASK.id).replace("{form}", "json")
        answers = [await http.request(method, path) for method in ("GET", "POST", "DELETE")]
        for answer in answers:
            fields = answer.headers
            assert fields["x-content-type-options"] == "nosniff", path
            assert fields["nel"] == '{"max_age":0}', path  # no browser reports to others about its requests
            assert fields["cache-control"] in ("no-store", "private, no-cache") or (
                fields["cache-control"].startswith("public") and path.startswith(("/docs/", "/static/"))
            ), path
            if not fields["cache-control"].startswith("public"):
                assert "Authorization" in fields["vary"], path


@pytest.mark.parametrize(
    "path", [f"{ONE}/estimate?{'a&' * 2048}", f"/v1/tasks/{'%2F/' * 1024}", f"/?q={MARKS[:1000]}"]
)
async def test_a_long_path_or_query_is_refused_before_it_is_read(serve: Serve, path: str) -> None:
    http = await serve([TASK])
    answer = await http.get(path)
    assert (answer.status_code, answer.json()["type"]) == (414, "urn:arcwise:problem:uri-too-long")
    assert "at most 4096 bytes" in answer.json()["detail"]
    assert http.runtime.metrics.recent(60).refused == {"uri-too-long": 1}
    name = "\U0001f600" * MAX_NAME  # the longest path of a name, with the longest questions
    shares = "&".join(f"share={low / 7:.15f}:{low / 3:.15f}" for low in range(1, 21))
    assert (await http.get(f"/v1/tasks/{quote(name)}/estimate?{shares}&bands=true")).status_code == 404


async def test_a_name_is_normalised_after_its_length_and_its_key(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    normalise = unicodedata.normalize
    lengths = []

    def normalize(form: Any, text: str) -> str:
        lengths.append(len(text))
        return normalise(form, text)

    monkeypatch.setattr(unicodedata, "normalize", normalize)
    http = await serve([TASK], open=False, requests_per_minute_per_address=1)
    assert (await http.get(f"/v1/tasks/{quote(MARKS[:200])}")).status_code == 401
    assert lengths == []
    assert (await http.get(f"/v1/tasks/{quote(MARKS[:200])}")).status_code == 429
    await http.stop()
    assert Catalogue([TASK]).named(MARKS) == []
    texts: list[dict[str, Any]] = [{"name": MARKS}, {"unit": MARKS}, {"description": MARKS}]
    for given in texts:
        with pytest.raises(TaskError, match="must be 1 to"):
            Task(**{"name": "x", "domain": Interval(0, 1), "epsilon": 1.0, **given})
    assert lengths == []
    # A name of 64 letters in NFC may come as four times as many characters.
    decomposed = normalise("NFD", "\u1f82" * MAX_NAME)
    assert len(decomposed) == 4 * MAX_NAME
    assert Task(decomposed, Interval(0, 1), 1.0).name == "\u1f82" * MAX_NAME
