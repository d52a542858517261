"""``make docs``: build the site of this version into build/site, next to those of other versions."""

from __future__ import annotations

import html
import json
import re
import shutil
import sys
from typing import TYPE_CHECKING

from sphinx.cmd.build import build_main

from arcwise.version import __version__
from docs._site.stage import ROOT, stage

if TYPE_CHECKING:
    from pathlib import Path

_BUILD = ROOT / "build"
_OPTIONS = ["-W", "--keep-going", "-n", "-q", "-j", "auto"]


def main(arguments: list[str]) -> int:
    """Build, and return the exit status of Sphinx; arguments are further options of it."""
    staged, site = _BUILD / "site-source", _BUILD / "site"
    stage(staged)
    done = build_main(
        [
            *_OPTIONS, *arguments,
            "-c", str(ROOT / "docs"), "-d", str(_BUILD / "site-doctrees"),
            str(staged), str(site / __version__),
        ]
    )  # fmt: skip
    shutil.rmtree(site / "jupyter_execute", ignore_errors=True)  # of myst-nb: what pages do not show
    # A process that writes pages in parallel and ends by an exception is not noticed by Sphinx.
    sources = [path for path in staged.rglob("*") if path.suffix in (".md", ".rst", ".ipynb")]
    lost = [
        path
        for path in sources
        if not (site / __version__ / path.relative_to(staged)).with_suffix(".html").exists()
    ]
    if lost:
        sys.stderr.write(f"pages were not written, -j 1 shows why: {', '.join(map(str, lost))}\n")
        done = 1
    if done:
        # Otherwise the next build would skip pages that were read, and not repeat their warnings.
        shutil.rmtree(_BUILD / "site-doctrees", ignore_errors=True)
    else:
        list_versions(site)
        sys.stdout.write(f"wrote {site / 'index.html'}\n")
    return done


def list_versions(site: Path) -> None:
    """Write what pages of every version offer, and a first page that leads to the newest."""
    versions = sorted((path.parent.name for path in site.glob("*/index.html")), key=_order, reverse=True)
    (site / "versions.js").write_text(
        f"window.ARCWISE_VERSIONS = {json.dumps(versions)};\n", encoding="utf-8"
    )
    names = [html.escape(name) for name in versions]
    links = "".join(f'<li><a href="{name}/index.html">{name}</a></li>' for name in names)
    (site / "index.html").write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>arcwise</title>'
        f'<meta http-equiv="refresh" content="0; url={names[0]}/index.html">'
        f"<h1>arcwise</h1><ul>{links}</ul></html>\n",
        encoding="utf-8",
    )


def _order(version: str) -> list[tuple[int, int | str]]:
    """Return the sort key of a version: 0.10 comes after 0.9."""
    parts = re.findall(r"\d+|[a-z]+", version)
    return [*((2, int(part)) if part.isdigit() else (0, part) for part in parts), (1, "")]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
