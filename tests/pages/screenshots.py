"""Pictures of the dashboard for README.md and the docs: ``python -m tests.pages.screenshots [FOLDER]``.

They come from the tests' servers and browser, as PNG with a palette: some tens of kilobytes each. Those of
docs/tutorial.md are drawn by its own code, or show the dashboard that it starts.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tests.support.chromium import PHONE, launch, open_tab
from tests.support.page_stores import MILLION, surveys
from tests.support.sites import running

if TYPE_CHECKING:
    from collections.abc import Sequence

    from playwright.sync_api import Browser

    from tests.support.sites import Site

__all__ = ["FOLDER", "SHOTS"]

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
_COLOURS = 256


class Shot(NamedTuple):
    """A picture: its page (the name of a task, or a path), its first anchor, and its window."""

    file: str
    page: str
    width: int = 1200
    height: int = 860
    scheme: Literal["light", "dark"] = "light"
    anchor: str = ""
    key: str = "read"


SHOTS = (
    Shot("dashboard-overview.png", "/"),
    Shot("dashboard-task.png", MILLION),
    Shot("dashboard-distribution.png", MILLION, anchor="distribution"),
    Shot("dashboard-time.png", MILLION, anchor="time", height=640),
    Shot("dashboard-circle.png", "heading", anchor="distribution", scheme="dark"),
    Shot("dashboard-operator.png", "/operator", key="admin"),
    Shot("dashboard-phone.png", "heading", PHONE, 844, "dark", anchor="distribution"),
)


def take(browser: Browser, site: Site, shot: Shot) -> bytes:
    """Return a picture as Chromium makes it."""
    from playwright.sync_api import expect

    url = site.url + shot.page if shot.page.startswith("/") else site.page(shot.page)
    with open_tab(browser, shot.width, shot.scheme) as window:
        page = window.page
        page.set_viewport_size({"width": shot.width, "height": shot.height})
        window.log_in(url, site.keys[shot.key]).settle()
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        if shot.anchor:
            page.evaluate("(id) => document.getElementById(id).scrollIntoView()", shot.anchor)
        window.check()
        return page.screenshot()


def packed(picture: bytes) -> bytes:
    """Return a picture with a palette that keeps rare colours and needs a quarter of the size."""
    from PIL import Image

    image = Image.open(io.BytesIO(picture)).convert("RGB")
    target = io.BytesIO()
    image.quantize(_COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        target, "PNG", optimize=True
    )
    return target.getvalue()


def take_tutorial(browser: Browser, folder: Path) -> dict[str, bytes]:
    """Run the blocks of the tutorial up to the end of its server; return its picture and its dashboard."""
    blocks = re.findall(r"^```(python|sh)\n(.*?)^```$", TUTORIAL.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    os.chdir(folder)
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for language, block in blocks:
        if "server.terminate()" in block:
            with open_tab(browser, 1200) as window:
                window.page.set_viewport_size({"width": 1200, "height": 860})
                window.go(f"{names['url']}/tasks/wait").settle()
                dashboard = window.page.screenshot()
            exec(block, names)
            return {
                "tutorial-waits.png": packed(Path("waits.png").read_bytes()),
                "tutorial-dashboard.png": packed(dashboard),
            }
        if "pip install" in block:  # it is installed: this process runs it
            continue
        if language == "sh":
            subprocess.run(["bash", "-e", "-c", block], check=True)
        else:
            exec(block, names)
    raise AssertionError("the tutorial does not end its server")


def main(arguments: Sequence[str]) -> None:
    """Write all pictures."""
    folder = Path(arguments[0]).absolute() if arguments else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("there is no chromium: apt-get install chromium")
    with (
        tempfile.TemporaryDirectory() as store,
        running(Path(store), surveys(), keys=True) as site,
        launch(program) as browser,
    ):
        pictures = {shot.file: packed(take(browser, site, shot)) for shot in SHOTS}
        for file, picture in (pictures | take_tutorial(browser, Path(store))).items():
            (folder / file).write_bytes(picture)
            sys.stdout.write(f"{folder / file}: {len(picture):,} bytes\n")


if __name__ == "__main__":
    main(sys.argv[1:])
