"""The modules that a device loads; sets of modules, because times differ from machine to machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from arcwise.domains import Circle
from arcwise.tasks import Task

if TYPE_CHECKING:
    from pathlib import Path

SLOW = {
    "ast",
    "asyncio",
    "concurrent.futures",
    "dataclasses",
    "email",
    "hashlib",
    "httpx",
    "inspect",
    "json",
    "logging",
    "numpy",
    "pathlib",
    "random",
    "socket",
    "sqlite3",
    "ssl",
    "tempfile",
    "tokenize",
    "unicodedata",
    "urllib",
}
"""Modules that no import of the library may load."""

IMPORTS = "from arcwise.domains import Circle\nfrom arcwise.tasks import Caps, Task\nimport arcwise.wire"
REPORT = f"""{IMPORTS}
task = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=30.0))
task = Task.from_bytes(task.to_bytes())
code = task.mechanism.randomize(350.5)
batch = arcwise.wire.Batch(bytes.fromhex(task.id), bytes(16), 0, arcwise.wire.pack_codes([code], 1))
arcwise.wire.encode_batch(batch)"""
APP = "from arcwise.client import Caps, Circle, Client, Interval, Task"
APP_REPORT = f"""{APP}
task = Task("heading", Circle(360), epsilon=1.0)
client = Client("http://127.0.0.1:9", tasks=[task], caps="unlimited", interval=600)
assert client.report("heading", 350.5)"""
LOAD = """import sys
from arcwise.tasks import Task
task = Task.load(sys.argv[1])
task.mechanism.randomize(350.5)"""


def loaded(code: str, *arguments: str) -> set[str]:
    """Return the modules that a program loads in a new interpreter, beyond those that it starts with."""
    script = f"import sys; before = set(sys.modules)\n{code}\nafter = sorted(set(sys.modules) - before)\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}import json; print(json.dumps(after))", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    # From 3.14 on, typing.NamedTuple imports annotationlib, and that imports ast, for annotations in words.
    return set(json.loads(done.stdout)) - ({"ast"} if sys.version_info >= (3, 14) else set())


def test_imports_bring_nothing_slow() -> None:
    modules = loaded(IMPORTS)
    assert {"arcwise.tasks.task", "msgpack", "fractions"} <= modules  # the list contains the loaded modules
    assert modules & SLOW == set()


def test_an_app_brings_nothing_slow() -> None:
    modules = loaded(APP)
    assert {"arcwise.client.client", "threading"} <= modules
    assert modules & SLOW == set()


def test_one_line_imports_all_that_an_app_with_a_ledger_needs() -> None:
    modules = loaded("from arcwise.client import Client, FileLedger, Task, Circle, Interval, Caps")
    assert modules & SLOW == {"pathlib", "sqlite3", "urllib"}
    assert "arcwise.client.aio" not in modules


def test_a_report_of_an_app_needs_a_hash_and_the_parts_of_an_address() -> None:
    """No module that writes, logs or sends is loaded before it is needed."""
    assert loaded(APP_REPORT) & SLOW == {"hashlib", "urllib"}


def test_a_report_needs_a_hash_and_nothing_else_that_is_slow() -> None:
    assert loaded(REPORT) & SLOW == {"hashlib"}


@pytest.mark.parametrize("domain", ["Circle(360)", "Interval(0, 1)"])
def test_a_device_loads_the_kernel_that_it_samples_from(domain: str) -> None:
    code = (
        "from arcwise.domains import Circle, Interval\nfrom arcwise.tasks import Task\n"
        f"Task('x', {domain}, 1.0).mechanism.randomize(0.5)"
    )
    modules = loaded(code)
    assert "arcwise.kernels.window" in modules
    unwanted = {
        f"arcwise.{part}.{other}" for part in ("kernels", "mechanisms") for other in ("table", "circulant")
    }
    unwanted |= {"arcwise.kernels.approximate", "arcwise.noise", "arcwise.tasks.group"}
    assert modules & unwanted == set()


def test_a_task_of_a_file_needs_no_closed_form(tmp_path: Path) -> None:
    path = tmp_path / "heading.json"
    Task("heading", Circle(360), epsilon=1.0).save(path)
    modules = loaded(LOAD, str(path))
    assert "arcwise.mechanisms.optimal" in modules
    assert "arcwise.mechanisms.closed_forms" not in modules
    assert modules & SLOW == {"hashlib", "json"}


EXTRAS = ("cryptography", "psycopg", "scipy", "pandas", "fastapi", "matplotlib")
STAR = f"""import sys
sys.modules |= dict.fromkeys({EXTRAS!r})  # as where they are not installed
from arcwise.client import *
from arcwise.domains import *
from arcwise.tasks import *
try:
    ObliviousTransport("https://relay.example", b"")
except ImportError as error:
    assert "pip install 'arcwise[oblivious]'" in str(error), error
else:
    raise SystemExit("an oblivious transport without the extra")
"""


def test_all_names_of_the_client_can_be_imported_without_an_extra() -> None:
    subprocess.run([sys.executable, "-c", STAR], check=True, timeout=120)
