"""README.md: short, with the program of `arcwise quickstart`, two commands, and true badges."""

from __future__ import annotations

import re
from pathlib import Path

from arcwise.cli.quickstart.command import program
from tests.support.badges import PICTURE, picture, words

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 120
    assert len(README.split()) <= 1_500


def test_its_quickstart_is_what_the_command_writes() -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert shown == program()


def test_two_commands_set_everything_up() -> None:
    (commands,) = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    assert re.findall(r"^make \w+", commands, re.MULTILINE) == ["make demo", "make test"]


def test_badges_say_what_the_project_says() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(), "python -m tests.support.badges"
    assert f"![{words()}](docs/pictures/badges.svg)" in README
    assert not re.search(r"\]\(\w+:", README), "nothing of the page is loaded from elsewhere"
