"""Groups of commands whose help shows the whole first sentence of each."""

from __future__ import annotations

import click

__all__ = ["CommandGroup"]


class CommandGroup(click.Group):
    """A group that lists its commands without cutting their words; click itself cuts them to one line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.words(ctx, name)) for name in self.list_commands(ctx)])

    def words(self, ctx: click.Context, name: str) -> str:
        """Return the first sentence of a command's help."""
        command = self.get_command(ctx, name)
        return "" if command is None else command.get_short_help_str(limit=10**6)
