"""The JavaScript client in Chromium: its ledger survives other windows and SIGKILL."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from arcwise.domains import Circle
from arcwise.tasks import Caps, Task
from tests.support.client_pages import Chromium, ClientPages, client_pages
from tests.support.machines.machine import find_program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page, Playwright

HEADING = Task("heading", Circle(360), 1.0, caps=Caps(lifetime=9.0, rolling=100.0))
EARLIER = Path(__file__).with_name("states") / "local_storage.json"
"""The state of the last version with a LocalStorageLedger after three reports to this task at 1000 s."""

APP = """<!doctype html><title>app</title><script type="module">
  import * as arcwise from "/arcwise/index.js";
  const task = await arcwise.Task.fromJson(await (await fetch("/task.json")).json());
  const events = [];
  window.events = events;
  window.start = (options = {}) => {
    window.client = new arcwise.Client(location.origin, {
      tasks: [task], interval: 3600, onEvent: (event) => events.push(event), ...options,
    });
  };
  window.arcwise = arcwise;
  window.report = () => client.report("heading", 350.5);
  window.spent = async () => (await client.budget("heading")).epsilon;
  window.ready = true;
</script>"""


class Profile:
    """Windows of a browser with one profile, at pages that report to the pages' server."""

    def __init__(self, playwright: Playwright, program: str, folder: Path, pages: ClientPages) -> None:
        self._start = partial(Chromium, playwright, program, folder)
        self.pages = pages
        self.chromium = self._start()

    def restart(self) -> None:
        self.chromium.kill()
        self.chromium = self._start()

    def open(self, start: str = "start()") -> Page:
        page = self.chromium.open(f"{self.pages.url}/")
        page.wait_for_function("window.ready")
        page.evaluate(start)
        return page


@pytest.fixture
def program() -> str:
    found = find_program("chromium")
    if found is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    return found


@contextmanager
def profiles(program: str, folder: Path) -> Iterator[Profile]:
    from playwright.sync_api import sync_playwright  # only where there is a browser

    files = {"/": APP, "/task.json": json.dumps(HEADING.to_json()), "/empty": "<!doctype html>"}
    with client_pages(files) as pages, sync_playwright() as playwright:
        profile = Profile(playwright, program, folder, pages)
        try:
            yield profile
        finally:
            profile.chromium.kill()


@pytest.fixture
def profile(program: str, tmp_path: Path) -> Iterator[Profile]:
    with profiles(program, tmp_path) as found:
        yield found


def codes(pages: ClientPages) -> int:
    """Return the number of codes that came, each batch counted once."""
    return sum(len(codes) for codes in {batch.batch_id: batch.codes for batch in pages.batches}.values())


def test_a_charge_is_on_disk_when_a_report_is_granted(profile: Profile) -> None:
    """In the ledger that a client makes by default; every process of the browser is killed."""
    page = profile.open()
    assert [page.evaluate("report()") for _ in range(2)] == [True, True]
    profile.restart()
    page = profile.open()
    assert page.evaluate("spent()") == 2
    assert page.evaluate("client.flush()") is True
    assert codes(profile.pages) == 2


def test_a_frame_of_another_site_has_no_account_of_its_own(profile: Profile) -> None:
    """Unless the app asks for one: browsers keep its storage separate for each embedding site."""
    url = profile.pages.url
    profile.pages.files["/around"] = f'<!doctype html><iframe src="{url}/"></iframe>'
    assert profile.open().evaluate("report()") is True
    for around in (url, url.replace("127.0.0.1", "localhost")):
        page = profile.chromium.open(f"{around}/around")
        frame = page.wait_for_selector("iframe").content_frame()  # type: ignore[union-attr]
        assert frame is not None
        frame.wait_for_function("window.ready")
        if around == url:
            frame.evaluate("start()")
            assert frame.evaluate("spent()") == 1
        else:
            with pytest.raises(Exception, match="apart for each site around a frame"):
                frame.evaluate("start()")
            frame.evaluate("start({ ledger: new arcwise.IndexedDBLedger('mine', { framed: true }) })")
            assert frame.evaluate("report()") is True


def test_there_is_no_account_in_storage_that_is_not_the_apps(profile: Profile) -> None:
    """A frame's storage ends with its page; the other case is a site on which an extension runs a script."""
    url = profile.pages.url
    profile.pages.files["/around"] = f'<!doctype html><iframe credentialless src="{url}/"></iframe>'
    frame = profile.chromium.open(f"{url}/around").wait_for_selector("iframe").content_frame()  # type: ignore[union-attr]
    assert frame is not None
    frame.wait_for_function("window.ready")
    for options in ("", "{ ledger: new arcwise.IndexedDBLedger('mine', { framed: true }) }"):
        with pytest.raises(Exception, match="storage here is not the app's own"):
            frame.evaluate(f"start({options})")
    page = profile.open()
    page.evaluate("(globalThis.chrome ??= {}).runtime = { id: 'extension' }")
    with pytest.raises(Exception, match="storage here is not the app's own"):
        page.evaluate("start()")


@pytest.mark.slow
def test_two_windows_keep_caps_and_forget_nothing(program: str) -> None:
    """The short form of `python -m tests.soak.browser`."""
    from playwright.sync_api import sync_playwright

    from tests.soak.browser import CAP, hammer

    with sync_playwright() as playwright:
        result = hammer(playwright, program, kills=3, least=6, seed=1)
    assert result.wrong == []
    assert result.kills == 3
    assert result.accounts >= 6
    assert result.granted > 3 * CAP


def test_nothing_leaves_when_nothing_can_be_written(profile: Profile) -> None:
    assert profile.open().evaluate("report()") is True
    profile.restart()  # Chromium asks for the quota as rarely as it can
    page = profile.open()
    session = page.context.new_cdp_session(page)
    session.send("Storage.overrideQuotaForOrigin", {"origin": profile.pages.url, "quotaSize": 1})
    assert page.evaluate("report()") is False
    assert page.evaluate("client.flush(1)") is False
    assert page.evaluate("client.optOut().catch((error) => error.name)") == "LedgerError"
    assert page.evaluate("spent()") == 1  # reading needs no space
    counters = {"pending": 1, "sent": 0, "dropped": {}, "refused": {"failed": 1}}
    assert page.evaluate("client.counters()") == counters
    assert {event["kind"] for event in page.evaluate("events")} == {"failed"}
    assert profile.pages.batches == []
    session.send("Storage.overrideQuotaForOrigin", {"origin": profile.pages.url})
    assert page.evaluate("report()") is True
    assert page.evaluate("client.flush()") is True
    assert codes(profile.pages) == 2


def test_a_read_that_fails_makes_one_report_fail(profile: Profile) -> None:
    """As on a full disk, where Chromium then reports nothing more about the transaction."""
    page = profile.open()
    assert page.evaluate("report()") is True
    page.evaluate("""() => {
        window.get = IDBObjectStore.prototype.get;
        IDBObjectStore.prototype.get = () => {
            const request = { error: new DOMException("the disk is full") };
            setTimeout(() => request.onerror?.());
            return request;
        };
    }""")
    assert page.evaluate("Promise.race([report(), new Promise((end) => setTimeout(end, 20000))])") is False
    page.evaluate("() => void (IDBObjectStore.prototype.get = window.get)")
    assert page.evaluate("report()") is True
    assert page.evaluate("spent()") == 2


@pytest.mark.slow
def test_a_private_window_has_an_account_that_ends_with_it(profile: Profile) -> None:
    assert profile.open().evaluate("report()") is True
    for _ in range(2):
        context = profile.chromium.browser.new_context()
        for spent in range(2):
            page = context.new_page()
            page.goto(profile.pages.url)
            page.wait_for_function("window.ready")
            page.evaluate("start()")
            assert page.evaluate("spent()") == spent
            assert page.evaluate("report()") is True
        context.close()
    assert profile.open().evaluate("spent()") == 1


@pytest.mark.slow
def test_a_browser_that_stores_nothing_lets_nothing_out(program: str, tmp_path: Path) -> None:
    (tmp_path / "Default").mkdir()
    settings = {"profile": {"default_content_setting_values": {"cookies": 2}}}
    (tmp_path / "Default" / "Preferences").write_text(json.dumps(settings), encoding="utf-8")
    with profiles(program, tmp_path) as profile:
        page = profile.open()
        assert page.evaluate("report()") is False
        assert page.evaluate("client.flush(1)") is False
        assert page.evaluate("spent().catch((error) => error.name)") == "LedgerError"
        assert "denied" in page.evaluate("events[0].detail")
        page.evaluate("Object.defineProperty(window, 'indexedDB', { value: undefined })")
        error = page.evaluate("(() => { try { start() } catch (error) { return error.message } })()")
        assert error.startswith("ledger must be given, because a task has caps and there is no IndexedDB")
        assert "no IndexedDB" in page.evaluate(
            "(() => { try { new arcwise.IndexedDBLedger() } catch (error) { return error.message } })()"
        )
    assert profile.pages.batches == []


@pytest.mark.slow
def test_no_batch_leaves_after_another_window_has_opted_out(profile: Profile) -> None:
    """The first window has stale knowledge, and does not look into the ledger again."""
    key = "start({{ ledger: (window.ledger = new arcwise.IndexedDBLedger('{}')) }})"
    for name, opts_out in (("stays", False), ("leaves", True)):
        page, other = profile.open(key.format(name)), profile.open(key.format(name))
        assert page.evaluate("report()") is True
        assert page.evaluate("ledger.peek().open.length") == 1
        if opts_out:
            other.evaluate("client.optOut()")
            page.wait_for_function("ledger.peek() === undefined")
        page.goto(f"{profile.pages.url}/empty")
        for _ in range(0 if opts_out else 600):
            if profile.pages.batches:
                break
            page.wait_for_timeout(100)
        assert codes(profile.pages) == 1, name  # that of the first round
        assert other.evaluate("report()") is not opts_out
        page.close()


def test_a_page_that_is_left_during_a_change_sends_only_what_is_known_to_be_on_disk(profile: Profile) -> None:
    """The batch may have more codes by then; the same id with other bytes would lose one of them."""
    page = profile.open(
        """{
            const inner = new arcwise.IndexedDBLedger();
            window.gate = Promise.resolve();
            const update = async (change) => {
                const result = await inner.update(change);
                await window.gate;
                return result;
            };
            start({ ledger: { update, peek: () => inner.peek() } });
        }"""
    )
    hide = "dispatchEvent(new Event('pagehide'))"
    assert page.evaluate("report()") is True
    page.evaluate("window.gate = new Promise((open) => (window.pass = open)), 1")
    page.evaluate("window.second = report(), client.pending().then(() => 1, () => 1), 1")
    page.wait_for_function("new arcwise.IndexedDBLedger().update(({ open }) => open[0].codes.length === 2)")
    page.evaluate(hide)
    assert page.evaluate("fetch('/empty').then(({ status }) => status)") == 200
    assert profile.pages.batches == []
    page.evaluate("window.pass(), window.second")
    page.wait_for_function("events.some(({ kind, reports }) => kind === 'sent' && reports === 2)")
    assert codes(profile.pages) == 2


def test_a_lost_account_is_not_taken_for_a_new_one(profile: Profile) -> None:
    """Only IndexedDB is gone, as after damage. Clearing all site data would delete the account."""
    page = profile.open()
    assert page.evaluate("report()") is True
    page.evaluate(
        """new Promise((resolve, reject) => {
            const request = indexedDB.deleteDatabase("arcwise-ledgers");
            [request.onsuccess, request.onerror] = [resolve, reject];
        }).then(() => 1)"""
    )
    for each in (page, profile.open()):
        assert each.evaluate("report()") is False
        assert "the account is lost" in each.evaluate("spent().catch((error) => error.message)")
    everything = {"origin": profile.pages.url, "storageTypes": "all"}
    page.context.new_cdp_session(page).send("Storage.clearDataForOrigin", everything)
    assert page.evaluate("report()") is False  # it knows that there was one
    assert profile.open().evaluate("spent()") == 0


WORKER = """
import * as arcwise from "/arcwise/index.js";
const task = await arcwise.Task.fromJson(await (await fetch("/task.json")).json());
const client = new arcwise.Client(location.origin, { tasks: [task], interval: 3600 });
const granted = await client.report("heading", 350.5);
postMessage([granted, await client.budget("heading").catch((error) => error.message)]);
"""


def test_a_full_localstorage_stops_no_report(profile: Profile) -> None:
    """The account is in IndexedDB; the mark for earlier versions is written when there is room again."""
    page = profile.open()
    page.evaluate(
        """() => {
            for (let size = 2 ** 23; size >= 1; size /= 2) {
                try {
                    localStorage.setItem(`full ${size}`, "x".repeat(size));
                } catch {} // no more of this size fits
            }
        }"""
    )
    assert [page.evaluate("report()") for _ in range(2)] == [True, True]
    assert page.evaluate("localStorage.getItem('arcwise')") is None
    page.evaluate("localStorage.clear()")
    assert page.evaluate("report()") is True
    assert "IndexedDB" in page.evaluate("localStorage.getItem('arcwise')")
    assert page.evaluate("spent()") == 3


def test_a_hidden_page_makes_no_account(profile: Profile) -> None:
    """Firefox loads a page again to take its picture, hidden and with storage of its own."""
    hide = "Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true });"
    ask = "report()"
    page = profile.open(f"{hide} start()")
    assert page.evaluate(ask) is False
    page.evaluate("delete document.visibilityState")
    assert page.evaluate(ask) is True
    page.evaluate(hide)
    assert page.evaluate(ask) is True
    assert page.evaluate("spent()") == 2


def test_a_worker_makes_no_account(profile: Profile) -> None:
    """A worker cannot see whether somebody opted out in an earlier version, nor what was spent there."""
    profile.pages.files["/worker.js"] = WORKER
    page = profile.chromium.open(f"{profile.pages.url}/empty")
    state = json.loads(EARLIER.read_text("utf-8"))
    page.evaluate("(text) => localStorage.setItem('arcwise', text)", json.dumps({**state, "optedOut": True}))
    ask = """() => new Promise((resolve) => {
        new Worker("/worker.js", { type: "module" }).onmessage = ({ data }) => resolve(data);
    })"""
    granted, told = page.evaluate(ask)
    assert granted is False
    assert "a visible page must make the account" in told
    assert profile.open().evaluate("report().then(() => client.counters())")["refused"] == {"opted-out": 1}
    granted, told = page.evaluate(ask)
    assert granted is False
    assert told["epsilon"] == 3


@pytest.mark.slow
def test_an_account_of_localstorage_is_taken_over_once(profile: Profile) -> None:
    now = int(time.time())
    text = EARLIER.read_text("utf-8").strip().replace("1000.", f"{now}.")
    state = json.loads(text)
    before = profile.chromium.open(f"{profile.pages.url}/empty")
    before.evaluate("(text) => localStorage.setItem('arcwise', text)", text)
    pages = [profile.open(), profile.open()]
    for page in pages:  # both in parallel
        page.evaluate("window.granted = Promise.all([report(), report()]), 1")
    for page in pages:
        assert page.evaluate("granted") == [True, True]
    assert [page.evaluate("spent()") for page in pages] == [7, 7]
    assert page.evaluate("client.budget('heading').then(({ recentEpsilon }) => recentEpsilon)") == 7
    # Earlier versions refuse this state, so they do not report in parallel with new ones.
    assert before.evaluate("JSON.parse(localStorage.getItem('arcwise')).version") != 1
    assert page.evaluate("client.flush()") is True
    assert codes(profile.pages) == 7
    (earlier,) = [each for each in profile.pages.batches if each.batch_id.hex() == state["open"][0]["id"]]
    assert sorted(np.frombuffer(bytes(earlier.codes), "u1")) == state["open"][0]["codes"]

    def put_back() -> None:
        before.evaluate("(text) => localStorage.setItem('arcwise', text)", json.dumps(state))

    put_back()  # as if a browser were killed before it wrote the mark
    assert profile.open().evaluate("spent()") == 7
    (account,) = state["account"]["tasks"].values()
    account["spent"] += 1_000_000  # and as if a page of the previous version had not noticed
    account["recent"].append(now + 0.75)
    put_back()
    page = profile.open()
    assert page.evaluate("spent()") == 8
    assert page.evaluate("client.flush()") is True
    assert codes(profile.pages) == 7
    assert [page.evaluate("report()") for _ in range(2)] == [True, False]
    for text in ("{}", '{"version": 2}', "nothing"):
        page.evaluate("(text) => localStorage.setItem('arcwise', text)", text)
        assert page.evaluate("report()") is False
