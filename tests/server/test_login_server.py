"""Logging in to a running server: tricks with paths and headers, and a proxy."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import httpx
import pytest

from arcwise.domains import Circle
from arcwise.tasks import Task
from tests.support.apps import add_key
from tests.support.server_processes import serving

if TYPE_CHECKING:
    from pathlib import Path

HEADING = Task("heading", Circle(360), 1.0)
OURS = {"sec-fetch-site": "same-origin"}
AWAY = "reports.example"


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, str]:
    """Put a task into a folder, and a key of every scope into the store of its server."""
    HEADING.save(tmp_path / "heading.json")
    url = f"sqlite:///{tmp_path / 'server.db'}"
    return {scope: add_key(url, scope) for scope in ("ingest", "read", "admin")}


def log_in(url: str, key: str, **headers: str) -> str:
    answer = httpx.post(f"{url}/login", data={"key": key}, headers=OURS | headers)
    assert answer.status_code == 303, answer.text
    return answer.headers["set-cookie"].partition(";")[0]


def raw(url: str, head: str) -> tuple[int, bytes]:
    """Send a request unchanged; return the status (0: the connection was cut) and the answer."""
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode("latin-1"))
        try:
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
        except ConnectionResetError:
            answer = b""
    return (int(answer.split(b" ", 2)[1]) if answer else 0), answer


@pytest.mark.slow
def test_tricks_with_paths_and_headers(tmp_path: Path, keys: dict[str, str]) -> None:
    with serving(tmp_path) as (url, _):
        cookie = log_in(url, keys["admin"])
        host = url.removeprefix("http://")
        close = f"/v1/tasks/{HEADING.id}/close"
        # No path that reaches a programs' route accepts the cookie, and no other path reaches one.
        for target in (
            close,
            f"/{close}",
            close.replace("/", "%2f").replace("%2fv1", "/v1", 1),
            close.replace("v1", "%76%31"),
            f"/login/..{close}",
            f"/login/..%2f{close[1:]}",
            f"/./{close[1:]}",
            f"/x/../{close[1:]}",
            f"{close};a=b",
            f"{close}?x=/login",
            f"{close}#/login",
            f"{close}/",
            close.upper(),
            f"http://{host}{close}",
            f"http://evil.example{close}",
            f"//evil.example{close}",
            "*",
        ):
            for method in ("POST", "PUT", "GET", "get", "OPTIONS"):
                status, answer = raw(
                    url,
                    f"{method} {target} HTTP/1.1\nHost: {host}\nCookie: {cookie}\n"
                    "Sec-Fetch-Site: same-origin\nX-HTTP-Method-Override: POST\n"
                    "Content-Length: 0\nConnection: close\n\n",
                )
                assert status in (400, 401, 404, 405), (method, target, answer)
        form = f"key={keys['admin']}"
        for target in ("//login", "/login/", "/LOGIN", "/login%00", "/%2flogin", "/x/..%2flogin", "/login;x"):
            status, answer = raw(
                url,
                f"POST {target} HTTP/1.1\nHost: {host}\nSec-Fetch-Site: same-origin\nConnection: close\n"
                f"Content-Type: application/x-www-form-urlencoded\nContent-Length: {len(form)}\n\n{form}",
            )
            assert status == 404
            assert b"set-cookie" not in answer.lower()
        head = f"GET /v1/tasks HTTP/1.1\nHost: {host}\nConnection: close\n"
        for more, expected in (
            (f"Cookie: {cookie}\n", 200),
            (f"cOOKIE:{cookie}\n", 200),
            (f"Cookie: {cookie}\nCookie: {cookie}\n", 401),
            (f"Cookie: {cookie}\nAuthorization: Bearer x\n", 401),
            (f"Cookie: {cookie}\nAuthorization:\n", 401),
            (f"Cookie: {cookie}\nHost: {AWAY}\n", 401),
            (f"Cookie: {cookie}\nX-Forwarded-Host: {AWAY}\n", 401),
            (f"Cookie: {cookie}\nX-Forwarded-For: 192.0.2.1\n", 401),
            (f"Cookie: {cookie}\nX-Forwarded-Proto: https\n", 401),
            (f"Cookie : {cookie}\n", 400),
            (f"Cookie: a=b; {cookie}; {'c' * 30_000}=d\n", 200),
            (f"Cookie: {cookie}; {'c' * 40_000}=d\n", 0),
            (f"Cookie: {cookie}\n" + "Cookie: a=b\n" * 600, 0),
        ):
            status, answer = raw(url, f"{head}{more}\n")
            assert status == expected, (more[:200], answer[:300])
        assert httpx.get(f"{url}/v1/tasks", headers={"cookie": cookie}).json()["closed"] == {}


@pytest.mark.slow
def test_a_proxy_that_is_trusted_names_the_scheme_and_the_sender(
    tmp_path: Path, keys: dict[str, str]
) -> None:
    away = {"host": AWAY, "origin": f"https://{AWAY}", "x-forwarded-proto": "https"}
    with serving(tmp_path, "--trusted-proxy", "127.0.0.1") as (url, _):
        found = []
        for sender in ["192.0.2.1"] * 11 + ["192.0.2.2"]:
            headers = away | {"x-forwarded-for": sender}
            answer = httpx.post(f"{url}/login", data={"key": keys["read"]}, headers=headers)
            found.append(answer.status_code)
        assert found == [303] * 10 + [429, 303]
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-arcwise=")
        assert cookie.endswith("; Path=/; HttpOnly; SameSite=Lax; Secure")
        sent = away | {"x-forwarded-for": "192.0.2.3", "cookie": cookie.partition(";")[0]}
        assert httpx.get(f"{url}/v1/tasks", headers=sent).status_code == 200
        for wrong in (
            {"x-forwarded-proto": "http"},
            {"origin": "https://evil.example", "x-forwarded-host": "evil.example"},
            {"origin": f"https://{AWAY}:8443", "x-forwarded-port": "8443"},
        ):
            assert httpx.post(f"{url}/logout", headers=sent | wrong).status_code == 403
        assert httpx.post(f"{url}/logout", headers=sent).status_code == 303


@pytest.mark.slow
def test_a_proxy_that_is_not_trusted_is_not_believed(tmp_path: Path, keys: dict[str, str]) -> None:
    away = {"host": AWAY, "origin": f"https://{AWAY}", "x-forwarded-proto": "https"}
    with serving(tmp_path) as (url, _):
        answer = httpx.post(f"{url}/login", data={"key": keys["read"]}, headers=away)
        assert answer.status_code == 403
        assert "public_url must be the address that browsers use" in answer.json()["detail"]
    with serving(tmp_path, "--public-url", f"https://{AWAY}") as (url, _):
        answer = httpx.post(f"{url}/login", data={"key": keys["read"]}, headers=away)
        assert answer.status_code == 303
        assert answer.headers["set-cookie"].startswith("__Host-arcwise=")
