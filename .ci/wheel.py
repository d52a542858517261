"""Build the sdist and the wheel, and try the wheel in clean environments: bare, then with each extra.

The checks run in separate folders and environments, so that they import the wheel and not the checkout. The
sdist must hold all files that git has, and build an identical wheel.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

BARE = """
import importlib.metadata, subprocess, sys
from pathlib import Path
from arcwise.client import Client, MemoryLedger, Outcome
from arcwise.domains import Circle, Interval
from arcwise.tasks import Caps, Task

for name in ("numpy", "httpx", "fastapi", "scipy", "pandas", "sqlite3"):
    assert name not in sys.modules, f"importing the client loads {name}"
command = str(Path(sys.executable).with_name("arcwise"))
task = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=1.0))
assert Task.from_bytes(task.to_bytes()) == task
assert 0 <= task.mechanism.randomize(42.0) < 128
assert task.mechanism.decode(task.mechanism.randomize_many([1.0, 2.0])).shape == (2,)
with Client("http://127.0.0.1:9", tasks=[task], ledger=MemoryLedger()) as client:
    assert client.report("heading", 42.0) is Outcome.ACCEPTED
    assert client.report("heading", 42.0) is Outcome.CAPPED
    assert client.flush(0.2) is False
    client.close(0)
for part in ("analysis", "server"):
    try:
        __import__(f"arcwise.{part}")
    except ImportError as error:
        assert f"pip install 'arcwise[{part}]'" in str(error), error
    else:
        raise SystemExit(f"arcwise.{part} imports without its extra")
for arguments in ([], ["--help"], ["serve"], ["plan", "--help"]):
    done = subprocess.run([command, *arguments], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr.count("\\n") == 1 and "pip install 'arcwise[server]'" in done.stderr, done.stderr
for command in ([command], [sys.executable, "-m", "arcwise"]):
    done = subprocess.run([*command, "--version"], capture_output=True, text=True)
    assert done.stdout == f"arcwise, version {importlib.metadata.version('arcwise')}\\n", done
kit = [sys.executable, "-m", "arcwise.client.conformance"]
done = subprocess.run([*kit, sys.executable, "-m", f"{kit[-1]}.reference"], capture_output=True, text=True)
assert done.returncode == 0 and " 0 failed, 0 skipped: the client conforms" in done.stdout, done
tops = {str(path).split("/")[0] for path in importlib.metadata.files("arcwise")}
assert not tops & {"client", "server", "shared", "tests"}, tops
from arcwise.client import *
from arcwise.domains import *
from arcwise.tasks import *
try:
    ObliviousTransport("https://relay.example", b"")
except ImportError as error:
    assert "pip install 'arcwise[oblivious]'" in str(error), error
else:
    raise SystemExit("an oblivious transport is made without its extra")
"""

ANALYSIS = """
import pkgutil, sys
from importlib import import_module
from importlib.util import find_spec
import numpy as np
import arcwise.analysis
from arcwise.analysis import estimate, plan, simulate_counts
from arcwise.domains import Interval
from arcwise.tasks import Task

for name in ("fastapi", "uvicorn", "click", "rich", "matplotlib"):
    assert find_spec(name) is None, f"the extra brings {name}"
for module in pkgutil.walk_packages(arcwise.analysis.__path__, "arcwise.analysis."):
    if not module.name.startswith("arcwise.analysis.plotting."):
        import_module(module.name)
for name in arcwise.analysis.__all__:
    getattr(arcwise.analysis, name)
task = Task("age", Interval(0, 100), epsilon=2.0)
counts = simulate_counts(task, "normal:40,12", 10_000, np.random.default_rng(1))
assert estimate(task, counts, bands=True).mean.contains(40)
try:
    import arcwise.server
except ImportError as error:
    assert "pip install 'arcwise[server]'" in str(error), error
else:
    raise SystemExit("arcwise.server imports without its extra")
"""

PLOTS = """
from importlib.util import find_spec
from arcwise.analysis import estimate
from arcwise.domains import Circle
from arcwise.tasks import Task

for name in ("fastapi", "uvicorn", "click", "rich"):
    assert find_spec(name) is None, f"the extra brings {name}"
task = Task("heading", Circle(360), epsilon=2.0)
result = estimate(task, [20] * task.mechanism.kernel.codes)
assert result.plot()._repr_svg_().startswith("<svg")
try:
    result.to_frame()
except ImportError as error:
    assert "pip install pandas or pip install polars" in str(error), error
else:
    raise SystemExit("a table without pandas and Polars")
"""

SERVER = """
import json, subprocess, sys, urllib.request
from pathlib import Path

command = str(Path(sys.executable).with_name("arcwise"))
subprocess.run([command, "task", "new", "heading", "--circle", "360", "--epsilon", "1"], check=True)
subprocess.run([command, "task", "verify", "heading.json"], check=True)
subprocess.run([sys.executable, "-m", "arcwise", "quickstart"], check=True)
subprocess.run([sys.executable, "quickstart.py"], check=True)
assert Path("commute.svg").read_text(encoding="utf-8").startswith("<svg")
for extra, arguments in (
    ("postgres", ["serve", "--store", "postgresql://arcwise@127.0.0.1/arcwise"]),
    ("oblivious", ["key", "gateway", "gateway.keys"]),
    ("postgres", ["store", "info", "postgresql://arcwise@127.0.0.1/arcwise"]),
    ("plots", ["plan", "--domain", "0:1", "--epsilon", "1", "--reports", "100", "--plot", "plan.svg"]),
    ("plots", ["reproduce", "all"]),
    ("demo", ["demo"]),
    ("demo", ["simulate", "heading.json", "--distribution", "wind", "--reports", "100"]),
):
    done = subprocess.run([command, *arguments], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr.count("\\n") == 1 and f"pip install 'arcwise[{extra}]'" in done.stderr, done.stderr
from arcwise.client import Client
from arcwise.tasks import Task

task = Task.load("heading.json")
server = subprocess.Popen(
    [command, "serve", "--tasks", ".", "--port", "0"], stdout=subprocess.PIPE, text=True
)
try:
    url = server.stdout.readline().split()[-1]
    with Client(url, tasks=[task], caps="unlimited") as client:
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
    """Build, install and check."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = packages(folder)
        names = zipfile.ZipFile(wheel).namelist()
        for needed in (
            "arcwise/py.typed",
            "arcwise/client/py.typed",
            *(f"arcwise/{part}/py.typed" for part in ("analysis", "cli", "papers", "server")),
            *(path.relative_to(ROOT / "server").as_posix() for path in (ROOT / "server").rglob("*.sql")),
        ):
            if needed not in names:
                raise SystemExit(f"the wheel lacks {needed}")
        if any("javascript" in name for name in names):
            raise SystemExit("the wheel holds the JavaScript client")
        if "arcwise/__init__.py" in names:
            raise SystemExit("arcwise must stay a namespace: the wheel holds arcwise/__init__.py")
        for label, extra, script in (
            ("bare", "", BARE),
            ("analysis", "[analysis]", ANALYSIS),
            ("plots", "[plots]", PLOTS),
            ("server", "[server]", SERVER),
        ):
            python = environment(folder / label, sys.executable, f"{wheel}{extra}")
            work = folder / f"{label}-work"
            work.mkdir()
            run(python, "-c", script, cwd=work)
            if label == "bare":
                check_types(python, work)
            print(f"wheel: {label} ok")


def packages(folder: Path) -> Path:
    """Build the sdist, and the wheel from it; check both and return the wheel."""
    build = (sys.executable, "-m", "build", "--installer", "uv", "--quiet")
    run(*build, "--outdir", str(folder), str(ROOT), cwd=ROOT)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    run(sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel), cwd=ROOT)
    run(str(Path(sys.executable).with_name("check-wheel-contents")), str(wheel), cwd=ROOT)
    run(*build, "--wheel", "--outdir", str(folder / "direct"), str(ROOT), cwd=ROOT)
    if wheel.read_bytes() != (folder / "direct" / wheel.name).read_bytes():
        raise SystemExit("the sdist builds another wheel than the checkout")
    files = set(run("git", "ls-files", cwd=ROOT, capture=True).splitlines())
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    if lacks := {name for name in files if (ROOT / name).is_file()} - held:
        raise SystemExit(f"the sdist lacks {', '.join(sorted(lacks))}")
    (metadata,) = (name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".dist-info/METADATA"))
    readme = zipfile.ZipFile(wheel).read(metadata).decode()
    if relative := re.findall(r"\]\((?!https?:|#)[^)]*\)", readme):
        raise SystemExit(f"README.md has links that a package index cannot follow: {', '.join(relative)}")
    print(f"packages: {sdist.name} and {wheel.name} ok")
    return wheel


def environment(folder: Path, interpreter: str, *what: str) -> str:
    """Return the Python of a new environment with the given packages, after checking their requirements."""
    uv = (sys.executable, "-m", "uv", "--quiet")
    run(*uv, "venv", "--python", interpreter, str(folder), cwd=ROOT)
    python = str(folder / "bin" / "python")
    run(*uv, "pip", "install", "--python", python, *what, cwd=ROOT)
    run(*uv, "pip", "check", "--python", python, cwd=ROOT)
    return python


def check_types(python: str, work: Path) -> None:
    """Run strict mypy on a program that uses the whole client, and on one with an unknown name.

    mypy runs in this environment; the types come from the other environment, without our stubs or
    typing_extensions.
    """
    (work / "mypy.ini").write_text("[mypy]\nstrict = true\n", encoding="utf-8")
    source = (ROOT / ".ci" / "consumer.py").read_text(encoding="utf-8")
    public = ast.literal_eval(
        run(python, "-c", "import arcwise.client; print(arcwise.client.__all__)", cwd=work, capture=True)
    )
    imported = {
        alias.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module == "arcwise.client"
        for alias in node.names
    }
    if imported != set(public):
        raise SystemExit(f"consumer.py must name the client's whole API: {sorted(imported ^ set(public))}")
    consumer, wrong = work / "consumer.py", work / "wrong.py"
    consumer.write_text(source, encoding="utf-8")
    wrong.write_text("from arcwise.client import Cleint\n", encoding="utf-8")
    mypy = (sys.executable, "-m", "mypy", "--python-executable", python, "--no-incremental")
    run(*mypy, consumer.name, cwd=work)
    refused = subprocess.run((*mypy, wrong.name), cwd=work, check=False, capture_output=True, text=True)
    if refused.returncode != 1 or 'has no attribute "Cleint"' not in refused.stdout:
        raise SystemExit(f"mypy accepts a name that the client does not have: {refused.stdout}")


def run(*command: str, cwd: Path, capture: bool = False) -> str:
    """Run a command, or stop with its exit code; return its output if it is captured."""
    output = subprocess.PIPE if capture else None
    done = subprocess.run(command, cwd=cwd, check=False, stdout=output, text=True)
    if done.returncode:
        raise SystemExit(done.returncode)
    return done.stdout or ""


if __name__ == "__main__":
    main()
