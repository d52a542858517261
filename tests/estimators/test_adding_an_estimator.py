"""`docs/contributing/adding-an-estimator.md` on a copy of the analysis: its files, changes and tests."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "contributing" / "adding-an-estimator.md"
PART = re.compile(r"```(\w+)\n(.*?)```|`([\w/]+\.py)`", re.DOTALL)
"""A block of the page, or the path of the file for the next blocks."""


def changed(text: str, hunk: str) -> str:
    """Return a text with the change of one hunk."""
    lines = hunk.splitlines()
    before = "\n".join(line[1:] for line in lines if not line.startswith("+"))
    after = "\n".join(line[1:] for line in lines if not line.startswith("-"))
    assert text.count(before) == 1, f"the page changes a place that is not there once:\n{before}"
    return text.replace(before, after)


def carry_out(page: str, folder: Path) -> list[str]:
    """Write the page's files and make its changes below a folder; return their paths."""
    path = ""
    written: dict[str, None] = {}
    for kind, block, named in PART.findall(page):
        path = named or path
        if block:
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            text = changed(file.read_text(encoding="utf-8"), block) if kind == "diff" else block
            file.write_text(text, encoding="utf-8")
            written[path] = None
    return list(written)


@pytest.mark.slow
def test_the_page_adds_an_estimator_that_passes_its_tests(tmp_path: Path) -> None:
    source = Path("server", "arcwise", "analysis")
    shutil.copytree(ROOT / source, tmp_path / source, ignore=shutil.ignore_patterns("__pycache__"))
    paths = carry_out(PAGE.read_text(encoding="utf-8"), tmp_path)
    assert [Path(path).name for path in paths] == [
        "root_mean_square.py",
        "result.py",
        "estimation.py",
        "tidy.py",
        "test_root_mean_square.py",
    ]
    shutil.copytree(ROOT / "tests" / "support", tmp_path / "tests" / "support")
    shutil.copy(ROOT / "tests" / "__init__.py", tmp_path / "tests")
    path = os.pathsep.join([str(tmp_path), str(tmp_path / "server"), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", paths[-1]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
