"""The command group: each command stands in its own module and is loaded when it is called."""

from __future__ import annotations

import importlib
from typing import Any

import click

from arcwise.errors import ArcwiseError, MissingExtraError
from arcwise.version import VERSION

__all__ = ["main"]

_COMMANDS = {
    "client": "arcwise.cli.client",
    "compare": "arcwise.cli.compare",
    "demo": "arcwise.cli.demo",
    "design": "arcwise.cli.design",
    "estimate": "arcwise.cli.estimate",
    "group": "arcwise.cli.group",
    "key": "arcwise.cli.key",
    "plan": "arcwise.cli.plan",
    "reproduce": "arcwise.cli.reproduce",
    "serve": "arcwise.cli.serve",
    "simulate": "arcwise.cli.simulate",
    "store": "arcwise.cli.store",
    "task": "arcwise.cli.task",
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
            from arcwise.analysis.threads import one_thread

            ctx.with_resource(one_thread())
        return found

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ArcwiseError as error:
            kind = _MissingExtra if isinstance(error, MissingExtraError) else click.ClickException
            raise kind(str(error)) from error


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="arcwise")
def main() -> None:
    """Local differential privacy for bounded and circular numbers."""
