"""What pages hold beside words: links that lead somewhere, titles, formulas that can be drawn, pictures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.docs.blocks import PAGES, ROOT, blocks

if TYPE_CHECKING:
    from pathlib import Path

ALL = [*PAGES, ROOT / "CHANGELOG.md", *(ROOT / ".github").glob("*.md"), *(ROOT / "client").rglob("README.md")]
ALL = [page for page in ALL if "node_modules" not in page.parts]
FENCED = re.compile(r"^( *)(`{3,}).*?^\1\2$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"^( *)(`{3,}).*?^\1\2$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
LINK = re.compile(
    r"\]\((?!https?:|mailto:)([^)\s]+)(?: \"[^\"]*\")?\)|\b(?:src|href)=\"(?!https?:)([^\"]+)\""
)

LITERAL = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$(?!\s)([^$]+?)(?<!\s)\$(?!\d)", re.DOTALL)
PICTURES = ROOT / "docs" / "pictures"


def anchors(page: Path) -> set[str]:
    """Return the anchors that a forge gives the headings of a page, those that stand twice numbered."""
    found: dict[str, int] = {}
    result = set()
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    for heading in re.findall(r"^#+ (.*?) *$", text, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w -]", "", words.lower()).replace(" ", "-")
        result.add(f"{slug}-{found[slug]}" if slug in found else slug)
        found[slug] = found.get(slug, 0) + 1
    return result


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.relative_to(ROOT).as_posix())
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
    """A site that is built in parallel lacks pages with others."""
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
