"""The command group: each command stands in its own module and is loaded when it is called."""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from arcwise.errors import ArcwiseError, MissingExtraError

__all__ = ["main"]

_COMMANDS = {
    "client": "arcwise.server.cli.client",
    "compare": "arcwise.server.cli.compare",
    "demo": "arcwise.server.cli.demo",
    "design": "arcwise.server.cli.design",
    "estimate": "arcwise.server.cli.estimate",
    "group": "arcwise.server.cli.group",
    "key": "arcwise.server.cli.key",
    "plan": "arcwise.server.cli.plan",
    "reproduce": "arcwise.server.cli.reproduce",
    "serve": "arcwise.server.cli.serve",
    "simulate": "arcwise.server.cli.simulate",
    "store": "arcwise.server.cli.store",
    "task": "arcwise.server.cli.task",
}


_COMPUTING = frozenset({"compare", "demo", "design", "estimate", "plan", "reproduce", "simulate"})
"""Commands that take one thread of linear algebra; the others do not load it."""


class _MissingExtra(click.ClickException):
    exit_code = 2  # nothing was tried, as with a mistake in the options


class _Group(click.Group):
    """Loads commands lazily and shows arcwise's own errors without a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _COMMANDS.get(cmd_name)
        if module is None:
            return None
        command: click.Command = getattr(importlib.import_module(module), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        found = super().resolve_command(ctx, args)
        if found[0] in _COMPUTING:
            from arcwise.server.estimators.threads import one_thread

            ctx.with_resource(one_thread())
        return found

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ArcwiseError as error:
            kind = _MissingExtra if isinstance(error, MissingExtraError) else click.ClickException
            raise kind(str(error)) from error


def _version() -> str:
    try:
        return version("arcwise")
    except PackageNotFoundError:
        return "not installed"


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_version(), prog_name="arcwise")
def main() -> None:
    """Local differential privacy for bounded and circular numbers."""
