"""The `arcwise` command, as a user types it."""

from __future__ import annotations

from click.testing import CliRunner, Result

from arcwise.cli import main

__all__ = ["bad", "good", "run"]


def run(*args: str, text: str | None = None) -> Result:
    """Run a command with this text as its input."""
    return CliRunner().invoke(main, args, input=text)


def good(*args: str, text: str | None = None) -> str:
    """Return the standard output of a command that succeeds."""
    result = run(*args, text=text)
    assert result.exit_code == 0, result.output
    return result.stdout


def bad(*args: str, text: str | None = None, code: int | None = None) -> str:
    """Return the error of a command that fails as it should, with single spaces; None: with code 1 or 2."""
    result = run(*args, text=text)
    assert result.exit_code in ((1, 2) if code is None else (code,)), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    return " ".join(result.output.split())
