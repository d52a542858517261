"""The command group. Each command has its own module, which is loaded when the command is called."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import click

from arcwise.checks import did_you_mean
from arcwise.errors import ArcwiseError, CoarseGridWarning, MissingExtraError
from arcwise.version import __version__

_COMMANDS = {
    "audit": "Audit a mechanism: find a lower bound on its epsilon, and outputs that only some inputs reach.",
    "client": "Create the ledger of a device, and show what it holds.",
    "compare": "Compare every mechanism that serves a domain, at one epsilon.",
    "conformance": "Check a client in any language against the golden vectors.",
    "count": "Count the reports in each SOURCE by task and epoch: Parquet, CSV or JSON lines, or a table.",
    "dashboard": "Show the estimates of STORE in a browser on this machine, without changing the store.",
    "demo": "Collect a year of flights privately, and show the estimates next to the truth.",
    "design": "Design mechanisms for means and check the claims about them.",
    "estimate": "Estimate from the counts of the task in each TASK_FILE, or of the tasks of a group.",
    "group": "Make, show and verify groups of tasks that share a budget.",
    "key": "Make, list and revoke the keys of a server, and make those of its gateway.",
    "plan": "Plan a survey: give two of --epsilon, --error and --reports, and the third is computed.",
    "quickstart": "Write a Python file with a device, a server and an estimate, to run and to change.",
    "randomize": "Randomise a column of FILE (Parquet, CSV or JSON lines) and write a file of reports.",
    "reproduce": 'Recompute a table or figure of a publication; the NAME "all" recomputes every one.',
    "serve": "Collect reports and serve estimates.",
    "simulate": "Draw the counts of the task in TASK_FILE for any number of devices, up to 10^12.",
    "store": "Inspect and maintain a store: sqlite:///FILE or postgresql://USER@HOST/DATABASE.",
    "task": "Make, show and verify task files, and report on their privacy.",
}
"""The first sentence of each command's help, kept here to list the commands without loading their modules."""


_COMPUTING = frozenset({"audit", "compare", "demo", "design", "estimate", "plan", "reproduce", "simulate"})
"""Commands that limit linear algebra to one thread; other commands do not load linear algebra."""


class CommandGroup(click.Group):
    """A group that lists its commands with whole first sentences; click would cut them to one line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.words(ctx, name)) for name in self.list_commands(ctx)])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; if it does not exist, fail with a suggestion or with the list of commands."""
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


class _MissingExtra(click.ClickException):
    exit_code = 2  # nothing was run, as with a mistake in the options


class _Group(CommandGroup):
    """Loads a command when it is called, and shows arcwise's own errors without a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"arcwise.cli.{cmd_name}"), cmd_name)
        return command

    def words(self, ctx: click.Context, name: str) -> str:
        return _COMMANDS[name]

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
@click.version_option(__version__, prog_name="arcwise")
def main() -> None:
    """Local differential privacy for bounded and circular numbers."""
    warnings.simplefilter("ignore", CoarseGridWarning)  # commands that make tasks print it themselves
