"""Nothing public is undocumented: commands, options, settings, errors, mechanisms, routes, events, names.

Tables that are generated from the source match it; the site's generated pages (the API, the command line)
describe everything. `tests/server/test_metrics.py` does the same for metrics.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import TYPE_CHECKING, Any

import click
import pytest

from arcwise.cli import main
from docs._site.tables import TABLES, routes, write
from tests.docs.blocks import ROOT
from tests.test_public_surface import FACADES, home, members

if TYPE_CHECKING:
    from collections.abc import Iterator

docscrape = pytest.importorskip("numpydoc.docscrape")
REFERENCE = ROOT / "docs" / "reference"


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            inner = command.get_command(context, each)
            assert inner is not None
            yield from commands(inner, f"{name} {each}")


def test_every_command_and_option_says_what_it_does() -> None:
    """The page consists of these texts: `sphinx-click` shows everything that is not hidden."""
    page = (REFERENCE / "cli.md").read_text("utf-8")
    assert ".. click:: arcwise.cli:main\n   :prog: arcwise\n   :nested: full\n" in page
    found = dict(commands(main, "arcwise"))
    assert len(found) > 30
    for name, command in found.items():
        assert command.help, f"{name} has no help"
        assert not command.hidden, name
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.help, f"{name} {option.opts[0]} has no help"
                assert not option.hidden, f"{name} {option.opts[0]} is hidden"


def test_tables_are_as_the_source_has_them() -> None:
    seen = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text("utf-8")
        seen += re.findall(r"^<!-- table: ([a-z-]+) -->$", text, re.MULTILINE)
        assert write(text) == text, f"{page} is behind its source: run python -m docs._site.tables"
    assert sorted(seen) == sorted(TABLES)


def test_every_cell_of_a_table_from_the_source_has_words() -> None:
    """If a table cell has no words, somebody has to write a docstring, a help text or a summary."""
    for name in ("settings", "problems", "events", "errors", "mechanisms"):
        for row in TABLES[name]().splitlines()[2:]:
            assert len(row.rstrip(" |").rpartition("|")[2].strip()) >= 3, (name, row)


def test_every_route_is_on_the_page_of_http() -> None:
    page = (REFERENCE / "http.md").read_text("utf-8")
    listed = {tuple(row) for row in re.findall(r"^\| ([A-Z]+) \| `([^`]+)` \| \S", page, re.MULTILINE)}
    assert listed == set(routes())


@pytest.mark.parametrize("facade", FACADES)
def test_every_public_name_is_described(facade: str) -> None:
    """The API has a page for each facade, with all its names and their docstrings."""
    assert f"| `{facade}` |" in (REFERENCE / "api" / "index.md").read_text("utf-8")
    module = importlib.import_module(facade)
    assert module.__doc__
    listed = {value for name in module.__all__ if inspect.isclass(value := getattr(module, name))}
    for name in module.__all__:
        value = getattr(module, name)
        if not (inspect.isclass(value) or inspect.isroutine(value)):
            assert documented_constant(facade, name), f"{facade}.{name} has no docstring"
            continue
        assert inspect.getdoc(value), f"{facade}.{name} has no docstring"
        if inspect.isroutine(value):
            described = described_in(value)
            for each in inspect.signature(value).parameters:
                assert each in described, f"{facade}.{name} does not describe {each}"
        elif home(value, facade) == facade:
            missing = set(members(value, listed)) - described_of(value)
            assert missing == set(), f"{facade}.{name} does not describe {missing}"


def described_in(value: Any) -> set[str]:
    """Return the names that the sections of a docstring describe."""
    doc = docscrape.NumpyDocString(inspect.getdoc(value) or "")
    rows = [*doc["Parameters"], *doc["Other Parameters"], *doc["Attributes"]]
    return {name.strip().lstrip("*") for row in rows for name in row.name.split(",")}


def described_of(cls: type) -> set[str]:
    """Return the members of a class that are described in their own or in the class's docstring."""
    found = set[str]()
    for base in cls.__mro__:
        found |= described_in(base) if base.__module__.startswith("arcwise") else set()
        for name, value in vars(base).items():
            inner = getattr(value, "__func__", value)
            if (inspect.isroutine(inner) or isinstance(inner, property)) and inspect.getdoc(inner):
                found.add(name)
        found |= below(base) if base.__module__.startswith("arcwise") else set()
    return found


def below(cls: type) -> set[str]:
    """Return the attributes with a docstring below them."""
    try:
        source = inspect.getsource(cls)
    except (OSError, TypeError):
        return set()
    return set(re.findall(r'^    (\w+)\b[^\n]*\n    """', source, re.MULTILINE))


def documented_constant(facade: str, name: str) -> bool:
    """Return whether there is a docstring below the assignment that defines a constant."""
    module = importlib.import_module(facade)
    for source in [inspect.getsource(module), *sources_of(facade)]:
        if re.search(rf'^{name}\b[^\n]*=(?:[^\n]*\n)+?"""', source, re.MULTILINE):
            return True
    return False


def sources_of(facade: str) -> list[str]:
    """Return the sources of all modules of a facade's package, and of those that it imports elsewhere."""
    places = [root / "arcwise" for root in (ROOT / "shared", ROOT / "client", ROOT / "server")]
    return [path.read_text("utf-8") for place in places for path in place.rglob("*.py")]
