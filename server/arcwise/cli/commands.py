"""Groups of commands whose help shows the whole first sentence of each."""

from __future__ import annotations

import click

from arcwise.checks import did_you_mean


class CommandGroup(click.Group):
    """A group that lists its commands without cutting their words; click itself cuts them to one line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.words(ctx, name)) for name in self.list_commands(ctx)])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; say what there is where there is none of that name."""
        name = args[0] if args else ""
        if args and not name.startswith("-") and self.get_command(ctx, name) is None:
            known = self.list_commands(ctx)
            hint = did_you_mean(name, known) or f"; it has {', '.join(known)}"
            ctx.fail(f"{ctx.command_path} has no command {name!r}{hint}")
        return super().resolve_command(ctx, args)

    def words(self, ctx: click.Context, name: str) -> str:
        """Return the first sentence of a command's help."""
        command = self.get_command(ctx, name)
        return "" if command is None else command.get_short_help_str(limit=10**6)
