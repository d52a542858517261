"""docs/estimation.md and docs/planning.md: pictures come from the commands and the code above them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from arcwise.cli.main import main

DOCS = Path(__file__).parents[2] / "docs"
TEXT = "".join((DOCS / name).read_text("utf-8") for name in ("estimation.md", "planning.md"))
BLOCKS = [block for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) if "--plot docs/" in block]
CODE = [block for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL) if "savefig" in block]
PICTURES = re.findall(r"!\[[^\]]*\]\((pictures/[^)]*)\)", TEXT)


def test_every_picture_is_there_and_has_its_command() -> None:
    assert len(PICTURES) >= 3
    for picture in PICTURES:
        assert (DOCS / picture).stat().st_size > 10_000
        assert any(f"docs/{picture}" in block for block in (*BLOCKS, *CODE))


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
def test_the_code_draws_the_pictures(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs/pictures").mkdir(parents=True)
    exec(compile(block, "estimation.md", "exec"), {})
    check_picture(tmp_path)


def check_picture(folder: Path) -> None:
    (picture,) = (folder / "docs/pictures").iterdir()
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"pictures/{picture.name}" in PICTURES
