"""The site that `make docs` has built: complete, with versions, no network access and no broken links."""

from __future__ import annotations

import importlib
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

from arcwise.version import __version__
from tests.docs.blocks import ROOT
from tests.test_public_surface import FACADES

if TYPE_CHECKING:
    from pathlib import Path

SITE = ROOT / "build" / "site" / __version__


class Read(HTMLParser):
    """Records the anchors of a page, its links and the files that it loads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.anchors, self.links, self.loaded = set[str](), set[str](), set[str]()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name == "href" and value and tag == "a":
                self.links.add(value)
            elif name in {"src", "href"} and value and tag != "a":
                self.loaded.add(value)


@pytest.fixture(scope="module")
def pages() -> dict[Path, Read]:
    if not (SITE / "index.html").exists():
        pytest.skip("make docs has not built the site")
    return {page.resolve(): Read(page) for page in SITE.rglob("*.html")}


@pytest.mark.slow
def test_pages_load_nothing_from_elsewhere(pages: dict[Path, Read]) -> None:
    for page, read in pages.items():
        outside = [each for each in read.loaded if urlsplit(each).scheme not in ("", "data")]
        assert outside == [], page


@pytest.mark.slow
def test_every_link_and_anchor_is_there(pages: dict[Path, Read]) -> None:
    assert len(pages) > 40
    for page, read in pages.items():
        for link in read.links | read.loaded:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            assert target.exists(), f"{page}: {link}"
            if parts.fragment and target in pages and page.name != "search.html":
                assert unquote(parts.fragment) in pages[target].anchors, f"{page}: {link}"


@pytest.mark.slow
def test_every_public_name_has_its_place(pages: dict[Path, Read]) -> None:
    anchors = {each for read in pages.values() for each in read.anchors if each.startswith("arcwise.")}
    named = {each.rpartition(".")[2] for each in anchors}
    for facade in FACADES:
        assert set(importlib.import_module(facade).__all__) - named == set(), facade


def test_versions_stay_and_the_newest_comes_first(tmp_path: Path) -> None:
    build = pytest.importorskip("docs._site.build", reason="Sphinx for this needs Python 3.11")
    for version in ("0.9.0", "0.10.0", "0.10.0rc1", "no-site"):
        (tmp_path / version).mkdir()
        if version != "no-site":
            (tmp_path / version / "index.html").write_text("x")
    build.list_versions(tmp_path)
    assert (
        tmp_path / "versions.js"
    ).read_text() == 'window.ARCWISE_VERSIONS = ["0.10.0", "0.10.0rc1", "0.9.0"];\n'
    assert 'url=0.10.0/index.html"' in (tmp_path / "index.html").read_text()
