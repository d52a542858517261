"""Sessions: what a cookie permits, for how long, and everything that must not create one."""

from __future__ import annotations

import asyncio
import hashlib
import re
import threading
from contextlib import AsyncExitStack, closing
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from arcwise.domains import Circle, Interval
from arcwise.errors import StoreError
from arcwise.server import Settings
from arcwise.server.access import sessions as sessions_module
from arcwise.server.access.gate import Actor
from arcwise.server.access.keys import new_key
from arcwise.server.access.login import LOGINS_PER_MINUTE
from arcwise.server.problems import Problem
from arcwise.server.store import open_store
from arcwise.server.store.sqlite.store import SQLiteStore
from arcwise.tasks import Task
from arcwise.wire import MEDIA_TYPE
from tests.support.apps import App
from tests.support.clock import Clock
from tests.support.commands import bad, good

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from fastapi import FastAPI

    Start = Callable[..., Awaitable["Site"]]

pytestmark = pytest.mark.anyio

HEADING = Task("heading", Circle(360), 1.0)
DELAY = Task("delay", Interval(0, 1), 1.0)
LOCAL, AWAY = "http://127.0.0.1:8000", "https://reports.example"
OURS = {"sec-fetch-site": "same-origin"}
HOUR = 3600
READING = ("/v1/tasks", f"/v1/tasks/{HEADING.id}", f"/v1/tasks/{HEADING.id}/estimate")


class Site:
    """A running app, its store, its clock and its keys."""

    def __init__(self, http: App, url: str, clock: Clock, keys: dict[str, str]) -> None:
        self.app, self.runtime, self.url, self.clock, self.keys = http.app, http.runtime, url, clock, keys

    def browser(self, base: str = LOCAL, address: str = "127.0.0.1") -> httpx.AsyncClient:
        """Return a client that keeps no cookies: tests send exactly what they want."""
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=(address, 50_000))
        return httpx.AsyncClient(transport=transport, base_url=base)

    async def get(self, path: str, base: str = LOCAL, **given: Any) -> httpx.Response:
        async with self.browser(base) as http:
            return await http.get(path, **given)

    async def post(
        self, path: str, data: Any = None, base: str = LOCAL, address: str = "127.0.0.1", **given: Any
    ) -> httpx.Response:
        async with self.browser(base, address) as http:
            return await http.post(path, data=data, **given)

    async def log_in(self, scope: str = "read", base: str = LOCAL, **headers: str) -> str:
        """Log in with the key of a scope; return the cookie, name=value."""
        answer = await self.post("/login", {"key": self.keys[scope]}, base, headers=OURS | headers)
        assert answer.status_code == 303, answer.text
        return answer.headers["set-cookie"].partition(";")[0]

    async def try_key(self, key: str, address: str, headers: dict[str, str] = OURS) -> httpx.Response:
        return await self.post("/login", {"key": key}, AWAY, address, headers=headers)

    async def status(self, path: str, cookie: str, base: str = LOCAL, **headers: str) -> int:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return (await self.get(path, base, headers={"cookie": cookie} | sent)).status_code


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Return a coroutine function that starts an app whose store has a key of every scope."""
    url = f"sqlite:///{tmp_path / 'app.db'}"
    clock = Clock()
    keys = {}
    with closing(open_store(url)) as store:
        store.register([HEADING, DELAY])
        for name in ("ingest", "read", "one", "metrics", "admin"):
            scope, tasks = ("read", [HEADING.id]) if name == "one" else (name, None)
            keys[name], stored = new_key(scope, tasks=tasks, label=name, now=clock.time())
            store.add_key(stored)
    async with AsyncExitStack() as stack:

        async def started(**options: Any) -> Site:
            http = await App.start(Settings(store=url, **options), clock=clock)
            stack.push_async_callback(http.stop)
            return Site(http, url, clock, keys)

        yield started


@pytest.fixture
async def site(start: Start) -> Site:
    return await start()


def digest_of(cookie: str) -> bytes:
    return hashlib.sha256(cookie.partition("=")[2].encode()).digest()


def stored(url: str, cookie: str) -> bool:
    with closing(open_store(url, create=False)) as store:
        return store.session(digest_of(cookie)) is not None


# What a session is good for


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("read", {"/v1/tasks": 200, HEADING.id: 200, DELAY.id: 200, "/metrics": 403}),
        ("one", {"/v1/tasks": 200, HEADING.id: 200, DELAY.id: 403, "/metrics": 403}),
        ("admin", {"/v1/tasks": 200, HEADING.id: 200, DELAY.id: 200, "/metrics": 200}),
    ],
)
async def test_a_cookie_counts_like_its_key_for_reading(
    site: Site, name: str, expected: dict[str, int]
) -> None:
    cookie = await site.log_in(name)
    bearer = f"Bearer {site.keys[name]}"
    async with site.browser() as http:
        for path, status in expected.items():
            where = path if path.startswith("/") else f"/v1/tasks/{path}/estimate"
            assert (await http.get(where, headers={"authorization": bearer})).status_code == status
            assert (await http.get(where, headers={"cookie": cookie})).status_code == status
            head = await http.head(where, headers={"cookie": cookie})
            assert head.status_code in (status, 405)
        listed = (await http.get("/v1/tasks", headers={"cookie": cookie})).json()["tasks"]
        assert {task["name"] for task in listed} == ({"heading"} if name == "one" else {"heading", "delay"})


async def test_no_post_of_programs_takes_a_cookie(site: Site) -> None:
    cookie = await site.log_in("admin")
    for path in ("", f"/{HEADING.id}/close", f"/{HEADING.id}/open", f"/{HEADING.id}/reports"):
        for more in ({}, OURS, {"origin": LOCAL}):
            headers = {"cookie": cookie, "content-type": MEDIA_TYPE} | more
            answer = await site.post(f"/v1/tasks{path}", headers=headers)
            assert answer.status_code == 401
            assert answer.json()["type"] == "urn:arcwise:problem:key-missing"
    assert site.runtime.catalogue.closed == {}


async def test_the_authorization_header_wins(site: Site) -> None:
    cookie = await site.log_in("read")
    for header, status in (
        ("Bearer nonsense", 401),
        ("", 401),
        ("Basic cmVhZDpyZWFk", 401),
        (f"Bearer {site.keys['ingest']}", 403),
        (f"Bearer {site.keys['read']}", 200),
    ):
        assert await site.status("/v1/tasks", cookie, authorization=header) == status
    assert (
        await site.status("/v1/tasks", "arcwise-session=gone", authorization=f"Bearer {site.keys['one']}")
        == 200
    )
    both = [("cookie", cookie), ("authorization", f"Bearer {site.keys['read']}")]
    assert (await site.get("/v1/tasks", headers=[*both, both[1]])).status_code == 401


PLAIN = "http://192.0.2.7:8000"


@pytest.mark.parametrize(
    ("key", "base", "headers", "options", "kind", "words"),
    [
        ("ingest", LOCAL, OURS, {}, "key-scope", ""),
        ("metrics", LOCAL, OURS, {}, "key-scope", ""),
        (
            "read",
            PLAIN,
            {"origin": PLAIN},
            {},
            "https-needed",
            "Log in over HTTPS, or on the server's own machine: ",
        ),
        # Such as a worker behind the proxy, through a tunnel.
        (
            "read",
            LOCAL,
            OURS | {"origin": LOCAL},
            {"public_url": AWAY},
            "https-needed",
            f"Log in at {AWAY}: ",
        ),
    ],
    ids=["key of apps", "key of programs", "plain http", "another address"],
)
async def test_who_cannot_log_in(
    start: Start,
    key: str,
    base: str,
    headers: dict[str, str],
    options: dict[str, str],
    kind: str,
    words: str,
) -> None:
    site = await start(**options)
    answer = await site.post("/login", {"key": site.keys[key]}, base, headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (403, f"urn:arcwise:problem:{kind}")
    assert words in answer.json()["detail"]
    assert "set-cookie" not in answer.headers


async def test_what_is_no_good_key_cannot_log_in(site: Site) -> None:
    good = site.keys["read"]
    last = "0" if good[-1] != "0" else "1"
    revoked, key = new_key("read", now=0)
    site.runtime.store().add_key(key)
    site.runtime.store().revoke_key(key.id, 1)
    told = set()
    for number, sent in enumerate(
        ("", good[:-1] + last, good.replace("read", "admin"), revoked, "arcwise_read_0_0", "\ud83d" * 4)
    ):
        form = {"key": sent.encode("utf-8", "surrogatepass")}
        answer = await site.post("/login", data=form, headers=OURS, address=f"127.0.0.{number + 1}")
        assert "set-cookie" not in answer.headers
        assert good not in answer.text
        told.add((answer.status_code, answer.text))
    assert len(told) == 1
    assert next(iter(told))[0] == 401


async def test_a_key_that_was_made_a_moment_ago_can_log_in(site: Site) -> None:
    site.keys["new"], key = new_key("read", now=0)
    site.runtime.store().add_key(key)
    assert await site.status("/v1/tasks", await site.log_in("new")) == 200


# Fixation


async def test_the_token_is_new_at_each_login_and_the_one_before_ends(site: Site) -> None:
    first = await site.log_in()
    second = await site.log_in(cookie=first)
    assert first != second
    assert not stored(site.url, first)
    assert await site.status("/v1/tasks", first) == 401
    assert await site.status("/v1/tasks", second) == 200
    assert len({await site.log_in() for _ in range(5)}) == 5
    # A token from before the login is never taken over.
    made_up = "arcwise-session=" + "A" * 64
    attackers = await site.log_in("one")  # a session that another user has, and plants
    for planted in (made_up, attackers):
        cookie = await site.log_in("admin", cookie=planted)
        assert cookie != planted
        assert await site.status("/v1/tasks", planted) == 401


async def test_the_store_has_no_token(site: Site, tmp_path: Path) -> None:
    cookie = await site.log_in()
    token = cookie.partition("=")[2]
    assert re.fullmatch(r"[A-Za-z0-9_-]{64}", token)
    files = b"".join(path.read_bytes() for path in tmp_path.glob("app.db*"))
    assert token.encode() not in files
    assert hashlib.sha256(token.encode()).digest() in files


# Cookie flags


async def test_the_flags_of_the_cookie(site: Site) -> None:
    for base, name, secure in ((LOCAL, "arcwise-session", ""), (AWAY, "__Host-arcwise", "; Secure")):
        flags = f"Path=/; HttpOnly; SameSite=Lax{secure}"
        async with site.browser(base) as http:
            answer = await http.post("/login", data={"key": site.keys["read"]}, headers=OURS)
            begun = answer.headers["set-cookie"]
            assert re.fullmatch(rf"{name}=[\w-]{{64}}; {flags}", begun)
            assert answer.headers["cache-control"] == "no-store"
            cookie = begun.partition(";")[0]
            assert (await http.get("/v1/tasks", headers={"cookie": cookie})).status_code == 200
            answer = await http.post("/logout", headers=OURS | {"cookie": cookie})
            assert answer.headers["set-cookie"] == f"{name}=; {flags}; Max-Age=0"


async def test_a_cookie_without_secure_counts_on_this_machine_only(site: Site) -> None:
    """A subdomain can set a cookie for its parents, but not one with __Host-."""
    local, away = await site.log_in(base=LOCAL), await site.log_in(base=AWAY)
    swapped = {
        LOCAL: "__Host-arcwise=" + away.partition("=")[2],
        AWAY: "arcwise-session=" + local.partition("=")[2],
    }
    for base, cookie in swapped.items():
        assert await site.status("/v1/tasks", cookie, base) == 401
    # As through a proxy on this machine that asks for a loopback name.
    for header in ("x-forwarded-for", "x-forwarded-host", "forwarded", "via", "x-real-ip"):
        assert await site.status("/v1/tasks", local, **{header: "127.0.0.1"}) == 401


async def test_a_public_url_says_which_cookie_it_is(start: Start) -> None:
    site = await start(public_url=AWAY)
    # A proxy that adds no header and asks for a loopback name must not make the cookie less secure.
    assert (await site.log_in(base=LOCAL)).startswith("__Host-arcwise=")


# Invalid cookies


async def test_tricks_with_cookies(site: Site) -> None:
    good, other = await site.log_in("read"), await site.log_in("admin")
    value = good.partition("=")[2]
    for cookie, status in (
        (good, 200),
        (f"a=b; {good}; c=d", 200),
        (f"a=b;{good};", 200),
        (f"{good}; {good}", 401),
        (f"{good}; {other}", 401),
        (f"{good}; arcwise-session=", 401),
        (f"arcwise-session; {good}", 200),
        (f'arcwise-session="{value}"', 401),
        (f"arcwise-session ={value}", 401),
        (f"ARCWISE-SESSION={value}", 401),
        (f"xarcwise-session={value}", 401),
        (f"arcwise-session={value}x", 401),
        (f"arcwise-session={value[:-1]}", 401),
        (f"arcwise-session={value[:-1]}%41", 401),
        (f"arcwise-session={value[::-1]}", 401),
        (f"arcwise-session={digest_of(good).hex()}", 401),
        (f"arcwise-session={'é' * 32}".encode(), 401),
        (f"arcwise-session={'é' * 64}".encode("latin-1"), 401),
        ("arcwise-session=" + "A" * 30_000, 401),
        (";" * 30_000, 401),
        ("=" * 30_000, 401),
    ):
        sent = [(b"cookie", cookie.encode() if isinstance(cookie, str) else cookie)]
        assert (await site.get("/v1/tasks", headers=sent)).status_code == status, cookie[:60]
    async with site.browser() as http:
        for pair, status in (((good, "a=b"), 200), ((good, good), 401), ((other, good), 401)):
            headers = [("cookie", cookie) for cookie in pair]
            assert (await http.get("/v1/tasks", headers=headers)).status_code == status
        for name in ("x-cookie", "set-cookie", "cookie2"):
            assert (await http.get("/v1/tasks", headers={name: good})).status_code == 401
        assert (await http.get(f"/v1/tasks?{good}")).status_code == 401


async def test_a_cookie_counts_for_the_pages_of_this_origin_only(site: Site) -> None:
    """Another port of this machine is the same site, so the browser sends the cookie along."""
    cookie = await site.log_in()
    for where, mode, dest, status in (
        ("same-origin", "cors", "empty", 200),
        ("same-origin", "no-cors", "image", 200),
        ("none", "navigate", "document", 200),
        ("same-site", "navigate", "document", 200),  # somebody followed a link
        ("cross-site", "navigate", "document", 200),
        ("same-site", "no-cors", "image", 401),
        ("same-site", "cors", "empty", 401),
        ("same-site", "navigate", "iframe", 401),
        ("cross-site", "no-cors", "script", 401),
    ):
        headers = {"sec_fetch_site": where, "sec_fetch_mode": mode, "sec_fetch_dest": dest}
        assert await site.status("/v1/tasks", cookie, **headers) == status


async def test_made_up_cookies_cost_no_reading_of_the_store(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bytes] = []
    real = SQLiteStore.session

    def watched(store: SQLiteStore, digest: bytes) -> Any:
        read.append(digest)
        return real(store, digest)

    monkeypatch.setattr(SQLiteStore, "session", watched)

    for number in range(50):
        token = hashlib.sha512(b"%d" % number).hexdigest()[:64]
        assert await site.status("/v1/tasks", f"arcwise-session={token}") == 401
    assert read == []
    good = await site.log_in()
    for _ in range(20):
        assert await site.status("/v1/tasks", good) == 200
    assert read == [digest_of(good)]
    site.clock.wait(sessions_module._REFRESH_SECONDS)
    assert await site.status("/v1/tasks", good) == 200
    assert len(read) == 2
    gone = await site.log_in()
    site.runtime.store().end_session(digest_of(gone))
    for _ in range(20):  # one of our tokens, but expired
        assert await site.status("/v1/tasks", gone) == 401
    assert len(read) == 3


async def test_what_is_remembered_of_sessions_is_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "_MOST_KNOWN", 3)

    cookies = [await site.log_in() for _ in range(6)]
    for cookie in cookies * 2:
        assert await site.status("/v1/tasks", cookie) == 200
        assert len(site.runtime.sessions._known) <= 3


# Ends


async def test_a_session_ends_when_it_is_not_used(site: Site) -> None:
    cookie = await site.log_in()
    for _ in range(3):
        site.clock.wait(HOUR - 61)
        assert await site.status("/v1/tasks", cookie) == 200
        while site.runtime.sessions._telling:
            await asyncio.sleep(0.001)
    site.clock.wait(HOUR)
    assert await site.status("/v1/tasks", cookie) == 401
    assert stored(site.url, cookie)
    site.runtime.tidy()
    assert not stored(site.url, cookie)


FETCHED = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}


@pytest.mark.parametrize(
    ("options", "headers", "waits"),
    [
        pytest.param({}, {}, [HOUR / 2] * 24, id="however much it is used"),
        pytest.param({}, FETCHED, [HOUR / 6] * 6, id="used by what a page fetches by itself"),
        pytest.param({"session_seconds": 10, "session_idle_seconds": 5}, {}, [4, 4, 2], id="by settings"),
    ],
)
async def test_a_session_ends(
    start: Start, options: dict[str, float], headers: dict[str, str], waits: list[float]
) -> None:
    site = await start(**options)
    headers = headers | {"cookie": await site.log_in()}
    for wait in waits:
        assert (await site.get("/v1/tasks", headers=headers)).status_code == 200
        site.clock.wait(wait)
    answer = await site.get("/v1/tasks", headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (401, "urn:arcwise:problem:session-ended")


async def test_logging_out_ends_a_session_for_everybody_who_has_its_token(start: Start) -> None:
    site, other = await start(), await start()
    cookie = await site.log_in()
    assert await other.status("/v1/tasks", cookie) == 200
    answer = await site.post("/logout", headers=OURS | {"cookie": cookie})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert not stored(site.url, cookie)
    assert await site.status("/v1/tasks", cookie) == 401
    site.clock.wait(sessions_module._REFRESH_SECONDS)
    assert await other.status("/v1/tasks", cookie) == 401


async def test_logging_out_holds_for_a_request_that_reads_the_session_meanwhile(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[bytes] = []
    has_read, may_go_on = threading.Event(), threading.Event()
    real = SQLiteStore.session

    def slow(store: SQLiteStore, digest: bytes) -> Any:
        found = real(store, digest)
        calls.append(digest)
        if len(calls) == 1:
            has_read.set()
            assert may_go_on.wait(60)
        return found

    cookie = await site.log_in()
    monkeypatch.setattr(SQLiteStore, "session", slow)
    reading = asyncio.create_task(site.status("/v1/tasks", cookie))
    assert await asyncio.to_thread(has_read.wait, 60)
    answer = await site.post("/logout", headers=OURS | {"cookie": cookie})
    assert answer.status_code == 303
    may_go_on.set()
    assert await reading == 401
    assert await site.status("/v1/tasks", cookie) == 401


async def test_logging_out_without_a_session_is_no_error(site: Site) -> None:
    for cookie in ("a=b", "arcwise-session=" + "A" * 64):
        assert (await site.post("/logout", headers=OURS | {"cookie": cookie})).status_code == 303


class Compared(str):
    """A string that counts how often any instance was compared."""

    __slots__ = ()
    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def test_a_key_for_thousands_of_tasks_is_looked_up_in_once_for_each() -> None:
    ids = [Compared(f"{n:064x}") for n in range(2000)]
    _, stored = new_key("read", tasks=tuple(ids), label="", now=0)
    actor = Actor(stored)
    Compared.times = 0
    found = actor.readable([*map(Compared, map(str, ids)), "another"])
    assert Compared.times < 2 * len(ids)
    assert found == ids


async def test_revoking_a_key_ends_its_sessions(start: Start) -> None:
    site, other = await start(), await start()
    cookie, kept = await site.log_in("read"), await site.log_in("one")
    assert await other.status("/v1/tasks", cookie) == 200
    actor = Actor(site.runtime.gate.key(site.keys["admin"].encode()))
    await site.runtime.administration.revoke_key(actor, site.keys["read"].split("_")[2])
    assert await site.status("/v1/tasks", cookie) == 401  # immediately
    assert not stored(site.url, cookie)
    other.runtime.refresh()  # as it does every five seconds
    assert await other.status("/v1/tasks", cookie) == 401
    assert await site.status("/v1/tasks", kept) == 200


async def test_a_session_of_a_key_that_was_revoked_meanwhile_is_none(site: Site) -> None:
    """Even if it is still in the store, because a login may end just after its key was revoked."""
    cookie = await site.log_in("read")
    session = site.runtime.store().session(digest_of(cookie))
    site.runtime.store().revoke_key(session.key_id, 1)
    site.runtime.store().add_session(session)
    site.runtime.refresh()
    assert stored(site.url, cookie)
    assert await site.status("/v1/tasks", cookie) == 401


async def test_a_store_that_is_away_ends_no_session_that_is_known(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_store: SQLiteStore, _digest: bytes) -> None:
        raise StoreError("away")

    known, unknown = await site.log_in(), await site.log_in()
    assert await site.status("/v1/tasks", known) == 200
    monkeypatch.setattr(SQLiteStore, "session", away)
    site.clock.wait(HOUR / 2)
    assert await site.status("/v1/tasks", known) == 200
    assert await site.status("/v1/tasks", unknown) == 503
    assert await site.status("/health/live", unknown) == 200
    site.clock.wait(HOUR)
    assert await site.status("/v1/tasks", known) == 401


# Brute force


async def test_failures_are_limited_per_address_and_hold_up_no_good_key(site: Site) -> None:
    most, _ = LOGINS_PER_MINUTE

    # Forms of other sites, which the browser of an admin sends from their address, do not count.
    foreign = {"sec-fetch-site": "cross-site"}
    found = [(await site.try_key("", "192.0.2.1", foreign)).status_code for _ in range(3 * most)]
    assert found == [403] * 3 * most
    found = [(await site.try_key("nonsense", "192.0.2.1")).status_code for _ in range(most + 1)]
    assert found == [401] * most + [429]
    answer = await site.try_key("nonsense", "192.0.2.1")
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    # A user with a good key gets in from the same address, but only that often.
    found = [(await site.try_key(site.keys["admin"], "192.0.2.1")).status_code for _ in range(most + 1)]
    assert found == [303] * most + [429]
    for key, address in (("read", "192.0.2.1"), ("admin", "192.0.2.2")):
        assert (await site.try_key(site.keys[key], address)).status_code == 303
    site.clock.wait(60 / most)
    assert (await site.try_key("nonsense", "192.0.2.1")).status_code == 401
    # Somebody with IPv6 has 2^64 addresses, which count as one.
    found = [(await site.try_key("nonsense", f"2001:db8::{n:x}")).status_code for n in range(1, most + 2)]
    assert found == [401] * most + [429]


async def test_logins_are_limited_in_all(site: Site) -> None:
    _, most = LOGINS_PER_MINUTE
    addresses = [f"192.0.{number // 256}.{number % 256}" for number in range(most + 2)]
    found = [(await site.try_key("", address)).status_code for address in addresses]
    # The clock is so late that sums of fractions of a second are off by the last one.
    assert found[: most - 1] == [401] * (most - 1)
    assert found[most:] == [429] * 2


async def test_addresses_that_are_claimed_do_not_count(site: Site) -> None:
    most, _ = LOGINS_PER_MINUTE
    found = []
    for number in range(most + 1):
        claimed = {"x-forwarded-for": f"192.0.2.{number}", "x-real-ip": f"192.0.2.{number}"}
        found.append((await site.try_key("", "192.0.2.200", OURS | claimed)).status_code)
    assert found == [401] * most + [429]


# Where a login leads, and what it takes


@pytest.mark.parametrize(
    ("wanted", "led"),
    [
        ("/tasks/heading?level=0.9&from=2026-01-01#cdf", "/tasks/heading?level=0.9&from=2026-01-01#cdf"),
        ("/", "/"),
        ("//evil.example", "/"),
        ("///evil.example", "/"),
        ("/\\evil.example", "/"),
        ("\\\\evil.example", "/"),
        ("/\t/evil.example", "/"),
        ("/\n/evil.example", "/"),
        ("\t//evil.example", "/"),
        ("https://evil.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\r\nSet-Cookie: a=b", "/"),
        ("/ä", "/"),
        ("", "/"),
        ("tasks", "/"),
    ],
)
async def test_a_login_leads_to_a_page_of_this_server(site: Site, wanted: str, led: str) -> None:
    answer = await site.post("/login", {"key": site.keys["read"], "next": wanted}, headers=OURS)
    assert (answer.status_code, answer.headers["location"]) == (303, led)


@pytest.mark.parametrize(
    ("media_type", "content", "status"),
    [
        ("application/json", b"{}", 415),
        ("text/plain", b"key=x", 415),
        ("multipart/form-data; boundary=x", b"--x--", 415),
        ("", b"key=x", 415),
        ("application/x-www-form-urlencoded", b"key=" + b"x" * 5000, 413),
        ("application/x-www-form-urlencoded", b"key=%ff%fe", 422),
        ("application/x-www-form-urlencoded", "key=ä".encode(), 422),
        ("application/x-www-form-urlencoded", b"&" * 2000, 422),
        ("application/x-www-form-urlencoded", b"a=&" * 1200, 422),
        ("application/x-www-form-urlencoded; charset=utf-8", b"key=x", 401),
        ("application/x-www-form-urlencoded", b"", 401),
        ("application/x-www-form-urlencoded", b"key=a&key=b", 401),
    ],
)
async def test_a_login_takes_a_small_form(site: Site, media_type: str, content: bytes, status: int) -> None:
    headers = OURS | {"content-type": media_type}
    assert (await site.post("/login", content=content, headers=headers)).status_code == status


# Forms of other origins


ORIGINS = {
    "another origin": "https://evil.example",
    "another port": "https://reports.example:8443",
    "a subdomain": "https://evil.reports.example",
    "a parent": "https://example",
    "another scheme": "http://reports.example",
    "no origin": "null",
    "a prefix": "https://reports.example.evil.example",
    "upper case": "https://REPORTS.example",
    "nothing": "",
}


def forms(app: FastAPI) -> list[str]:
    """Return the paths of everything that a form can be sent to."""
    paths = set()
    routers = [getattr(route, "original_router", None) for route in app.routes]
    for route in [*app.routes, *(each for router in routers if router for each in router.routes)]:
        path, methods = getattr(route, "path", ""), getattr(route, "methods", None) or set()
        # The others are for programs, which send no cookie.
        if "POST" in methods and not path.startswith(("/v1/", "/.well-known/")):
            paths.add(path)
    assert paths >= {"/login", "/logout"}
    return sorted(re.sub(r"\{[^}]*\}", "x", path) for path in paths)


@pytest.mark.parametrize("origin", ORIGINS)
async def test_forms_of_other_origins_are_refused(start: Start, origin: str) -> None:
    """Each of them with the cookie of an admin: with Sec-Fetch-Site, with Origin, with both and neither."""
    site = await start(session_idle_seconds=12 * HOUR)
    cookie = await site.log_in("admin", AWAY)
    before = site.runtime.store().actions(100)
    sent = ORIGINS[origin]
    for site_of in (
        "cross-site",
        "same-site",
        "none",
        "",
        None,
        "same-origin, same-origin",
        "Same-Origin",
    ):
        headers = {"cookie": cookie}
        if sent:
            headers["origin"] = sent
        if site_of is not None:
            headers["sec-fetch-site"] = site_of
        for path in forms(site.app):
            site.clock.wait(60)
            form = {"key": site.keys["read"], "task": "{}", "scope": "admin"}
            answer = await site.post(path, form, AWAY, f"192.0.2.{len(path)}", headers=headers)
            assert answer.status_code == 403, (path, site_of)
            assert "set-cookie" not in answer.headers
    assert stored(site.url, cookie)
    assert site.runtime.store().actions(100) == before
    assert site.runtime.catalogue.closed == {}


async def test_the_gate_takes_a_cookie_of_a_form_of_its_own_only(site: Site) -> None:
    """Even if a handler forgets: asking the gate for the actor of a form also checks the form's origin."""
    cookie = await site.log_in("admin")
    session = site.runtime.store().session(digest_of(cookie))
    for path in ("/operator/tasks", "/", "/v1", "/v1x/tasks"):
        for method in ("POST", "PUT", "PATCH", "DELETE", "post", "get"):
            for ask in (site.runtime.gate.actor, lambda scope: site.runtime.gate.check(scope, "admin")):
                scope = {"type": "http", "method": method, "path": path, "arcwise.session": session}
                host = (b"host", b"127.0.0.1:8000")
                assert ask(scope | {"headers": [host, (b"sec-fetch-site", b"same-origin")]})
                for sent in (
                    (b"sec-fetch-site", b"same-site"),
                    (b"origin", b"http://127.0.0.1:8001"),
                    host,
                ):
                    with pytest.raises(Problem, match="A form must be sent from a page of this server"):
                        ask(scope | {"headers": [(b"host", b"127.0.0.1:8000"), sent]})


@pytest.mark.parametrize(
    ("base", "options", "headers", "status"),
    [
        (AWAY, {}, [*OURS.items()], 303),
        (AWAY, {}, [("origin", AWAY)], 303),
        (AWAY, {}, [*OURS.items(), ("origin", AWAY)], 303),
        # A false Origin does not override the browser's Sec-Fetch-Site.
        (AWAY, {}, [("sec-fetch-site", "same-site"), ("origin", AWAY)], 403),
        (AWAY, {}, [("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")], 403),
        (AWAY, {}, [("origin", AWAY), ("origin", "https://evil.example")], 403),
        # Behind a proxy, which asks like this, the public URL is the origin.
        ("http://127.0.0.1:8001", {"public_url": AWAY}, [("origin", AWAY)], 303),
        ("http://127.0.0.1:8001", {"public_url": AWAY}, [("origin", "http://127.0.0.1:8001")], 403),
    ],
)
async def test_forms_of_the_own_origin_are_taken(
    start: Start, base: str, options: dict[str, str], headers: list[tuple[str, str]], status: int
) -> None:
    site = await start(**options)
    assert (await site.post("/logout", base=base, headers=headers)).status_code == status


# Without keys, and open servers


async def test_without_keys_nobody_logs_in_and_nothing_can_be_changed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    http = await App.start(Settings([HEADING], store=url), base_url=LOCAL)
    assert (await http.get("/v1/tasks")).status_code == 200
    for path in forms(http.app):
        answer = await http.post(path, data={"key": "", "scope": "admin"}, headers=OURS)
        assert answer.status_code in (401, 403, 303)
        assert (answer.status_code == 303) == (path == "/logout")
    assert http.runtime.store().keys() == []
    assert http.runtime.store().actions(10) == []
    # A page under another name that points here cannot read anything either.
    for host in ("evil.example:8000", "127.0.0.1.evil.example"):
        for headers in ({}, OURS, OURS | {"origin": f"http://{host}"}):
            answer = await http.get("/v1/tasks", headers={"host": host} | headers)
            assert answer.status_code == 401
    await http.stop()


async def test_an_admin_can_log_in_to_an_open_server(start: Start) -> None:
    site = await start(open=True)
    cookie = await site.log_in("admin")

    def actor() -> Any:
        scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
        return site.runtime.gate.actor(scope | {"arcwise.session": session})

    session = site.runtime.store().session(digest_of(cookie))
    assert actor().may("admin")
    session = None  # its cookie has expired
    found = actor()
    assert (found.key, found.session, found.key_id) == (None, None, "")
    assert found.may("read")
    assert not found.may("admin")
    assert await site.status("/v1/tasks", "arcwise-session=over") == 200


# The audit log


async def test_who_changed_what_is_in_the_audit_log(site: Site) -> None:
    admin = site.keys["admin"].split("_")[2]
    other = Task("speed", Interval(0, 9), 1.0)
    bearer = {"authorization": f"Bearer {site.keys['admin']}"}
    reader = await site.log_in("read")  # readers change nothing
    assert (await site.post("/logout", headers=OURS | {"cookie": reader})).status_code == 303
    await site.log_in("admin")
    async with site.browser() as http:
        for _ in range(2):
            assert (await http.post("/v1/tasks", json=other.to_json(), headers=bearer)).status_code < 300
            assert (await http.post(f"/v1/tasks/{other.id}/close", headers=bearer)).status_code == 200
        assert (await http.post(f"/v1/tasks/{other.id}/open", headers=bearer)).status_code == 200
        assert (await http.post("/v1/tasks", content=b"{}", headers=bearer)).status_code == 422
    found = [entry for _, entry in site.runtime.store().actions(100)][::-1]
    assert [(entry.action, entry.subject, entry.outcome) for entry in found] == [
        ("log in", admin, "done"),
        ("make task", other.id, "done"),
        ("close task", other.id, "done"),
        ("close task", other.id, "unchanged"),
        ("open task", other.id, "done"),
    ]
    assert {entry.key_id for entry in found} == {admin}
    assert {entry.time for entry in found} == {int(site.clock.time())}


async def test_a_change_that_fails_and_one_without_an_entry(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StoreError("away")

    bearer = {"authorization": f"Bearer {site.keys['admin']}"}
    async with site.browser() as http:
        with monkeypatch.context() as patch:
            patch.setattr(SQLiteStore, "close_task", away)
            assert (await http.post(f"/v1/tasks/{DELAY.id}/close", headers=bearer)).status_code == 503
        assert [entry.outcome for _, entry in site.runtime.store().actions(10)] == ["failed"]
        with monkeypatch.context() as patch:
            patch.setattr(SQLiteStore, "begin_action", away)
            assert (await http.post(f"/v1/tasks/{DELAY.id}/close", headers=bearer)).status_code == 503
    site.runtime.refresh()
    assert site.runtime.catalogue.closed == {}


async def test_a_clock_that_is_ahead_for_a_moment_deletes_nothing_and_lets_no_session_live_on(
    site: Site,
) -> None:
    early, used = await site.log_in("admin"), await site.log_in()
    site.clock.step(1800)
    assert await site.status(READING[0], used) == 200
    site.clock.step(800 * 86_400)
    late = await site.log_in()
    site.runtime.tidy()
    site.clock.step(-800 * 86_400 - 1800)
    assert len(site.runtime.store().actions(10)) == 1
    assert await site.status("/operator", early) == 200
    for days in range(3):
        for cookie in (used, late):
            assert await site.status(READING[0], cookie) == 401, days
        site.clock.wait(86_400)


async def test_entries_are_kept_as_long_as_the_setting_says(start: Start) -> None:
    site = await start(audit_retention_days=3)
    await site.log_in("admin")
    site.clock.wait(3 * 86_400 - 1)
    site.runtime.tidy()
    assert len(site.runtime.store().actions(10)) == 1
    site.clock.wait(2)
    site.runtime.tidy()
    assert site.runtime.store().actions(10) == []


def test_commands_are_in_the_audit_log_and_list_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'app.db'}"
    key = good("key", "new", "--scope", "metrics", "--store", url).strip()
    name = key.split("_")[2]
    good("key", "revoke", name, "--store", url)
    for refused in (name, "nobody"):
        bad("key", "revoke", refused, "--store", url)
    lines = good("store", "audit", url).splitlines()
    assert [line.split("  ", 1)[1] for line in lines] == [
        f"command       revoke key  {name}  unchanged",
        f"command       revoke key  {name}  done",
        f"command       make metrics key  {name}  done",
    ]
    assert key.split("_")[3] not in "".join(lines)
    assert len(good("store", "audit", url, "--most", "2").splitlines()) == 2
    assert '"action": "make metrics key"' in good("store", "audit", url, "--json")


async def test_a_server_lets_the_store_remember_its_least_number_of_reports(start: Start) -> None:
    site = await start(min_reports=50, min_reports_days=1)
    assert site.runtime.store().recall("min_reports") == 50
    assert site.runtime.store().recall("min_reports_days") == 1
