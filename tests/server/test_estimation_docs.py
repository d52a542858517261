"""The pages on estimation and planning: pictures and outputs are those of the commands and code."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from arcwise.cli.main import main

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("explanation/estimation.md", "howto/plan-a-survey.md")
TEXT = "".join((DOCS / name).read_text("utf-8") for name in PAGES)
BLOCKS = [block for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) if "--plot docs/" in block]
CODE = [block for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL) if "savefig" in block]
SHOWN = re.findall(r"```sh\n([^`]*?)```\n\n```\n\.\.\.\n(.*?)```", TEXT, re.DOTALL)
SERIES = TEXT.split("(../pictures/series.png)")[1].split("```")[1]
RESULTS = TEXT.split("## Results in tables")[1].split("\n## ")[0]
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
PICTURES = re.findall(r"!\[[^\]]*\]\(\.\./(pictures/[^)]*)\)", TEXT)


def test_every_picture_is_there_and_has_its_command() -> None:
    assert len(PICTURES) >= 3
    for picture in PICTURES:
        assert (DOCS / picture).stat().st_size > 10_000
        assert any(f"docs/{picture}" in block for block in (*BLOCKS, *CODE))


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("pictures/")[1].split(".")[0])
def test_the_commands_draw_the_pictures(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs/pictures").mkdir(parents=True)
    for line in block.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "arcwise"
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
    check_picture(tmp_path)


@pytest.mark.parametrize("block", CODE)
def test_the_code_draws_the_pictures(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs/pictures").mkdir(parents=True)
    exec(compile(block, "estimation.md", "exec"), {})
    check_picture(tmp_path)
    check_shown(SERIES, capsys.readouterr().out)


def test_the_commands_print_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All in one folder: later commands use files of earlier ones."""
    monkeypatch.chdir(tmp_path)
    assert len(SHOWN) == 3
    for block, shown in SHOWN:
        output = ""
        for program, *arguments in map(shlex.split, block.splitlines()):
            if program == "python":
                subprocess.run([sys.executable, *arguments], check=True)
                continue
            assert program == "arcwise"
            result = CliRunner().invoke(main, arguments)
            assert result.exit_code == 0, result.output
            output = result.output
        check_shown(shown, output)


def test_results_are_as_the_page_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, object] = {}
    shown = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", RESULTS, re.DOTALL)
    assert len(shown) == RESULTS.count("```python") == 3
    for block, output in shown:
        exec(compile(block, "estimation.md", "exec"), namespace)
        check_shown(output, capsys.readouterr().out)


def check_shown(shown: str, output: str) -> None:
    """Check that a block's lines follow one another in the output, with numbers right to one in a thousand.

    Whole numbers may be off by one: they are rounded bounds, and versions of numpy differ in the last digits.

    "..." stands for lines that the page leaves out.
    """
    lines = [line for line in output.splitlines() if line]
    for part in shown.split("...\n"):
        wanted = [line for line in part.splitlines() if line]
        start = next((at for at, line in enumerate(lines) if form(line) == form((wanted or lines)[0])), 0)
        found, lines = lines[start : start + len(wanted)], lines[start + len(wanted) :]
        assert [form(line) for line in found] == [form(line) for line in wanted]
        for line, other in zip(wanted, found, strict=True):
            for number, text in zip(numbers(line), numbers(other), strict=True):
                slack = 1.0 if number.is_integer() and text.is_integer() else 0.0
                assert number == pytest.approx(text, rel=1e-3, abs=slack), (line, other)


def form(line: str) -> list[str]:
    """Return the words of a line, with a # for each number."""
    return NUMBER.sub("#", line).split()


def numbers(line: str) -> list[float]:
    return [float(each.replace(",", "")) for each in NUMBER.findall(line)]


def check_picture(folder: Path) -> None:
    (picture,) = (folder / "docs/pictures").iterdir()
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"pictures/{picture.name}" in PICTURES
