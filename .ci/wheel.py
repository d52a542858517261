"""Build the wheel and try it where nothing else is: bare, then with the server's extra.

The checks run in folders and environments of their own, so that what they import is the wheel and not the
checkout.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

BARE = """
import importlib.metadata, sys
from arcwise.client import Client, MemoryLedger, Outcome
from arcwise.domains import Circle, Interval
from arcwise.tasks import Caps, Task

for name in ("numpy", "httpx", "fastapi", "scipy", "pandas", "sqlite3"):
    assert name not in sys.modules, f"importing the client loads {name}"
task = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=1.0))
assert Task.from_bytes(task.to_bytes()) == task
assert 0 <= task.mechanism.randomize(42.0) < 128
assert task.mechanism.decode(task.mechanism.randomize_many([1.0, 2.0])).shape == (2,)
with Client("http://127.0.0.1:9", tasks=[task], ledger=MemoryLedger()) as client:
    assert client.report("heading", 42.0) is Outcome.ACCEPTED
    assert client.report("heading", 42.0) is Outcome.CAPPED
    assert client.flush(0.2) is False
    client.close(0)
try:
    import arcwise.server
except ImportError as error:
    assert "pip install 'arcwise[server]'" in str(error), error
else:
    raise SystemExit("arcwise.server imports without its extra")
tops = {str(path).split("/")[0] for path in importlib.metadata.files("arcwise")}
assert not tops & {"client", "server", "shared", "tests"}, tops
"""

SERVER = """
import json, subprocess, sys, urllib.request
from pathlib import Path

command = str(Path(sys.executable).with_name("arcwise"))
subprocess.run([command, "task", "new", "heading", "--circle", "360", "--epsilon", "1"], check=True)
subprocess.run([command, "task", "verify", "heading.json"], check=True)
from arcwise.client import Client
from arcwise.tasks import Task

task = Task.load("heading.json")
server = subprocess.Popen(
    [command, "serve", "--tasks", ".", "--port", "0"], stdout=subprocess.PIPE, text=True
)
try:
    url = server.stdout.readline().split()[-1]
    with Client(url, tasks=[task]) as client:
        for heading in range(360):
            client.report("heading", heading)
        assert client.flush(20)
    with urllib.request.urlopen(f"{url}/v1/tasks/{task.id}/estimate") as answer:
        assert json.load(answer)["n"] == 360
finally:
    server.terminate()
    server.wait(20)
"""


def main() -> None:
    """Build, install, check."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(sys.executable, "-m", "build", "--quiet", "--wheel", "--outdir", str(folder), str(ROOT), cwd=ROOT)
        (wheel,) = folder.glob("*.whl")
        names = zipfile.ZipFile(wheel).namelist()
        for needed in (
            "arcwise/py.typed",
            "arcwise/client/py.typed",
            "arcwise/server/py.typed",
            "arcwise/server/store/schema.sql",
        ):
            if needed not in names:
                raise SystemExit(f"the wheel lacks {needed}")
        if "arcwise/__init__.py" in names:
            raise SystemExit("arcwise must stay a namespace: the wheel holds arcwise/__init__.py")
        for label, extra, script in (("bare", "", BARE), ("server", "[server]", SERVER)):
            environment = folder / label
            venv.create(environment, with_pip=True)
            python = str(environment / "bin" / "python")
            work = folder / f"{label}-work"
            work.mkdir()
            pip = ("-m", "pip", "--disable-pip-version-check")
            run(python, *pip, "install", "--quiet", f"{wheel}{extra}", cwd=work)
            run(python, *pip, "check", cwd=work)
            run(python, "-c", script, cwd=work)
            print(f"wheel: {label} ok")


def run(*command: str, cwd: Path) -> None:
    """Run a command, or stop with its exit code."""
    done = subprocess.run(command, cwd=cwd, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)


if __name__ == "__main__":
    main()
