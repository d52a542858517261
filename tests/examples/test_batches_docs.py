"""`docs/howto/batches.md`, carried out: its blocks run in order, those of Python in one namespace."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from arcwise.cli import main

if TYPE_CHECKING:
    import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "batches.md"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
BLOCKS = BLOCK.findall(PAGE.read_text(encoding="utf-8"))


def test_the_page_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    for language, block in BLOCKS:
        if language == "python":
            exec(compile(block, str(PAGE), "exec"), namespace)
            said = capsys.readouterr().out
            # What is printed in an `except` is said behind it, up to its dots.
            for words in re.findall(r"print\(error\)  # (.*) \.\.\.$", block, re.MULTILINE):
                assert said.startswith(words)
            continue
        for line in block.replace("\\\n", " ").splitlines():
            program, *arguments = shlex.split(line, comments=True)
            assert program == "arcwise"
            result = CliRunner().invoke(main, arguments)
            assert result.exit_code == 0, result.output
    assert {language for language, _ in BLOCKS} == {"python", "sh"}
