"""Pages with the JavaScript client of the repository, and a Chromium that a test may kill completely."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

from arcwise.wire import decode_batch
from tests.support.nodejs import JAVASCRIPT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from playwright.sync_api import Browser, Page, Playwright

    from arcwise.wire import Batch

__all__ = ["Chromium", "ClientPages", "client_pages"]

_TYPES = {"js": "text/javascript", "json": "application/json", "html": "text/html; charset=utf-8"}


class ClientPages:
    """The content of a server of pages, and the requests that it got.

    Attributes
    ----------
    url
        Its origin.
    files
        Bodies by path; ``/arcwise/*.js`` is the client.
    on_told
        Called with every object that a page posts to ``/told``, before the page has its answer.
    batches
        The batches that pages sent to this server, in order.
    status
        The status of its answers to batches; 0 cuts the connection.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        self.url = ""
        self.files = dict(files)
        self.on_told: Callable[[Any], None] = lambda _told: None
        self.batches: list[Batch] = []
        self.status = 204
        for path in (JAVASCRIPT / "arcwise").glob("*.js"):
            self.files[f"/arcwise/{path.name}"] = path.read_text("utf-8")


@contextmanager
def client_pages(files: Mapping[str, str]) -> Iterator[ClientPages]:
    """Serve pages on a free port."""
    pages = ClientPages(files)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            found = pages.files.get(path)
            self._answer(404 if found is None else 200, (found or "").encode(), path.rpartition(".")[2])

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/told":
                pages.on_told(json.loads(body))
                return self._answer(204)
            pages.batches.append(decode_batch(body))
            if pages.status:
                return self._answer(pages.status)
            self.close_connection = True
            return None

        def _answer(self, status: int, body: bytes = b"", kind: str = "html") -> None:
            self.send_response_only(status)
            if status != 204:
                self.send_header("Content-Type", _TYPES.get(kind, _TYPES["html"]))
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *args: object) -> None:
            pass  # a browser that is killed resets its connections

    with Server(("127.0.0.1", 0), Handler) as server:
        pages.url = f"http://127.0.0.1:{server.server_port}"
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield pages
        server.shutdown()


class Chromium:
    """A browser with a profile on disk, in a separate group of processes.

    Parameters
    ----------
    playwright
        The Playwright that controls it.
    program
        Its path.
    profile
        A folder; a new browser finds the state that the previous one left.
    """

    browser: Browser

    def __init__(self, playwright: Playwright, program: str, profile: Path) -> None:
        port = profile / "DevToolsActivePort"
        port.unlink(missing_ok=True)
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        # A spare renderer would be one more than there are windows.
        options += ["--disable-features=SpareRendererForSitePerProcess", "--remote-debugging-port=0"]
        self._process = subprocess.Popen(
            [program, *options, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + 60
        while not (port.exists() and port.read_text("utf-8").count("\n")):
            assert time.monotonic() < deadline, "Chromium does not start"
            assert self._process.poll() is None, f"Chromium ended with {self._process.returncode}"
            time.sleep(0.01)
        number = port.read_text("utf-8").split()[0]
        self.browser = playwright.chromium.connect_over_cdp(f"http://127.0.0.1:{number}")
        self._session = self.browser.new_browser_cdp_session()

    def open(self, url: str) -> Page:
        """Open a window."""
        with self.browser.contexts[0].expect_page() as found:
            self._session.send("Target.createTarget", {"url": url, "newWindow": True})
        return found.value

    def renderers(self) -> set[int]:
        """Return the ids of the processes that run its windows."""
        found = self._session.send("SystemInfo.getProcessInfo")["processInfo"]
        return {each["id"] for each in found if each["type"] == "renderer"}

    def kill(self) -> None:
        """Kill all of its processes, even in the middle of a write."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
