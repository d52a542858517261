"""`arcwise quickstart` and `python -m arcwise`: the first commands of a new user."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

import arcwise.version
from arcwise.cli.quickstart import program
from tests.support.commands import bad, good

if TYPE_CHECKING:
    from pathlib import Path


def test_the_program_is_written_and_nothing_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert good("quickstart") == "wrote quickstart.py; run it with: python quickstart.py\n"
    file = tmp_path / "quickstart.py"
    assert file.read_text(encoding="utf-8") == program()
    file.write_text("mine", encoding="utf-8")
    said = "quickstart.py already exists; remove it, or give another --output"
    assert said in bad("quickstart", "-o", "quickstart.py", code=1)
    assert file.read_text(encoding="utf-8") == "mine"
    good("quickstart", "-o", "new/one.py")
    assert (tmp_path / "new" / "one.py").exists()


@pytest.mark.slow
def test_the_program_runs_and_draws(tmp_path: Path) -> None:
    file = tmp_path / "quickstart.py"
    file.write_text(program(), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", file], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith("commute: 10,000 reports at epsilon 1, values in [0, 120] min\n")
    assert "true mean 4" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["commute.svg", "quickstart.py"]
    assert ElementTree.parse(tmp_path / "commute.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_the_program_takes_public_names_alone() -> None:
    assert "._" not in program()
    compile(program(), "quickstart.py", "exec")
    assert max(map(len, program().splitlines())) <= 120


def test_python_m_arcwise_is_the_command(tmp_path: Path) -> None:
    run = [sys.executable, "-m", "arcwise", "--version"]
    done = subprocess.run(run, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout == f"arcwise, version {version('arcwise')}\n"
    assert arcwise.version.__version__ == version("arcwise")
