"""The first view of a task with a million reports, and ingestion while ten dashboards are open.

Both use the Chromium on the path and `arcwise serve` on SQLite, on one machine. Each view has a newly started
server, and a browser without a cache: "cold" three seconds after the start, when nothing has been estimated
yet, and "cached" again by another user. Milliseconds are the browser's own, from the navigation to the first
picture on the screen, to the end of loading, and until every figure is shown. Bytes are those on the wire, of
the page and what it loads.

The dashboards are tabs on pages of the task that gets the reports, on the overview and on the operator's
page. The load is that of `benchmarks.speed.ingest`. Rounds without and with dashboards are interleaved, and
the ratio is that of the medians. It exits with 1 if a bound is missed, as may happen on a busy machine.

    python -m benchmarks.speed.dashboards [--rounds 5] [--seconds 20] [--connections 64]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from benchmarks.speed.ingest import REPORTS, TASK, Load, below, finish, start
from tests.support.page_stores import MILLION, Survey, fill, surveys
from tests.support.server_processes import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

LONGEST_MS = 1000.0
MOST_BYTES = 100_000
LEAST_RATIO = 0.8
DASHBOARDS = 10
WARM_SECONDS = 3.0
_COMPLETE = "() => !document.querySelector('.computing') && document.querySelector('[data-figure]')"
_TIMES = """() => {
  const [navigation] = performance.getEntriesByType("navigation");
  const [paint] = performance.getEntriesByName("first-contentful-paint");
  return {paint: paint ? paint.startTime : 0, load: navigation.loadEventEnd, complete: performance.now()};
}"""


def view(browser: Browser, url: str) -> dict[str, float]:
    """Open a page in a new browser; return milliseconds, and bytes on the wire."""
    context = browser.new_context()
    try:
        page = context.new_page()
        session = context.new_cdp_session(page)
        session.send("Network.enable")
        sizes: list[float] = []
        session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
        page.goto(url, wait_until="load")
        page.wait_for_function(_COMPLETE, timeout=60_000)
        times: dict[str, float] = page.evaluate(_TIMES)
        return times | {"bytes": sum(sizes)}
    finally:
        context.close()


def views(browser: Browser, rounds: int) -> list[str]:
    """Print the times of first views; return the bounds that were missed."""
    found: dict[str, list[dict[str, float]]] = {"cold": [], "cached": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            (task, *_) = fill(f"sqlite:///{folder}/server.db", surveys()[:1])
            assert task.name == MILLION
            with serving(Path(folder), files=False) as (url, _process):
                time.sleep(WARM_SECONDS)
                for each in found.values():
                    each.append(view(browser, f"{url}/tasks/{task.id}"))
    print(f"a task with a million reports, {rounds} servers, medians and worst")
    row = "  {:<8} {:>16} {:>16} {:>16} {:>18}".format
    print(row("", "first paint ms", "loaded ms", "every figure ms", "bytes"))
    missed = []
    for name, each in found.items():
        columns = {key: [view[key] for view in each] for key in ("paint", "load", "complete", "bytes")}
        cells = [
            f"{statistics.median(columns[key]):,.0f} ({max(columns[key]):,.0f})"
            for key in ("paint", "load", "complete", "bytes")
        ]
        print(row(name, *cells))
        if (took := statistics.median(columns["complete"])) > LONGEST_MS:
            missed.append(f"{name}: every figure after {took:,.0f} ms, the bound is {LONGEST_MS:,.0f}")
        if (most := max(columns["bytes"])) > MOST_BYTES:
            missed.append(f"{name}: {most:,.0f} bytes, the bound is {MOST_BYTES:,}")
    return missed


def open_dashboards(context: BrowserContext, url: str) -> list[tuple[str, int]]:
    """Open the dashboards; return the list that collects their requests."""
    asked: list[tuple[str, int]] = []
    context.on("response", lambda answer: asked.append((urlsplit(answer.url).path, answer.status)))
    pages = [
        f"/tasks/{TASK.id}",
        "/",
        f"/tasks/{TASK.id}?every=week",
        "/operator",
        f"/tasks/{TASK.id}?level=0.9",
    ]
    for number in range(DASHBOARDS):
        page = context.new_page()
        page.goto(url + pages[number % len(pages)], wait_until="load")
    return asked


def ingestion(browser: Browser, rounds: int, seconds: float, connections: int) -> list[str]:
    """Print ingestion with and without dashboards; return the bounds that were missed."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        fill(
            f"sqlite:///{folder / 'server.db'}",
            [Survey(TASK, "beta:2,5", "beta:2,5", 1_000_000), *surveys()[:2]],
        )
        url, _ = stack.enter_context(serving(folder, files=False))
        port = urlsplit(url).port or 0

        def rate(requests: int) -> float:
            load = Load(REPORTS, requests, 1)
            generator = start(port, load, connections)
            # Read the browser's connection meanwhile, as a user's browser would.
            while generator.poll() is None:
                if context.pages:
                    context.pages[0].wait_for_timeout(100)
                else:
                    time.sleep(0.1)
            took: float = finish(generator, load)["seconds"]
            return requests / took

        context = browser.new_context()
        requests = max(1000, int(rate(8_000) * seconds))
        without: list[float] = []
        beside: list[float] = []
        asked: list[tuple[str, int]] = []
        for _ in range(rounds):
            without.append(rate(requests))
            seen = open_dashboards(context, url)
            context.pages[0].wait_for_timeout(WARM_SECONDS * 1000)
            before = len(seen)
            beside.append(rate(requests))
            asked += seen[before:]
            context.close()
            context = browser.new_context()
        context.close()
    ratio = statistics.median(beside) / statistics.median(without)
    statuses = {status: sum(each == status for _, each in asked) for status in {each for _, each in asked}}
    print(f"ingestion of single reports, {connections} connections, {rounds} rounds of {requests:,} requests")
    print(
        f"  {statistics.median(without):,.0f} requests/s alone, {statistics.median(beside):,.0f} beside "
        f"{DASHBOARDS} open dashboards: {ratio:.2f}"
    )
    print(f"  the dashboards' requests meanwhile, by status: {statuses}")
    return below("ingestion beside dashboards", ratio, LEAST_RATIO)


def run(rounds: int = 5, *, seconds: float = 20.0, connections: int = 64) -> bool:
    """Print both; return whether all bounds were kept."""
    from tests.support.chromium import launch

    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("there is no chromium: apt-get install chromium")
    with launch(program) as browser:
        missed = views(browser, rounds)
        missed += ingestion(browser, rounds, seconds, connections)
    for line in missed:
        print(f"  MISSED {line}")
    return not missed


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of load in a round")
    parser.add_argument("--connections", type=int, default=64)
    given = parser.parse_args()
    raise SystemExit(0 if run(given.rounds, seconds=given.seconds, connections=given.connections) else 1)


if __name__ == "__main__":
    main()
