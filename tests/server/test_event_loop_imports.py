"""No request makes the event loop load a large library, because it would answer nobody meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys

LARGE = ["matplotlib", "pandas", "pyarrow", "scipy"]

PAGES = [
    "/",
    "/operator",
    "/login",
    "/docs",
    "/tasks/{task}",
    *(f"/tasks/{{task}}/{x}" for x in ("compare", "fit", "plan")),
]

SCRIPT = """
import asyncio, importlib.abc, json, sys, tempfile, threading
import httpx
from arcwise.domains import Circle, Interval
from arcwise.server import Settings, create_app
from arcwise.tasks import Task

large, pages = (set(json.loads(each)) for each in sys.argv[1:])
tasks = [Task("age", Interval(0, 100), 2.0), Task("heading", Circle(360), 2.0)]
asking, loads, threads, answers = [], [], [], []

class Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in large and threading.get_ident() in threads:
            loads.append([asking[-1], name])

async def main():
    app = create_app(Settings(tasks, store=f"sqlite:///{tempfile.mkdtemp()}/app.db", open=True))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    http = httpx.AsyncClient(transport=transport, base_url="http://s")
    async with app.router.lifespan_context(app), http:
        threads.append(threading.get_ident())
        for path in sorted(pages | set(app.openapi()["paths"])):
            for known in (tasks[0].id, tasks[1].id, "x"):
                for query in ("", "?against_from=2026-01-02&to=2026-01-01"):
                    asking.append(path)
                    answer = await http.get(path.replace("{task}", known) + query)
                    answers.append(answer.status_code)
    print(json.dumps([answers.count(200), loads]))

sys.meta_path.insert(0, Watch())
asyncio.run(main())
"""


def test_no_request_loads_a_large_library_on_the_event_loop() -> None:
    """A first comparison once loaded scipy there: 1.6 seconds, even for a reader without a key."""
    command = [sys.executable, "-c", SCRIPT, json.dumps(LARGE), json.dumps(PAGES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert not done.returncode, done.stderr
    answered, loads = json.loads(done.stdout.splitlines()[-1])
    assert answered > 20
    assert loads == []
