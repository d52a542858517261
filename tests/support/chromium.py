"""A real Chromium that looks at a page, and faults of a page that no parser of HTML sees.

It is Debian's, or any other on the path: nothing is downloaded. No name is resolved except 127.0.0.1, so that
a page which needs anything from outside fails.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Response

__all__ = ["DESKTOP", "PHONE", "Tab", "launch", "open_tab"]

PHONE, DESKTOP = 390, 1440
"""Widths of windows in pixels."""

_HEIGHTS = {PHONE: 844, DESKTOP: 900}
_RULES = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"
_SCRIPT = Path(__file__).with_name("chromium.js")
# If a page has a policy, its own script may not do this; that of the protocol may.
_LISTEN = """
window.__violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.__violations.push(
    `${event.violatedDirective} blocked ${event.blockedURI || "something inline"} ${event.sample}`));
"""


@contextmanager
def launch(program: str) -> Iterator[Browser]:
    """Start a Chromium; yield it, for this thread alone, which must not run an event loop meanwhile."""
    from playwright.sync_api import sync_playwright  # only where there is a browser

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[_RULES])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Tab:
    """A page in a separate window, with everything that went wrong in it.

    Attributes
    ----------
    page
        Playwright's.
    problems
        Errors in the console, exceptions, and requests to other hosts or without an answer, in words.
    expected
        Statuses of answers that are not a problem, such as 404.
    statuses
        The status of every answer, by path.
    """

    page: Page
    context: BrowserContext
    problems: list[str] = field(default_factory=list)
    expected: set[int] = field(default_factory=set)
    statuses: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.problems.append(f"exception: {error}"))
        self.page.on("request", self._on_request)
        self.page.on("response", self._on_response)

    def _on_console(self, message: ConsoleMessage) -> None:
        # A status other than success is also an error of the console: `_on_response` knows which are
        # expected.
        if message.type in {"error", "warning"} and not message.text.startswith("Failed to load resource"):
            self.problems.append(f"console: {message.text}")

    def _on_request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in {"data", "blob", "about"} and parts.hostname != "127.0.0.1":
            self.problems.append(f"request to {request.url}")

    def _on_response(self, response: Response) -> None:
        self.statuses.append((urlsplit(response.url).path, response.status))
        if response.status >= 400 and response.status not in self.expected:
            self.problems.append(f"{response.status} for {response.url}")

    def go(self, url: str, *, expect: int = 200) -> Tab:
        """Open a page whose answer has this status, and wait until it is fully loaded."""
        self.expected.add(expect)
        answer = self.page.goto(url, wait_until="load")
        assert answer is not None
        assert answer.status == expect, f"{answer.status} for {url}"
        return self

    def settle(self) -> Tab:
        """Load the page again until none of its parts is still being computed."""
        for _ in range(600):
            if not self.page.locator(".computing").count():
                return self
            self.page.wait_for_timeout(100)
            self.page.reload(wait_until="load")
        raise AssertionError("the page is still computing")

    def log_in(self, url: str, key: str) -> Tab:
        """Log in with a key on the page that asks for one, from the page of this URL."""
        self.expected |= {401}
        self.page.goto(url, wait_until="load")
        self.page.get_by_label("Key", exact=True).fill(key)
        self.page.get_by_role("button", name="Log in").click()
        self.page.wait_for_load_state("load")
        return self

    def ask(self, function: str, *arguments: Any) -> Any:
        """Call a function of `chromium.js` in the page; return its result."""
        script = f"(given) => {{ {_SCRIPT.read_text('utf-8')}\n return {function}(...given); }}"
        return self.page.evaluate(script, list(arguments))

    def check(self) -> None:
        """Fail if anything went wrong until now, or the policy of the page was broken."""
        violations = self.page.evaluate("window.__violations || []")
        assert not violations, "\n".join(violations)
        assert not self.problems, "\n".join(self.problems)

    def check_layout(self) -> None:
        """Fail if the page is wider than the window, or text of a picture is cut off, tiny or overlapping."""
        found = self.ask("layoutProblems")
        assert not found, "\n".join(found)

    def check_axe(self, impacts: Sequence[str] = ("serious", "critical")) -> None:
        """Fail if axe finds anything of these impacts."""
        from axe_playwright_python.base import AXE_SCRIPT

        # Evaluated: the policy of the page blocks script tags.
        self.page.evaluate(AXE_SCRIPT)
        found = self.page.evaluate("axe.run({resultTypes: ['violations']})")
        lines = [
            f"{each['id']} ({each['impact']}): {each['help']}: {node['html']} {node['failureSummary']}"
            for each in found["violations"]
            for node in each["nodes"]
            if each["impact"] in impacts
        ]
        assert not lines, "\n".join(lines)

    def check_pictures(self) -> None:
        """Fail if text inside an SVG has too little contrast with its background; axe does not check this."""
        found = self.ask("contrastProblems")
        assert not found, "\n".join(found)

    def tab_order(self, most: int = 400) -> list[dict[str, Any]]:
        """Press Tab until the focus is back at the start; return the focused elements in order."""
        self.ask("startOver")
        seen: list[dict[str, Any]] = []
        for _ in range(most):
            self.page.keyboard.press("Tab")
            now = self.ask("focused")
            if now is None or (seen and now["key"] == seen[0]["key"]):
                return seen
            seen.append(now)
        raise AssertionError(f"the focus is not back after {most} tabs")


@contextmanager
def open_tab(
    browser: Browser,
    width: int = DESKTOP,
    scheme: Literal["light", "dark"] = "light",
    *,
    script: bool = True,
    **options: Any,
) -> Iterator[Tab]:
    """Lend a window with separate cookies.

    Parameters
    ----------
    browser
        A browser of `launch`.
    width
        The window's width in pixels; a window of a phone's width also has touch.
    scheme
        Light or dark.
    script
        Whether scripts run.
    **options
        Further ones of Playwright's `Browser.new_context`.
    """
    context = browser.new_context(
        viewport={"width": width, "height": _HEIGHTS.get(width, 900)},
        color_scheme=scheme,
        java_script_enabled=script,
        has_touch=width == PHONE,
        reduced_motion="reduce",
        **options,
    )
    try:
        context.set_default_timeout(60_000)
        context.add_init_script(_LISTEN)
        yield Tab(context.new_page(), context)
    finally:
        context.close()
