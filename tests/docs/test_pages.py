"""Every block of README and docs/ runs as pasted or gives a reason; links, titles, formulas, pictures."""

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
"""The largest number of blocks that may be skipped with a reason."""

READMES = [page for page in (ROOT / "client").rglob("README.md") if "node_modules" not in page.parts]
LINKED = [*PAGES, ROOT / "CHANGELOG.md", *(ROOT / ".github").glob("*.md"), *READMES]
FENCED = re.compile(r"^( *)(`{3,}).*?^\1\2$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"^( *)(`{3,}).*?^\1\2$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
LINK = re.compile(
    r"\]\((?!https?:|mailto:)([^)\s]+)(?: \"[^\"]*\")?\)|\b(?:src|href)=\"(?!https?:)([^\"]+)\""
)

LITERAL = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$(?!\s)([^$]+?)(?<!\s)\$(?!\d)", re.DOTALL)
PICTURES = ROOT / "docs" / "pictures"


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
    """A misspelt comment would let a block be run, or skipped, by mistake."""
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


# --- links, titles, formulas, pictures -------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """Return the anchors that a forge gives the headings of a page, with numbers for repeated headings."""
    found: dict[str, int] = {}
    result = set()
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    for heading in re.findall(r"^#+ (.*?) *$", text, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w -]", "", words.lower()).replace(" ", "-")
        result.add(f"{slug}-{found[slug]}" if slug in found else slug)
        found[slug] = found.get(slug, 0) + 1
    return result


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    for target in (one or other for one, other in LINK.findall(text)):
        file, _, heading = target.partition("#")
        path = page.parent / file if file else page
        assert path.exists(), target
        assert path.resolve().is_relative_to(ROOT), target
        if heading:
            assert heading in anchors(path), target


def test_every_page_has_one_title_and_is_in_a_section() -> None:
    folders = {"howto", "explanation", "reference", "contributing"}
    for page in PAGES:
        text = FENCED.sub("", page.read_text("utf-8"))
        assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1, page
        if page.is_relative_to(ROOT / "docs"):
            parts = page.relative_to(ROOT / "docs").parts
            assert len(parts) == 1 or parts[0] in folders, page


def test_every_formula_can_be_drawn() -> None:
    """A site that is built in parallel would lose some pages."""
    latex2mathml = pytest.importorskip("docutils.utils.math.latex2mathml")
    wrong, found = [], 0
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for block, inline in FORMULA.findall(LITERAL.sub("", page.read_text("utf-8"))):
            found += 1
            try:
                latex2mathml.tex2mathml(block or inline)
            except Exception as error:
                wrong.append(f"{page.name}: {block or inline}: {error}")
    assert found > 200
    assert wrong == []


def test_every_picture_is_used_and_described() -> None:
    shown = set()
    for page in PAGES:
        for words, target in re.findall(r"!\[([^\]]*)\]\(([^)\s]+)\)", page.read_text("utf-8")):
            if not target.startswith("http"):
                assert len(words) > 10, (page, target)
                shown.add((page.parent / target).resolve())
    pictures = {path.resolve() for path in PICTURES.glob("*.png")}
    assert pictures - shown <= {PICTURES / "dashboard-phone.png", PICTURES / "dashboard-task.png"}
    assert all(path.stat().st_size > 10_000 for path in pictures)


def test_pictures_of_results_are_drawn_by_the_blocks_of_their_pages() -> None:
    code = "".join(block.text for page in PAGES for block in blocks(page.read_text("utf-8")))
    for picture in ("interval", "lattice", "circle", "clamped", "series", "plan"):
        assert f"{picture}.png" in code
