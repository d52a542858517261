"""Every picture of the pages is there, has words, and is drawn by a block of a page."""

from __future__ import annotations

import re

from tests.docs.blocks import PAGES, ROOT, blocks

PICTURES = ROOT / "docs" / "pictures"
BY_HAND = "dashboard-"
"""What `make pictures` takes of the dashboard."""


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
