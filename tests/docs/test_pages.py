"""Every block of README and docs/ runs as pasted, in the order of its page, or says why not."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.docs.blocks import PAGES, ROOT, RUN, blocks, differs, unsaid

if TYPE_CHECKING:
    from pathlib import Path

FOUND = {page: blocks(page.read_text(encoding="utf-8")) for page in PAGES}
RUNS = [page for page, found in FOUND.items() if any(b.language in RUN and not b.left_out for b in found)]
NOT_RUN = 20
"""As many blocks may be left out, for a reason."""


def name(page: Path) -> str:
    return page.relative_to(ROOT).with_suffix("").as_posix()


def run(page: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.docs.pages", str(page)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="blocks are for bash")
@pytest.mark.parametrize("page", RUNS, ids=name)
def test_a_page_runs_as_pasted(page: Path) -> None:
    done = run(page)
    assert done.returncode == 0, done.stdout + done.stderr


def test_few_blocks_are_left_out_and_each_says_why() -> None:
    reasons = [
        (name(page), block.line, block.comments["not run"])
        for page, found in FOUND.items()
        for block in found
        if block.language in RUN and "not run" in block.comments
    ]
    assert len(reasons) <= NOT_RUN, reasons
    assert [each for each in reasons if len(each[2].split()) < 2] == []


def test_what_another_test_runs_is_read_there() -> None:
    for page, found in FOUND.items():
        for block in found:
            if test := block.comments.get("run by"):
                path = ROOT / test
                assert path.is_file(), f"{page}:{block.line} names {test}"
                assert page.name in path.read_text(encoding="utf-8"), f"{test} does not read {page}"


def test_every_comment_about_a_block_is_understood() -> None:
    """A misspelt one would let a block be run, or left out, by mistake."""
    for page in PAGES:
        for comment in re.findall(
            r"^ *<!-- *(?:not run|run by|keeps|varies|skip).*$", page.read_text("utf-8"), re.M
        ):
            assert re.fullmatch(r" *<!-- (not run: .+|run by: \S+|keeps running|varies) -->", comment), (
                comment
            )


@pytest.mark.slow
def test_a_page_that_is_wrong_fails(tmp_path: Path) -> None:
    good = "# P\n\n```python\nx = 2\nprint(x / 3)  # 0.6667\n```\n\n```sh\nV=7; cd /\n```\n\n"
    good += "```sh\necho $V $PWD\n```\n\n```\n7 /\n```\n"
    (tmp_path / "good.md").write_text(good)
    (tmp_path / "wrong.md").write_text(good.replace("\n7 /", "\n9 /"))
    done = [run(tmp_path / page) for page in ("good.md", "wrong.md")]
    assert [each.returncode for each in done] == [0, 1], done
    assert "wrong.md:12: '9 /' is shown, but" in done[1].stderr or "'9 /' is not in" in done[1].stderr


@pytest.mark.parametrize(
    ("shown", "output", "right"),
    [
        ("a 1.0004\n", "b\na 1.0\n", True),
        ("a 1.01\n", "a 1.0\n", False),
        ("a 100\n", "a 101\n", True),
        ("a 100\n", "a 102\n", False),
        ("a\n...\nc\n", "a\nb\nc\n", True),
        ("a\nc\n", "a\nb\nc\n", False),
        ("...\nlast\n", "first\nother\n", False),
        ("a\nb\n", "a\n", False),
    ],
)
def test_what_is_shown_is_compared(shown: str, output: str, right: bool) -> None:
    assert (differs(shown, output) == "") is right
    assert differs("a 3\n", "a 99\n", varies=True) == ""


def test_comments_behind_print_are_compared_in_their_order() -> None:
    code = "print(a)  # 1 day\nprint(b)  # it is ...\n"
    assert unsaid(code, "1 day\nit is so\n") == ""
    assert unsaid(code, "it is so\n1 day\n") != ""


def test_markers_and_outputs_belong_to_their_blocks() -> None:
    page = (
        "# P\n\n<!-- not run: takes an hour -->\n```sh\na\n```\n\n```\nout of it\n```\n\nWords.\n\n"
        "```python\nb\n```\n\n```\nshown\n```\n\n```python\nc\n```\nwords\n\n```\nnothing of c\n```\n"
    )
    found = [each for each in blocks(page) if each.language]
    assert [(b.text, b.left_out, b.shown) for b in found] == [
        ("a\n", True, "out of it\n"),
        ("b\n", False, "shown\n"),
        ("c\n", False, None),
    ]
    top = blocks("# P\n\n<!-- run by: tests/x.py -->\n\nWords.\n\n```sh\na\n```\n\n## B\n\n```sh\nb\n```\n")
    assert [each.comments for each in top] == [{"run by": "tests/x.py"}] * 2
