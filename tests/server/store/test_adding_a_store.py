"""`docs/contributing/adding-a-store.md`: its steps in a copy of the checkout, and the store's contract."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
PAGE = REPOSITORY / "docs" / "contributing" / "adding-a-store.md"
EXAMPLE = REPOSITORY / "tests" / "support" / "msgpack_store.py"
ROOTS = ("shared", "client", "server")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of the checkout with the store of the page."""
    for name in (*ROOTS, "tests"):
        shutil.copytree(REPOSITORY / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    (module,) = re.findall(r"Copy the example to `([\w/]+\.py)`", text)
    shutil.copy(EXAMPLE, tmp_path / module)
    places = re.findall(r"^In `([\w/]+\.py)`", text, re.MULTILINE)
    for place, block in zip(places, re.findall(r"```python\n(.*?)```", text, re.DOTALL), strict=True):
        with (tmp_path / place).open("a", encoding="utf-8") as file:
            file.write("\n" + block)
    return tmp_path


def run(checkout: Path, *command: str) -> str:
    path = os.pathsep.join([str(checkout), *(str(checkout / root) for root in ROOTS)])
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return done.stdout


@pytest.mark.slow
def test_the_page_makes_a_store_that_keeps_the_contract(checkout: Path) -> None:
    (command,) = re.findall(r"^    python -m (pytest .*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    told = run(checkout, *command.split(), "-p", "no:cacheprovider", "-o", "addopts=-p no:schemathesis")
    found = re.search(r"(\d+) passed", told)
    assert found is not None
    assert int(found[1]) > 80


@pytest.mark.slow
def test_the_command_takes_the_store_of_the_page(checkout: Path) -> None:
    url = f"msgpack:///{checkout / 'counts.store'}"
    run(checkout, "arcwise.cli", "key", "new", "--scope", "read", "--store", url)
    assert "0 tasks, 1 key," in run(checkout, "arcwise.cli", "store", "info", url)
