"""Migrations: the numbered SQL files of a store, one for each version of its schema.

``migrations/0002_keys.sql`` brings a store from schema 1 to schema 2; the first line of the file is a comment
with its title. Each store applies the files in its own way.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import NamedTuple

from arcwise.errors import ParameterError, StoreError


class Migration(NamedTuple):
    """One step from the schema before to `version`.

    Attributes
    ----------
    version
        The schema that it leads to.
    title
        Its effect, in words.
    script
        The SQL statements.
    """

    version: int
    title: str
    script: str


def read_migrations(package: str) -> list[Migration]:
    """Return the migrations in the folder ``migrations`` of a package, by version from 1 on."""
    found = []
    for file in files(package).joinpath("migrations").iterdir():
        if named := re.fullmatch(r"(\d{4})_\w+\.sql", file.name):
            script = file.read_text(encoding="utf-8")
            title = script.partition("\n")[0].removeprefix("-- ").rstrip(".")
            found.append(Migration(int(named[1]), title, script))
    return sorted(found)


def pending(known: list[Migration], version: int, to: int | None) -> list[Migration]:
    """Return the migrations from schema `version` to schema `to`; None means the newest schema.

    Raises `ParameterError` when `to` is older than `version`, or unknown.
    """
    newest = known[-1].version
    to = newest if to is None else to
    if not version <= to <= newest:
        raise ParameterError(
            f"to must be a schema from {version}, which the store has, to {newest}, got {to}; "
            "to go back, restore a backup"
        )
    return [migration for migration in known if version < migration.version <= to]


def refuse_version(url: str, version: int, newest: int) -> None:
    """Raise `StoreError`, with the command or upgrade that helps, unless a store has the newest schema."""
    if version < newest:
        raise StoreError(
            f"{url} has schema {version}; this arcwise works with schema {newest}: "
            f"make a backup and run `arcwise store migrate {url}`"
        )
    if version > newest:
        raise StoreError(f"{url} has schema {version}; this arcwise knows schema {newest}: upgrade arcwise")
