"""The progress bar of commands: on a terminal, after some time, and gone at the end."""

from __future__ import annotations

import io
import threading
import time

import pytest
from rich.console import Console

from arcwise.cli import terminal
from arcwise.cli.terminal import PATIENCE, progress_bar


def shown(*, is_terminal: bool) -> str:
    """Return all output of a bar while two steps of three are done."""
    text = io.StringIO()
    with progress_bar("estimating", console=Console(file=text, force_terminal=is_terminal)) as progress:
        progress(2, 3, "estimating delays")
    return text.getvalue()


@pytest.fixture
def long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the command began longer ago than its patience."""
    monkeypatch.setattr(terminal, "_STARTED", time.monotonic() - PATIENCE - 1)


@pytest.mark.usefixtures("long_ago")
def test_a_command_that_takes_its_time_shows_how_far_it_is() -> None:
    text = shown(is_terminal=True)
    assert "2/3" in text
    assert "estimating delays" in text
    assert text.endswith("\x1b[2K")  # its line is erased


def test_a_quick_command_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "_STARTED", time.monotonic() + 1000)
    threads = set(threading.enumerate())
    assert shown(is_terminal=True) == ""
    assert set(threading.enumerate()) <= threads  # those of other tests may end meanwhile


@pytest.mark.usefixtures("long_ago")
def test_a_file_or_a_pipe_gets_no_bar() -> None:
    assert shown(is_terminal=False) == ""


@pytest.mark.usefixtures("long_ago")
def test_a_bar_is_gone_after_an_error() -> None:
    text = io.StringIO()
    with (
        pytest.raises(ValueError, match="in the block"),
        progress_bar("estimating", console=Console(file=text, force_terminal=True)),
    ):
        raise ValueError("in the block")
    assert text.getvalue().endswith("\x1b[2K")
