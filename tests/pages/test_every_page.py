"""Every page, narrow and wide, light and dark: nothing is cut off, blocked, illegible or out of reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.chromium import DESKTOP, PHONE
from tests.support.page_stores import HOSTILE, MILLION

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.chromium import Tab
    from tests.support.sites import Site

_PAGES = [
    "/",
    MILLION,
    "/operator",
    "heading",
    "no report",
    "/?q=nothing-like-it",
    "one report",
    "score",
    "departure",
    "hour of day",
    "single values",
    "salary",
    "speed",
    "load",
    "vehicle speed",
    "vehicle heading",
    "winter",
    f"{MILLION}?every=week&level=0.9&share=0:30",
    f"{MILLION}?from=2001-01-01&to=2001-01-02",
    f"{MILLION}/plan?half_width=0.5",
    f"{MILLION}/fit",
    "heading/fit",
    "heading/plan?half_width=1",
    "speed/compare?against=vehicle%20speed",
]


def look(window: Tab) -> None:
    """Check a page in four windows, and the keyboard in two."""
    for width in (PHONE, DESKTOP):
        for scheme in ("light", "dark"):
            window.page.set_viewport_size({"width": width, "height": 844})
            window.page.emulate_media(color_scheme=scheme)
            window.check_layout()
            window.check_pictures()
            if (width == PHONE) == (scheme == "dark"):
                window.check_axe()
        check_keyboard(window)
    window.check()


def check_keyboard(window: Tab) -> None:
    """Fail if Tab does not reach something, the focus is not visible, or there is no skip link."""
    order = window.tab_order()
    assert "Skip" in order[0]["words"]
    reached = {each["key"] for each in order}
    assert not [each["words"] for each in window.ask("reachable") if each["key"] not in reached]
    assert not [each["words"] for each in order if not (each["shown"] and each["inside"])]


def address(site: Site, page: str) -> str:
    """Return the URL of a page that is given as its path, or as a task's name with a suffix."""
    if page.startswith("/"):
        return site.url + page
    name = max((name for name in site.tasks if page.startswith(name)), key=len)
    return site.page(name, page.removeprefix(name))


@pytest.mark.slow
@pytest.mark.parametrize("page", _PAGES)
def test_a_page_is_whole(tab: Callable[..., Any], open_site: Site, page: str) -> None:
    with tab() as window:
        window.go(address(open_site, page)).settle()
        look(window)


@pytest.mark.slow
def test_a_page_that_is_not_there_is_whole(tab: Callable[..., Any], open_site: Site) -> None:
    with tab() as window:
        window.go(f"{open_site.url}/tasks/nothing", expect=404)
        look(window)


@pytest.mark.slow
def test_the_login_page_is_whole(tab: Callable[..., Any], keyed_site: Site) -> None:
    with tab() as window:
        window.go(f"{keyed_site.url}/login")
        look(window)


@pytest.mark.slow
def test_the_documentation_of_the_interface_loads_nothing_from_outside(
    tab: Callable[..., Any], open_site: Site
) -> None:
    with tab() as window:
        window.go(f"{open_site.url}/docs")
        window.page.locator(".opblock").first.wait_for()
        assert window.page.locator(".opblock").count() >= 10
        window.check()


@pytest.mark.slow
@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("page", ["/", "/operator", MILLION])
def test_a_page_is_whole_with_everything_opened(
    tab: Callable[..., Any], open_site: Site, keyed_site: Site, page: str, opened: bool
) -> None:
    with tab() as window:
        if page == "/operator":
            window.log_in(f"{keyed_site.url}/operator", keyed_site.keys["admin"])
        else:
            window.go(address(open_site, page)).settle()
        if opened:
            window.page.evaluate(
                "document.querySelectorAll('details').forEach((each) => { each.open = true; })"
            )
        look(window)


@pytest.mark.slow
def test_the_skip_link_leads_to_the_content(tab: Callable[..., Any], open_site: Site) -> None:
    with tab(PHONE) as window:
        window.go(f"{open_site.url}/")
        window.page.keyboard.press("Tab")
        window.page.keyboard.press("Enter")
        assert window.page.evaluate("document.activeElement.id") == "main"
        window.page.keyboard.press("Tab")
        assert window.page.evaluate("document.activeElement.closest('main') !== null")


@pytest.mark.slow
@pytest.mark.parametrize("page", [MILLION, "/", "heading"])
def test_a_page_in_print_and_in_forced_colours_shows_its_figures(
    tab: Callable[..., Any], open_site: Site, page: str
) -> None:
    with tab(scheme="dark") as window:
        window.go(address(open_site, page)).settle()
        window.page.emulate_media(media="print")
        window.check_layout()
        window.check_pictures()
        assert window.ask("background") == [255, 255, 255]
        assert not window.page.locator("header nav").is_visible()
        assert window.page.locator("[data-figure]").first.is_visible()
        window.page.emulate_media(media="screen", forced_colors="active")
        window.check_layout()
        assert window.page.locator("main svg").first.is_visible()
        assert not window.ask("unpainted")
        window.check()


@pytest.mark.slow
def test_a_page_works_without_script(tab: Callable[..., Any], open_site: Site) -> None:
    with tab(PHONE, script=False) as window:
        page = window.page
        window.go(f"{open_site.url}/").settle()
        page.get_by_role("link", name=MILLION).click()
        window.settle()
        assert page.locator("[data-figure=mean][data-part=value]").first.inner_text().strip()
        page.get_by_role("textbox", name="Level").fill("0.5")
        page.get_by_role("button", name="Show", exact=True).click()
        window.settle()
        assert "50" in page.locator("main").inner_text()
        page.locator("summary", has_text="numbers of this chart").first.click()
        assert page.locator("figure table").first.is_visible()
        assert not window.problems


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_words_of_a_task_stay_words(tab: Callable[..., Any], keyed_site: Site, name: str) -> None:
    with tab(PHONE) as window:
        window.log_in(keyed_site.page(name), keyed_site.keys["read"])
        window.settle()
        assert window.page.get_by_role("heading", level=1).inner_text() == name
        assert name in window.page.title()
        window.check_layout()
        window.page.mouse.move(200, 400)
        window.go(f"{keyed_site.url}/").settle()
        assert name in window.page.get_by_role("link").all_inner_texts()
        window.check_layout()
        assert window.page.evaluate("window.hacked") is None
        window.check()
