"""docs/contributing/architecture.md: its picture is drawn from the imports, and the modules it names exist.

``python -m tests.test_architecture`` draws the picture again.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

import arcwise.analysis
from tests.test_layout import ROOTS, modules, part

PAGE = Path(__file__).parents[1] / "docs" / "contributing" / "architecture.md"
BEGIN, END = "```mermaid\n", "```\n"
NAMED = re.compile(r"`(arcwise(?:\.[a-z_]+)+)`")


@cache
def package(name: str) -> str | None:
    """Return the package of the picture that a module belongs to; None for the namespace itself."""
    parts = name.split(".")
    if len(parts) < 2:
        return None
    if part(name) in {part(each) for each in modules("shared")}:
        return "shared"
    return ".".join(parts[1:3]) if parts[1] == "analysis" and len(parts) > 2 else parts[1]


def picture() -> str:
    """Return the packages and the imports between them, except those of shared, which every package makes.

    Imports in methods `plot` are left out, because a picture imports what it draws.
    """
    boxes: set[str] = set()
    arrows: set[tuple[str, str]] = set()
    packages = {
        f"analysis.{name.split('.')[2]}"
        for name in modules("server")
        if name.startswith("arcwise.analysis.") and name.count(".") > 2
    }
    facade = {
        f"arcwise.analysis.{name.rpartition('.')[2]}": name
        for name in modules("server")["arcwise.analysis"]
        if name.rpartition(".")[2] in arcwise.analysis.__all__
    }
    for name, imported in [each for root in ROOTS for each in modules(root, plots=False).items()]:
        own = shown(package(name), packages)
        if own is None:
            continue
        boxes.add(own)
        for other in imported:
            target = shown(package(facade.get(other, other)), packages)
            if target is not None and target not in {own, "shared"} and own != "shared":
                arrows.add((own, target))
    lines = ["flowchart LR"]
    inner = sorted(name for name in boxes if name.startswith("analysis"))
    lines += ["  subgraph analysis", *(f"    {name}" for name in inner), "  end"]
    lines += [f"  {name}" for name in sorted(boxes - set(inner))]
    lines += [f"  {own} --> {target}" for own, target in sorted(arrows)]
    return "\n".join(lines) + "\n"


def shown(name: str | None, packages: set[str]) -> str | None:
    """Return a package as the picture shows it: modules directly in analysis have no folder."""
    if name is None or not name.startswith("analysis"):
        return name
    return name if name in packages else None


@pytest.mark.slow
def test_the_picture_is_that_of_the_imports() -> None:
    text = PAGE.read_text(encoding="utf-8")
    drawn = text.split(BEGIN)[1].split(END)[0]
    assert drawn == picture(), "imports changed: if that is meant, run python -m tests.test_architecture"


def test_every_module_that_the_page_names_is_there() -> None:
    named = NAMED.findall(PAGE.read_text(encoding="utf-8"))
    assert len(named) > 20
    for name in named:
        assert exists(name), f"docs/contributing/architecture.md names {name}"


def exists(name: str) -> bool:
    """Return whether a name is a module, or something in one."""
    try:
        if find_spec(name) is not None:
            return True
    except ModuleNotFoundError:
        pass
    module, _, attribute = name.rpartition(".")
    return hasattr(__import__(module, fromlist=[attribute]), attribute)


if __name__ == "__main__":
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{picture()}{END}{rest.split(END, 1)[1]}", encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE}\n")
