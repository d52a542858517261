"""Logging in with a real browser, and what pages of other origins may do to a user who is logged in."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from arcwise.server.access.keys import new_key
from arcwise.server.store import open_store
from tests.support.chromium import PHONE
from tests.support.page_stores import MILLION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.chromium import Tab
    from tests.support.sites import Site


class Stranger:
    """A server on another port, with one page, which records the cookies that it gets."""

    def __init__(self) -> None:
        self.page = ""
        self.cookies: list[str] = []


@pytest.fixture
def stranger() -> Iterator[tuple[str, Stranger]]:
    noted = Stranger()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            noted.cookies.append(self.headers.get("Cookie", ""))
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(noted.page.encode())

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", noted
        server.shutdown()


def test_a_key_opens_what_was_asked_for_and_leaves_no_trace(
    tab: Callable[..., Any], keyed_site: Site
) -> None:
    with tab(PHONE) as window:
        page = window.page
        window.expected.add(401)
        window.log_in(keyed_site.page(MILLION), keyed_site.keys["read"])
        assert page.url == keyed_site.page(MILLION)
        assert page.get_by_role("heading", level=1).inner_text() == MILLION
        (cookie,) = window.context.cookies()
        assert cookie["httpOnly"]
        assert cookie["sameSite"] in {"Lax", "Strict"}
        assert cookie["value"] not in page.content()
        assert page.evaluate("document.cookie") == ""
        assert page.evaluate("localStorage.length + sessionStorage.length") == 0
        assert keyed_site.keys["read"] not in page.content()
        # A read key does not operate.
        assert not page.get_by_role("link", name="Operator").count()
        window.go(f"{keyed_site.url}/operator", expect=403)
        page.get_by_role("button", name="Log out").click()
        window.go(f"{keyed_site.url}/", expect=401)
        window.check()


@pytest.mark.parametrize("key", ["wrong", "revoked", "ingest"])
def test_a_key_that_opens_nothing_is_refused_in_words(
    tab: Callable[..., Any], keyed_site: Site, key: str
) -> None:
    with tab() as window:
        window.expected |= {400, 401, 403}
        window.log_in(f"{keyed_site.url}/", keyed_site.keys.get(key, "arcwise_read_000000000000_" + "0" * 64))
        alert = window.page.get_by_role("alert")
        assert alert.is_visible()
        assert alert.inner_text().strip()
        assert not [each for each in window.context.cookies() if each["value"]]
        assert window.page.get_by_label("Key", exact=True).input_value() == ""
        window.check_layout()
        window.check_axe()
        window.check()


def _open_own(window: Tab, site: Site, scope: str = "read") -> str:
    """Log in with a key of this test alone, and return its id."""
    with closing(open_store(site.store)) as store:
        secret, stored = new_key(scope, label="of a test", now=0.0)
        store.add_key(stored)
    for _ in range(60):  # servers look at the keys every few seconds
        window.expected |= {401, 429}
        window.log_in(f"{site.url}/", secret)
        if not window.page.get_by_label("Key", exact=True).count():
            return stored.id
        window.page.wait_for_timeout(1000)
    raise AssertionError("the key is not accepted")


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["revoked", "expired"])
def test_a_session_that_ended_leads_to_the_login(
    tab: Callable[..., Any], keyed_site: Site, ending: str
) -> None:
    with tab() as window:
        name = _open_own(window, keyed_site)
        window.go(keyed_site.page(MILLION))
        if ending == "revoked":
            with closing(open_store(keyed_site.store)) as store:
                assert store.revoke_key(name, 1)
        else:  # as if it had ended long ago; a test with a movable clock shows how an idle one ends
            with closing(sqlite3.connect(keyed_site.folder / "server.db")) as database, database:
                database.execute("UPDATE session SET ends = 1000")
        for _ in range(60):
            answer = window.page.goto(keyed_site.page(MILLION))
            if answer.status == 401:
                break
            window.page.wait_for_timeout(1000)
        assert window.page.get_by_label("Key", exact=True).is_visible()
        window.check()


@pytest.mark.slow
def test_another_port_gets_the_cookie_but_its_posts_are_refused(
    tab: Callable[..., Any], keyed_site: Site, stranger: tuple[str, Stranger]
) -> None:
    """SameSite does not distinguish ports; Sec-Fetch-Site or Origin is the reason to refuse these posts."""
    url, noted = stranger
    with tab() as window:
        window.log_in(f"{keyed_site.url}/operator", keyed_site.keys["admin"])
        cookie = window.context.cookies()[0]
        with closing(open_store(keyed_site.store)) as store:
            before = (len(store.keys()), [each.closed for each in store.tasks()])
        task = keyed_site.tasks[MILLION].id
        forms = [
            ("/operator/keys", "<input name=label value=x><input name=scope value=admin>"),
            (f"/operator/tasks/{task}/close", ""),
            ("/operator/tasks", "<textarea name=task>{}</textarea>"),
            ("/logout", ""),
        ]
        for path, fields in forms:
            form = f"<form method=post action='{keyed_site.url}{path}'>{fields}<button>go</button></form>"
            noted.page = f"<!doctype html>{form}"
            window.expected |= {403, 404}
            window.page.goto(url)
            assert cookie["value"] in noted.cookies[-1 if len(noted.cookies) == 1 else -2]
            with window.page.expect_navigation() as navigation:
                window.page.get_by_role("button").click()
            assert navigation.value.status == 403, path
        # And requests that a script of that page sends.
        window.page.goto(url)
        answered = window.page.evaluate(
            "([url, path]) => fetch(url + path, {method: 'POST', credentials: 'include', mode: 'no-cors',"
            " body: new URLSearchParams({label: 'x', scope: 'admin'})}).then((answer) => answer.type)",
            [keyed_site.url, "/operator/keys"],
        )
        assert answered == "opaque"
        with closing(open_store(keyed_site.store)) as store:
            assert (len(store.keys()), [each.closed for each in store.tasks()]) == before
        # The session itself is still valid.
        window.go(f"{keyed_site.url}/operator")


@pytest.mark.slow
def test_no_page_can_be_framed_or_read_by_another_origin(
    tab: Callable[..., Any], keyed_site: Site, stranger: tuple[str, Stranger]
) -> None:
    url, noted = stranger
    noted.page = f"<!doctype html><iframe src='{keyed_site.url}/'></iframe>"
    with tab() as window:
        window.log_in(f"{keyed_site.url}/", keyed_site.keys["read"])
        window.page.goto(url)
        assert MILLION not in "".join(
            frame.evaluate("document.documentElement ? document.documentElement.innerText : ''")
            for frame in window.page.frames[1:]
        )
        read = window.page.evaluate(
            "(url) => fetch(url, {credentials: 'include'}).then(() => 'read', () => 'refused')",
            f"{keyed_site.url}/v1/tasks",
        )
        assert read == "refused"


@pytest.mark.slow
def test_what_another_port_embeds_comes_without_a_session(
    tab: Callable[..., Any], keyed_site: Site, stranger: tuple[str, Stranger]
) -> None:
    url, noted = stranger
    path = f"/v1/tasks/{keyed_site.tasks[MILLION].id}/picture.svg"
    with tab() as window:
        window.log_in(f"{keyed_site.url}/", keyed_site.keys["read"])
        noted.page = f"<!doctype html><img src='{keyed_site.url}{path}' alt='' id=embedded>"
        window.page.goto(url, wait_until="load")
        assert (path, 200) not in window.statuses
        assert window.page.evaluate("document.getElementById('embedded').naturalWidth") == 0
        window.go(keyed_site.url + path)  # a user who is logged in has a picture


@pytest.mark.slow
def test_keys_and_tasks_are_managed_with_a_browser(tab: Callable[..., Any], keyed_site: Site) -> None:
    with tab() as window:
        page = window.page
        window.log_in(f"{keyed_site.url}/operator", keyed_site.keys["admin"])
        page.locator("#new-key > summary").click()
        page.get_by_label("Name, for people").fill("<b>made in a browser</b>")
        page.get_by_label("Scope").select_option("read")
        page.get_by_role("button", name="Make the key").click()
        page.wait_for_load_state("load")
        text = page.locator("main").inner_text()
        assert "arcwise_read_" in text
        window.check_layout()
        window.check_axe()
        # The key is shown once: neither a reload nor the way back brings it again.
        window.go(f"{keyed_site.url}/operator")
        secret = next(word for word in text.split() if word.startswith("arcwise_read_"))
        assert secret not in page.content()
        assert "<b>made in a browser</b>" in page.locator("main").inner_text()
        row = page.get_by_role("row", name=MILLION)
        row.locator("summary").click()
        row.get_by_role("button").click()
        page.wait_for_load_state("load")
        row = page.get_by_role("row", name=MILLION)
        assert "closed" in row.first.inner_text()
        row.get_by_role("button", name="Open again").click()
        page.wait_for_load_state("load")
        assert "open" in page.get_by_role("row", name=MILLION).first.inner_text()
        window.check()
