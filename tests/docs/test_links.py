"""No link of Markdown leads nowhere, on a forge or on the site."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.docs.blocks import PAGES, ROOT

if TYPE_CHECKING:
    from pathlib import Path

ALL = [*PAGES, ROOT / "CHANGELOG.md", *(ROOT / ".github").glob("*.md"), *(ROOT / "client").rglob("README.md")]
ALL = [page for page in ALL if "node_modules" not in page.parts]
CODE = re.compile(r"^( *)(`{3,}).*?^\1\2$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
LINK = re.compile(
    r"\]\((?!https?:|mailto:)([^)\s]+)(?: \"[^\"]*\")?\)|\b(?:src|href)=\"(?!https?:)([^\"]+)\""
)


def anchors(page: Path) -> set[str]:
    """Return the anchors that a forge gives the headings of a page, those that stand twice numbered."""
    found: dict[str, int] = {}
    result = set()
    fenced = re.compile(r"^( *)(`{3,}).*?^\1\2$", re.DOTALL | re.MULTILINE)
    text = fenced.sub("", page.read_text(encoding="utf-8"))
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
        text = re.sub(r"^( *)(`{3,}).*?^\1\2$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1, page
        if page.is_relative_to(ROOT / "docs"):
            parts = page.relative_to(ROOT / "docs").parts
            assert len(parts) == 1 or parts[0] in folders, page
