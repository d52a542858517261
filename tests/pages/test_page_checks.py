"""The checks that tests of pages make: each finds the fault that it looks for."""

from __future__ import annotations

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.cases import mostly_slow
from tests.support.chromium import DESKTOP, PHONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_PAGE = """<!doctype html><html lang="en"><head><title>A page</title>
<meta name="viewport" content="width=device-width, initial-scale=1">{head}</head>
<body><main><h1>A page</h1>{body}</main></body></html>"""
_POLICY = "<meta http-equiv=\"Content-Security-Policy\" content=\"script-src 'none'; img-src 'self'\">"
_PICTURE = '<svg viewBox="0 0 200 100" width="200" height="100" role="img" aria-label="A picture">{}</svg>'


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("pages")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/page.html", folder
        server.shutdown()


@pytest.mark.parametrize(
    ("check", "body", "words"),
    mostly_slow(
        [
            ("check_layout", "<p style='width: 2000px'>wide</p>", "px wide"),
            ("check_layout", _PICTURE.format('<text x="190" y="50">cut off</text>'), "cut off"),
            ("check_layout", _PICTURE.format('<text x="9" y="50" font-size="6">tiny</text>'), "6.0 px high"),
            (
                "check_layout",
                _PICTURE.format('<text x="9" y="50">one</text><text x="12" y="52">two</text>'),
                "lies on",
            ),
            (
                "check_pictures",
                _PICTURE.format('<rect width="200" height="100" fill="#777"/><text x="9" y="50">dull</text>'),
                "contrast 4.6",
            ),
            ("check_axe", "<button></button>", "button-name"),
            ("check", "<script>throw new Error('no')</script>", "exception: no"),
            ("check", "<img src='http://192.0.2.1/x.png' alt=''>", "request to http://192.0.2.1"),
            ("check", "<img src='missing.png' alt=''>", "404 for"),
        ],
        every=2,
    ),
)
def test_a_fault_is_found(
    tab: Callable[..., Any], pages: tuple[str, Path], check: str, body: str, words: str
) -> None:
    url, folder = pages
    if words == "contrast 4.6":
        body, words = body.replace("#777", "#707070").replace("<text", '<text fill="#000"'), "contrast 4"
    (folder / "page.html").write_text(_PAGE.format(head="", body=body), "utf-8")
    with tab(PHONE) as window:
        window.go(url)
        with pytest.raises(AssertionError, match=words):
            getattr(window, check)()


def test_what_a_policy_blocks_is_found(tab: Callable[..., Any], pages: tuple[str, Path]) -> None:
    url, folder = pages
    body = "<p onclick='1'>text</p><script>window.hacked = 1</script>"
    (folder / "page.html").write_text(_PAGE.format(head=_POLICY, body=body), "utf-8")
    with tab() as window:
        window.go(url)
        assert window.page.evaluate("window.hacked") is None
        with pytest.raises(AssertionError, match="script-src-elem blocked"):
            window.check()


@pytest.mark.slow
def test_the_focus_is_followed(tab: Callable[..., Any], pages: tuple[str, Path]) -> None:
    url, folder = pages
    body = (
        "<a href='#x'>one</a><input aria-label='two' style='outline: none'><button tabindex=-1>three</button>"
    )
    (folder / "page.html").write_text(_PAGE.format(head="", body=body), "utf-8")
    with tab(DESKTOP) as window:
        window.go(url)
        order = window.tab_order()
        assert [
            each["words"].split()[0].lstrip("<").partition("#")[0].partition(".")[0] for each in order
        ] == ["a", "input"]
        assert [each["shown"] for each in order] == [True, False]
        assert [each["key"] for each in window.ask("reachable")] == [each["key"] for each in order]
