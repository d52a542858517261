"""README.md: short, with the program of `arcwise quickstart`, two commands, and true badges.

``python -m tests.test_readme`` writes docs/pictures/badges.svg again: badges are one picture, made from
pyproject.toml, so that no service has to be asked.
"""

from __future__ import annotations

import re
from pathlib import Path

from arcwise.cli.quickstart import program

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURE = ROOT / "docs" / "pictures" / "badges.svg"
_LETTER, _PAD, _GAP = 6.6, 8, 6


def badges() -> list[tuple[str, str]]:
    """Return the name and the text of each badge: only facts of pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")

    def said(pattern: str) -> list[str]:
        return re.findall(pattern, text, re.MULTILINE)

    pythons = said(r'"Programming Language :: Python :: (3\.\d+)"')
    return [
        ("version", said(r'^version = "(.*)"')[0]),
        ("Python", f"{pythons[0]} to {pythons[-1]}"),
        ("licence", said(r'^license = "(.*)"')[0]),
        ("types", "yes" if said('"Typing :: Typed"') else "no"),
    ]


def words() -> str:
    """Return the badges as text: README.md's description of the picture."""
    return ", ".join(f"{name} {text}" for name, text in badges())


def picture() -> str:
    """Return the picture."""
    x, parts = 0.0, []
    for name, text in badges():
        for label, colour in ((name, "#4d4d4d"), (text, "#0072b2")):
            width = _LETTER * len(label) + 2 * _PAD
            parts.append(
                f'<rect x="{x:g}" width="{width:g}" height="20" fill="{colour}"/>'
                f'<text x="{x + width / 2:g}" y="14" text-anchor="middle">{label}</text>'
            )
            x += width
        x += _GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{x - _GAP:g}" height="20" role="img" '
        f'aria-label="{words()}" fill="#ffffff" font-family="DejaVu Sans, Verdana, sans-serif" '
        f'font-size="11">{"".join(parts)}</svg>\n'
    )


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
    assert PICTURE.read_text(encoding="utf-8") == picture(), "python -m tests.test_readme"
    assert f"![{words()}](docs/pictures/badges.svg)" in README
    assert not re.search(r"\]\(\w+:", README), "nothing of the page is loaded from elsewhere"


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
