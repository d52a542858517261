"""Addresses and headers that nobody clicks on: answered in words, with the policy, and never with a 500."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import pytest

from arcwise.domains import Interval
from arcwise.tasks import Task
from tests.support.cases import mostly_slow
from tests.support.page_stores import MILLION, Survey, surveys
from tests.support.sites import running

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.support.chromium import Tab
    from tests.support.sites import Site

_PATHS = [
    "/tasks/",
    "/tasks",
    "/tasks/..",
    "/tasks/../operator",
    "/tasks/..%2f..%2foperator",
    "/tasks/%00",
    "/tasks/%ff%fe",
    "/tasks/" + "a" * 10_000,
    "/tasks/" + "0" * 64,
    "/tasks/nobody%0d%0aSet-Cookie:%20a=b",
    "/static/",
    "/static/../pages.css",
    "/static/x/..%2f..%2f..%2f..%2fpyproject.toml",
    "/static/0000/arcwise.css",
    "//evil.example/",
    "/operator/",
    "/operator?page=-1",
    "/operator?page=99999999999999999999",
    "/?page=x&q=" + "x" * 5_000,
    "/?page=-1",
    "/?page=99999999999999999999",
    "/?q=%00%ff",
    "/login?next=//evil.example",
    "/favicon.ico",
]
_QUERIES = [
    "level=nan",
    "level=1e999",
    "level=-1",
    "level=0.95&level=0.9",
    "share=0:1e400",
    "share=30:0",
    "share=" + "&share=".join(f"{i}:{i + 1}" for i in range(500)),
    "from=x",
    "from=9999999999999999999999",
    "from=2026-13-45",
    "from=2027-01-01&to=2026-01-01",
    "every=0",
    "every=1e9",
    "every=99999999999999999999999",
    "origin=12",
    "target=everybody",
    "quantiles=2",
    "half_width=0",
    "half_width=1e-300",
    "half_width=nan",
    "against=nobody",
    "against=%00",
    "against=heading",
    "unknown=1",
    "=",
    "%00=%00",
]


def check_headers(answer: httpx.Response) -> None:
    """Fail if an answer breaks, or a page lacks a header that protects it."""
    assert answer.status_code < 500, (answer.status_code, str(answer.url)[:200], answer.text[:500])
    assert "evil.example" not in answer.headers.get("location", "")
    assert "set-cookie" not in answer.headers or "a=b" not in answer.headers["set-cookie"]
    if answer.headers.get("content-type", "").startswith("text/html"):
        policy = answer.headers["content-security-policy"]
        assert "'unsafe-inline'" not in policy
        assert "'unsafe-eval'" not in policy
        assert "default-src 'none'" in policy or "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "form-action 'self'" in policy
        assert "base-uri 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] in {"no-referrer", "same-origin"}
        assert "no-store" in answer.headers["cache-control"] or "no-cache" in answer.headers["cache-control"]
        assert "style=" not in answer.text
        assert "<style" not in answer.text


@pytest.mark.parametrize("path", _PATHS, ids=range(len(_PATHS)))
def test_an_odd_path_is_answered(open_site: Site, keyed_site: Site, path: str) -> None:
    for site in (open_site, keyed_site):
        # Without normalisation: clients would resolve the path.
        answer = _raw(site.url, path)
        assert b" 500 " not in answer[:20], answer[:500]
        assert b"evil.example" not in answer.partition(b"\r\n\r\n")[0]
        assert b"\r\nset-cookie: a=b" not in answer.lower()
        assert b"[project]" not in answer
        check_headers(httpx.get(site.url + path, headers={"Accept": "text/html"}))


@pytest.mark.parametrize("query", mostly_slow(_QUERIES, every=5))
def test_an_odd_parameter_is_answered_in_words(open_site: Site, query: str) -> None:
    for rest in ("", "/compare", "/plan"):
        answer = httpx.get(
            open_site.page(MILLION, f"{rest}?{query}"), headers={"Accept": "text/html"}, timeout=60
        )
        check_headers(answer)
        kind = "application/problem+json" if answer.status_code == 414 else "text/html"  # before any page
        assert answer.headers["content-type"].startswith(kind)
        assert len(answer.content) < 1_000_000


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "localhost@evil.example"},
        {"Host": ""},
        {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https"},
        {"Cookie": "arcwise-session=" + "A" * 64 + "; arcwise-session=x"},
        {"Cookie": "x" * 8_000},
        {"If-None-Match": "*"},
        {"Accept": "text/html;q=nan,*/*;q=" + "9" * 100},
        {"Accept-Encoding": "gzip;q=0, br;q=x"},
        {"Range": "bytes=0-1"},
    ],
    ids=lambda headers: next(iter(headers)) if headers else "",
)
def test_odd_headers_are_answered(open_site: Site, headers: dict[str, str]) -> None:
    for path in ("/", f"/tasks/{open_site.tasks[MILLION].id}", "/operator"):
        answer = httpx.get(open_site.url + path, headers={"Accept": "text/html"} | headers)
        check_headers(answer)
        assert "evil.example" not in answer.text
        if "evil" in headers.get("Host", ""):
            assert answer.status_code in {400, 401, 403, 421}
            assert MILLION not in answer.text


def _raw(url: str, path: str) -> bytes:
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), 60) as connection:
        head = (
            f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: text/html\r\nConnection: close\r\n\r\n"
        )
        connection.sendall(head.encode("latin-1"))
        received = b""
        while part := connection.recv(65_536):
            received += part
    return received


@pytest.mark.slow
def test_many_tasks_large_tables_and_long_series_stay_usable(
    tab: Callable[..., AbstractContextManager[Tab]], tmp_path: Path
) -> None:
    base = surveys()[0]
    many = [
        base._replace(task=Task(f"task {number:03}", Interval(0, 100), 1.0, unit="km"), reports=200, epochs=2)
        for number in range(300)
    ]
    wide = Survey(Task("wide", Interval(0, 1023, step=1), 2.0), "normal:500,80", "normal:500,80", 50_000, 30)
    long = Survey(
        Task("long", Interval(0, 100), 1.0, epoch_seconds=3600), "normal:50,9", "normal:50,9", 200_000, 700
    )
    with running(tmp_path, [wide, long, *many]) as site, tab(390) as window:
        window.go(f"{site.url}/")
        text = window.page.content()
        assert len(text) < 500_000
        window.check_layout()
        for name in ("wide", "long"):
            window.go(site.page(name)).settle()
            assert len(window.page.content()) < 1_500_000
            window.check_layout()
            window.check_pictures()
        window.check()
