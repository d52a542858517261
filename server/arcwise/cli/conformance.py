"""`arcwise conformance`: the same as ``python -m arcwise.client.conformance``, which needs no extra."""

from __future__ import annotations

import sys

import click

from arcwise.client.conformance.__main__ import run
from arcwise.errors import ParameterError


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--kind", "kinds", multiple=True, help="Check cases of this kind only; repeatable.")
@click.option("--timeout", default=60.0, show_default=True, help="Seconds to wait for each answer.")
@click.option("--failures", default=5, show_default=True, help="Number of failures to show of each kind.")
@click.argument("executable", nargs=-1, required=True, type=click.UNPROCESSED)
def conformance(kinds: tuple[str, ...], timeout: float, failures: int, executable: tuple[str, ...]) -> None:
    """Check a client in any language against the golden vectors.

    EXECUTABLE is the client's program with its arguments. It reads a JSON line for each case and answers with
    a JSON line; docs/reference/conformance.md specifies these lines.
    """
    try:
        sys.exit(run(executable, kinds, timeout, failures))
    except ParameterError as error:  # exit code 1 means a client that does not conform
        raise click.UsageError(str(error)) from None
