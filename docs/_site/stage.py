"""Everything that Sphinx reads, in one folder: pages, the API, and what pages link to outside of docs/."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from docs._site.api import pages

__all__ = ["ROOT", "stage"]

ROOT = Path(__file__).parents[2]
_DOCS = ROOT / "docs"
_LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")
_SHOWN_AS = {".py": "python", ".js": "js", ".sh": "sh", ".json": "json", ".yml": "yaml", ".yaml": "yaml"}
_SHOWN_AS |= {".toml": "toml", ".html": "html", ".css": "css", ".service": "ini"}
_MOST_BYTES = 40_000
_IN_NO_MENU = "---\norphan: true\n---\n\n"


def stage(folder: Path) -> None:
    """Bring the folder up to date; what has not changed keeps its time, so that Sphinx skips it."""
    wanted = set[Path]()
    outside = set[Path]()
    for path in _files(_DOCS):
        name = path.relative_to(_DOCS)
        if path.suffix == ".md":
            wanted.add(_write(folder / name, _inside(path, folder / name, folder, outside)))
        elif path.suffix != ".py":
            wanted.add(_copy(path, folder / name))
    for path in _files(ROOT / "examples" / "notebooks"):
        wanted.add(_copy(path, folder / "notebooks" / path.name))
    done = set[Path]()
    while outside - done:
        for path in sorted(outside - done):
            done.add(path)
            at = folder / _staged(path)
            text = _inside(path, at, folder, outside) if path.suffix == ".md" else _listing(path)
            wanted.add(_write(at, _IN_NO_MENU + text))
    for path, text in pages(folder / "reference" / "api"):
        wanted.add(_write(path, text))
    for path in folder.rglob("*"):
        if path.is_file() and path not in wanted:
            path.unlink()


def _files(folder: Path) -> list[Path]:
    """Return the files under a folder that git tracks or would track: no caches, no ignored files."""
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "."]
    names = subprocess.run(asked, cwd=folder, check=True, capture_output=True, text=True).stdout
    return sorted(path for name in names.split("\0") if name and (path := folder / name).is_file())


def _inside(page: Path, at: Path, folder: Path, outside: set[Path]) -> str:
    """Return the text of a page with links that lead out of docs/ turned to what is staged of there."""

    def turned(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(page.parent / match[2]))
        if not target.exists() or target.is_relative_to(_DOCS) == page.is_relative_to(_DOCS) is True:
            return match[0]
        if target.is_relative_to(_DOCS):
            staged = folder / target.relative_to(_DOCS)
        else:
            staged = folder / _staged(target)
            if target.suffix != ".ipynb" and target != ROOT / "examples" / "notebooks":
                outside.add(target)
        return f"{match[1]}{os.path.relpath(staged, at.parent)}{match[3]}"

    return _LINK.sub(turned, page.read_text(encoding="utf-8"))


def _staged(path: Path) -> Path:
    """Return where something outside of docs/ is staged."""
    name = path.relative_to(ROOT)
    if name.parts[:2] == ("examples", "notebooks"):
        return Path("notebooks", *name.parts[2:]) if len(name.parts) > 2 else Path("notebooks.md")
    if path.suffix == ".md":
        return Path("sources") / name
    return Path("sources") / name.with_name(f"{name.name}.md")


def _listing(path: Path) -> str:
    """Return a page that shows a file, or all files of a folder."""
    title = f"# {path.relative_to(ROOT)}\n\n"
    files = _files(path) if path.is_dir() else [path]
    return title + "\n".join(_shown(file, path) for file in files)


def _shown(file: Path, folder: Path) -> str:
    heading = f"## {file.relative_to(folder)}\n\n" if file != folder else ""
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        text = ""
    if not text or len(text) > _MOST_BYTES:
        return f"{heading}{file.stat().st_size:,} bytes, not shown here.\n"
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text)), 3)
    return f"{heading}{fence}{_SHOWN_AS.get(file.suffix, 'text')}\n{text.rstrip()}\n{fence}\n"


def _copy(path: Path, to: Path) -> Path:
    to.parent.mkdir(parents=True, exist_ok=True)
    if not to.exists() or to.read_bytes() != path.read_bytes():
        shutil.copyfile(path, to)
    return to


def _write(to: Path, text: str) -> Path:
    to.parent.mkdir(parents=True, exist_ok=True)
    if not to.exists() or to.read_text(encoding="utf-8") != text:
        to.write_text(text, encoding="utf-8")
    return to
