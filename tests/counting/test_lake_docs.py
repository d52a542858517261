"""docs/howto/lake.md, carried out from its first block to its last, all in one namespace and folder."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from arcwise.analysis.counting.rules import REASONS
from arcwise.analysis.counting.sources import LAYOUTS
from arcwise.cli import main

if TYPE_CHECKING:
    import pytest

TEXT = (Path(__file__).parents[2] / "docs" / "howto" / "lake.md").read_text("utf-8")


def test_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    ran = 0
    for language, block in re.findall(r"```(python|sh)\n(.*?)```", TEXT, re.DOTALL):
        if language == "python":
            exec(compile(block, "lake.md", "exec"), names)
            printed = capsys.readouterr().out
            for line in re.findall(r"^print\(.*?\)  # ([<(].*)$", block, re.MULTILINE):
                assert line in printed
        for line in block.splitlines() if language == "sh" else ():
            program, *arguments = shlex.split(line)
            assert program == "arcwise"
            done = CliRunner().invoke(main, arguments)
            assert done.exit_code == 0, done.output
            ran += 1
    assert ran == 5


def test_the_page_names_every_column_and_reason() -> None:
    for name in (*REASONS.values(), *(column for columns in LAYOUTS.values() for column in columns)):
        assert f"`{name}`" in TEXT
