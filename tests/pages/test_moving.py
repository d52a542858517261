"""Moving parts of a page: values under the pointer, and fresh figures by conditional requests."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from arcwise.server.store import open_store
from tests.support.chromium import DESKTOP, PHONE
from tests.support.page_stores import MILLION, fill, surveys
from tests.support.sites import running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.chromium import Tab
    from tests.support.sites import Site


@pytest.fixture(scope="module")
def live_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server of this module alone, whose counts change."""
    small = [survey._replace(reports=500) for survey in surveys()[:2]]
    with running(tmp_path_factory.mktemp("live"), small) as site:
        yield site


@pytest.mark.slow
@pytest.mark.parametrize("page", [MILLION, pytest.param("heading", marks=pytest.mark.slow)])
def test_the_pointer_shows_a_value(tab: Callable[..., Any], open_site: Site, page: str) -> None:
    with tab(DESKTOP) as window:
        window.go(open_site.page(page)).settle()
        mark = window.page.locator("svg [data-value]").nth(3)
        mark.scroll_into_view_if_needed()
        words = mark.get_attribute("data-value")
        mark.hover(force=True)
        tip = window.page.locator(".tip")
        assert tip.is_visible()
        assert tip.inner_text().strip()
        assert tip.inner_text() in {
            words,
            *window.page.evaluate(
                "[...document.querySelectorAll('[data-value]')].map((each) => each.dataset.value)"
            ),
        }
        window.page.keyboard.press("Escape")
        assert not tip.is_visible()
        window.check_layout()
        window.check()


@pytest.mark.slow
def test_a_finger_shows_a_value(tab: Callable[..., Any], open_site: Site) -> None:
    with tab(PHONE) as window:
        window.go(open_site.page(MILLION)).settle()
        mark = window.page.locator("svg [data-value]").nth(3)
        mark.scroll_into_view_if_needed()
        mark.tap(force=True)
        assert window.page.locator(".tip").is_visible()
        window.check_layout()


def test_a_page_that_the_browser_kept_is_loaded_again(tab: Callable[..., Any], open_site: Site) -> None:
    """After a logout, Back would show the earlier content."""
    with tab() as window:
        window.go(f"{open_site.url}/")
        with window.page.expect_navigation():
            window.page.evaluate(
                'dispatchEvent(new PageTransitionEvent("pageshow", {persisted: true})), undefined'
            )
        window.check()


def _asked(window: Tab, path: str) -> list[int]:
    return [status for where, status in window.statuses if where == path]


@pytest.mark.slow  # a server computes nothing for a page twice in ten seconds
def test_a_page_asks_for_fresh_figures_and_shows_them(tab: Callable[..., Any], live_site: Site) -> None:
    task = live_site.tasks[MILLION]
    path = f"/tasks/{task.id}"
    with tab() as window:
        page = window.page
        page.clock.install()
        window.go(live_site.url + path)
        _tick_until(window, lambda: page.locator(".computing").count() == 0)
        n = page.locator("[data-figure=n]").first
        assert n.inner_text() == "500"
        # Nothing changes: 304, and no body.
        before = len(_asked(window, path))
        _tick_until(window, lambda: _asked(window, path)[before:].count(304) >= 2)
        # Somebody reads the table with the keyboard, and has one opened.
        summary = page.locator("[data-live] summary").first
        summary.focus()
        page.keyboard.press("Enter")
        words = page.evaluate("document.activeElement.textContent")
        fill(live_site.store, [surveys()[0]._replace(reports=700)], now=time.time())
        _tick_until(window, lambda: n.inner_text() == "1,200")
        assert page.evaluate("document.activeElement.textContent") == words
        assert page.locator("[data-live] details").first.get_attribute("open") is not None
        window.check()


def _tick_until(window: Tab, done: Callable[[], bool]) -> None:
    """Run the page's clock in steps of ten seconds until a condition holds; the server's clock is real."""
    # A server waits for twenty times the computing time, which is long on a busy machine.
    deadline = time.monotonic() + 300
    while not done():
        assert time.monotonic() < deadline, window.statuses[-10:]
        window.page.clock.run_for(10_000)
        window.page.wait_for_timeout(200)


@pytest.mark.slow
def test_a_page_says_that_its_server_is_gone(tab: Callable[..., Any], live_site: Site) -> None:
    with tab() as window:
        page = window.page
        page.clock.install()
        window.go(f"{live_site.url}/").settle()
        window.context.set_offline(True)
        news = page.locator("[role=status]")
        _tick_until(window, lambda: "not answer" in news.inner_text())
        window.context.set_offline(False)
        _tick_until(window, lambda: news.inner_text() == "")


@pytest.mark.slow
def test_a_task_that_comes_is_on_the_overview(tab: Callable[..., Any], live_site: Site) -> None:
    with tab() as window:
        window.page.clock.install()
        window.go(f"{live_site.url}/").settle()
        assert not window.page.get_by_role("link", name="score").count()
        with closing(open_store(live_site.store)) as store:
            store.register([surveys()[2].task])
        _tick_until(window, lambda: window.page.get_by_role("link", name="score").count() == 1)
        window.check()
