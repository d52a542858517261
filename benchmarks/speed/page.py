"""Show results in docs/reference/performance.md, docs/howto/scaling.md: ``python -m benchmarks.speed.page``.

Between ``<!-- results: NAME -->`` and ``<!-- end of results -->`` it inserts the results with that name from
`results.json`, with command, date and machine. A test checks that the pages match the file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.speed.run import RESULTS
from benchmarks.speed.tables import read, result_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PAGES", "names_in", "rendered"]

_DOCS = Path(__file__).parents[2] / "docs"
PAGES = (_DOCS / "reference" / "performance.md", _DOCS / "howto" / "scaling.md")
_PLACE = re.compile(r"(<!-- results: ([a-z_-]+) -->\n).*?(<!-- end of results -->)", re.DOTALL)


def names_in(page: str) -> list[str]:
    """Return the names of the results that a page shows."""
    return [name for _, name, _ in _PLACE.findall(page)]


def rendered(page: str, results: Mapping[str, Any]) -> str:
    """Return a page with these results in their places."""

    def place(found: re.Match[str]) -> str:
        begin, name, end = found.groups()
        entry = results.get(name)
        if entry is None:
            return f"{begin}\n*Not measured yet.*\n\n{end}"
        result = result_of(entry)
        origin = f"`{result.command}`, {entry['date']}, {entry['machine']}."
        return f"{begin}\n{result.markdown()}\n\n{origin}\n\n{end}"

    return _PLACE.sub(place, page)


def main() -> None:
    """Write the pages."""
    results = read(RESULTS)
    for page in PAGES:
        page.write_text(rendered(page.read_text("utf-8"), results), encoding="utf-8")


if __name__ == "__main__":
    main()
