"""SIGKILLs of a browser with two windows that report to one account, as fast as they can, and a real server.

Each account has a cap, and the windows, two processes, share it; in every third account one of them opts out
meanwhile. A window announces each report that the client granted, so after a kill it is known what no account
may have forgotten. The program exits with 1 if a cap was exceeded, a charge forgotten, an opt-out undone, or
a report lost or counted twice.

Accounts are made in a first browser that lives for eight seconds. Chromium writes to localStorage within six,
and the mark there shows that an account was lost. Chromium loses all accounts if a kill cuts a record of its
database short, the next browser appends to the same file, and the one after that discards the file. Lost
accounts may report nothing; the kills go on with a new profile.

    python -m tests.soak.browser --kills 100
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

from arcwise.domains import Circle
from arcwise.server.store import open_store
from arcwise.tasks import Caps, Task
from tests.support import server_processes
from tests.support.client_pages import Chromium, client_pages
from tests.support.machines.machine import find_program

if TYPE_CHECKING:
    from playwright.sync_api import Playwright

    from tests.support.client_pages import ClientPages


CAP = 50
KEPT, LEFT = (Task(name, Circle(360), 1.0, caps=Caps(lifetime=CAP)) for name in ("kept", "left"))
_MARKED_SECONDS = 8.0
"""Seconds after which writes to localStorage are on disk."""
_LONGEST = 120.0
"""Seconds within which a window must have sent something."""


class Result(NamedTuple):
    """The result of two windows; all numbers but the first three are of reports."""

    wrong: list[str]
    """Sentences; empty if everything is right."""
    kills: int
    accounts: int
    lost: int
    """Accounts that the browser had lost, and that reported nothing more."""
    granted: int
    """As far as the windows are known to have received the result."""
    charged: int
    counted: int


class _Book:
    """The messages of windows about their accounts, and the contradictions among them."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.granted: Counter[int] = Counter()
        self.finished: dict[int, Any] = {}
        self.lost: set[int] = set()
        self.news = 0
        self.ended: set[str] = set()
        self._known: Counter[int] = Counter()
        self._left: dict[int, int] = {}
        self._gone: dict[int, int] = {}
        self._done: Counter[int] = Counter()
        self._lock = Lock()

    def restart(self) -> int:
        """Record that all windows are new, and return the first account to use."""
        with self._lock:
            self._known, self._gone = self.granted.copy(), self._left.copy()
            self.ended.clear()
            self.news = 0
            first = 0
            while self._done[first] >= 2:
                first += 1
            return first

    def take(self, told: dict[str, Any]) -> None:
        with self._lock:
            account, what = told["account"], told["what"]
            self.news += 1
            if what == "lost":
                self.lost.add(account)
                self._done[account] = 2
            elif account in self.lost:
                self.wrong.append(f"account {account}: {what} after it was lost")
            elif what == "granted":
                self.granted[account] += 1
                if self.granted[account] > CAP:
                    self.wrong.append(f"account {account}: {self.granted[account]} reports were granted")
            elif what == "ended":
                self.ended.add(told["window"])
            elif what not in ("opened", "opted-out", "done", "finished"):
                self.wrong.append(f"account {account}: {what}")
            else:
                self._check(account, told)
                if what == "opted-out":
                    self._left[account] = told["spent"]
                elif what == "done":
                    self._done[account] += 1
                elif what == "finished":
                    self.finished[account] = told

    def _check(self, account: int, told: dict[str, Any]) -> None:
        spent = told["spent"]
        if spent > CAP:
            self.wrong.append(f"account {account}: {spent} reports were charged")
        if spent < self._known[account]:
            self.wrong.append(f"account {account}: {spent} charges, of {self._known[account]} before a kill")
        # Opt-outs before a kill: the other window may read its state before an opt-out and send it
        # afterwards.
        if account in self._gone and (spent, told["optedOut"]) != (self._gone[account], True):
            now = f"charged {spent}, opted out {told['optedOut']}"
            self.wrong.append(f"account {account}: {now}, after it opted out at {self._gone[account]}")
        if told["what"] == "finished" and told["pending"]:
            self.wrong.append(f"account {account}: {told['pending']} reports could not be sent")


def hammer(playwright: Playwright, program: str, *, kills: int, least: int, seed: int) -> Result:
    """Let two windows use accounts, and kill their browser this often, unless it loses its data earlier.

    After that, at least `least` accounts are used to their ends without a kill.
    """
    generator = random.Random(seed)
    book = _Book()
    with tempfile.TemporaryDirectory() as name, client_pages(_files()) as pages:
        folder = Path(name)
        profile = folder / "profile"
        profile.mkdir()
        for task in (KEPT, LEFT):
            task.save(folder / f"{task.name}.json")
        pages.on_told = book.take
        with server_processes.serving(folder, "--open", "--allow-origin", pages.url) as (server, _):
            made = 3 * kills + least
            _make(playwright, program, profile, pages, _query(server, 0, made - 1), book)
            for kill in range(kills + 1):
                first = book.restart()
                last = made - 1 if kill < kills else max(first + least - 1, *book.granted)
                chromium = _open(playwright, program, profile, pages, _query(server, first, last))
                _wait(lambda: book.news >= 4 or len(book.ended) == 2, book)
                if kill < kills:
                    time.sleep(generator.uniform(0, 1))
                    if kill % 20 == 19:
                        told = f"{kill + 1} kills, {book.granted.total()} reports"
                        print(told, file=sys.stderr, flush=True)
                else:
                    _wait(lambda: len(book.ended) == 2, book)
                chromium.kill()
                if book.lost:
                    kills, last = kill, max(book.granted, default=0)
                    break
            book.restart()
            chromium = Chromium(playwright, program, profile)
            chromium.open(f"{pages.url}/?{_query(server, 0, last)}&window=a&finish")
            _wait(lambda: bool(book.ended), book)
            chromium.kill()
        with closing(open_store(f"sqlite:///{folder / 'server.db'}")) as store:
            counted = {task: int(store.counts(task).sum()) for task in (KEPT, LEFT)}
    return _result(book, kills, counted)


def _files() -> dict[str, str]:
    script = Path(__file__).with_suffix(".js").read_text("utf-8")
    files = {"/": "<!doctype html><title>window</title><script type=module src=/soak.js></script>"}
    tasks = {f"/{task.name}.json": json.dumps(task.to_json()) for task in (KEPT, LEFT)}
    return files | {"/soak.js": script} | tasks


def _query(server: str, first: int, last: int) -> str:
    return urlencode({"server": server, "first": first, "last": last})


def _make(
    playwright: Playwright, program: str, profile: Path, pages: ClientPages, query: str, book: _Book
) -> None:
    """Make accounts, and the marks which say that they exist."""
    chromium = Chromium(playwright, program, profile)
    chromium.open(f"{pages.url}/?{query}&window=a&make")
    _wait(lambda: bool(book.ended), book)
    time.sleep(_MARKED_SECONDS)
    chromium.kill()


def _open(playwright: Playwright, program: str, profile: Path, pages: ClientPages, query: str) -> Chromium:
    """Start a browser with two windows, which must be two processes."""
    chromium = Chromium(playwright, program, profile)
    before = chromium.renderers()
    for window in "ab":
        chromium.open(f"{pages.url}/?{query}&window={window}")
    assert len(chromium.renderers() - before) >= 2, "both windows are in one process"
    return chromium


def _wait(is_so: Any, book: _Book) -> None:
    """Wait until a window has sent something."""
    deadline, news = time.monotonic() + _LONGEST, book.news
    while not is_so():
        if book.news != news:
            deadline, news = time.monotonic() + _LONGEST, book.news
        assert time.monotonic() < deadline, f"the windows tell nothing; {book.wrong}"
        time.sleep(0.005)


def _result(book: _Book, kills: int, counted: dict[Task, int]) -> Result:
    """Compare the charges of all accounts with the reports that the server counted."""
    wrong = list(book.wrong)
    kept = [each for account, each in book.finished.items() if account % 3 != 2]
    left = [each for account, each in book.finished.items() if account % 3 == 2]
    charged = sum(each["spent"] for each in kept)
    if counted[KEPT] < charged or (counted[KEPT] > charged and not book.lost):
        wrong.append(f"{counted[KEPT]} reports were counted, and {charged} charged")
    sent, most = sum(each["sent"] for each in left), sum(each["spent"] for each in left)
    if not sent <= counted[LEFT] <= most and not book.lost:
        told = f"{sent} acknowledged, {most} charged"
        wrong.append(f"{counted[LEFT]} reports were counted of those that opt out, {told}")
    accounts, granted = len(book.finished) + len(book.lost), book.granted.total()
    return Result(wrong, kills, accounts, len(book.lost), granted, charged + most, sum(counted.values()))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.browser", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--accounts", type=int, default=20, help="to use without a kill at the end")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    program = find_program("chromium")
    if program is None:
        sys.exit("there is no chromium: apt-get install chromium")
    begun = time.monotonic()
    left, wrong = given.kills, 0
    with sync_playwright() as playwright:
        while left > 0:
            result = hammer(playwright, program, kills=left, least=given.accounts, seed=given.seed + left)
            print(*result.wrong, sep="\n")
            print(
                f"{result.kills} kills, {result.accounts} accounts, {result.lost} of them lost, "
                f"{result.granted} reports granted, {result.charged} charged, {result.counted} counted, "
                f"{len(result.wrong)} wrong, {time.monotonic() - begun:.0f} s",
                flush=True,
            )
            left -= result.kills + bool(result.lost)
            wrong += len(result.wrong)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
