"""docs/reference/performance.md and docs/howto/scaling.md agree with `benchmarks/speed/results.json`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from benchmarks.speed import page
from benchmarks.speed.run import RESULTS
from benchmarks.speed.tables import Printed, Table, keep, read

if TYPE_CHECKING:
    from pathlib import Path

END = "<!-- end of results -->\n"
TABLE = Table("a-table", "a command", [("", ""), ("us", ",.1f")], [["one", 1234.56], ["two", None]])


@pytest.mark.parametrize("path", page.PAGES, ids=lambda path: path.name)
def test_the_page_shows_the_results(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == page.rendered(text, read(RESULTS)), "run python -m benchmarks.speed.page"


def test_every_result_is_on_a_page() -> None:
    shown = [name for path in page.PAGES for name in page.names_in(path.read_text(encoding="utf-8"))]
    assert sorted(set(shown)) == sorted(shown)
    assert set(read(RESULTS)) <= set(shown)


def test_results_are_kept_and_shown(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    keep(file, TABLE._replace(rows=[]))
    keep(file, Printed("some-text", "another command", "1 us\n"))
    keep(file, TABLE)
    results = json.loads(file.read_text(encoding="utf-8"))
    assert list(results) == ["a-table", "some-text"]
    assert TABLE.text() == "          us\none  1,234.6\ntwo"
    empty = "".join(f"<!-- results: {name} -->\n{END}" for name in ("a-table", "some-text"))
    shown = page.rendered(f"# Page\n{empty}<!-- results: other -->\nold\n{END}", results)
    assert "|  | us |\n|---|--:|\n| one | 1,234.6 |\n| two |  |\n" in shown
    assert "```\n1 us\n```\n" in shown
    assert "`a command`, 20" in shown
    assert "*Not measured yet.*" in shown
    assert "old" not in shown
    assert page.rendered(shown, results) == shown
