"""The blocks of a page, with the comments before them and the output that they print."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAGES", "ROOT", "RUN", "Block", "blocks", "differs", "unsaid"]

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = ("python", "sh", "console")
_SHOWN = ("", "text")
_FENCE = re.compile(r"^( *)(`{3,})([\w-]*)(.*)$")
_COMMENT = re.compile(r"^ *<!-- (not run|run by|keeps running|varies)(?:: (.*?))? -->$")
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
_PRINT = re.compile(r"^\s*print\(.*\)  # (.*)$", re.MULTILINE)


@dataclass
class Block:
    """A block of code.

    Attributes
    ----------
    language, text, line
        Its language, its code, and its first line.
    comments
        The comments on the lines before it: "not run" and "run by" with a reason or a test, and so on.
    shown
        The block after it that shows its output, or None.
    """

    language: str
    text: str
    line: int
    comments: dict[str, str]
    shown: str | None = None

    @property
    def left_out(self) -> bool:
        """Whether the block is not run with its page."""
        return not {"not run", "run by"}.isdisjoint(self.comments)


def blocks(text: str) -> list[Block]:
    """Return the blocks of a page in order; comments at the top of the page apply to all."""
    lines = text.splitlines()
    found: list[Block] = []
    top = dict[str, str]()
    comments = dict[str, str]()
    before: Block | None = None  # with only blank lines since
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if fence := _FENCE.match(line):
            start = at
            while at < len(lines) and lines[at].strip() != fence[2]:
                at += 1
            body = textwrap.dedent("\n".join(lines[start:at])) + "\n"
            at += 1
            if fence[3] in _SHOWN and before and "not run" not in comments and not fence[4]:
                before.shown, before = body, None
            else:
                block = Block(fence[3], body, start, {**top, **comments})
                found.append(block)
                before = block if fence[3] in RUN else None
            comments = {}
        elif comment := _COMMENT.match(line):
            comments[comment[1]] = comment[2] or ""
            before = None
        elif line.strip():
            if not any(each.startswith("## ") for each in lines[:at]) and not found and "run by" in comments:
                top = {"run by": comments["run by"]}
            comments, before = {}, None
    return found


def unsaid(block: str, output: str) -> str:
    """Return how an output differs from the comments after `print`, line by line, or ""."""
    lines = output.splitlines()
    for comment in _PRINT.findall(block):
        start = comment.removesuffix(" ...")
        most = None if start == comment else len(start)
        at = next((at for at, line in enumerate(lines) if _same(start, line[:most], False)), None)
        if at is None:
            return f"{comment!r} is not in:\n{output}"
        del lines[: at + 1]
    return ""


def differs(shown: str, output: str, *, varies: bool = False) -> str:
    """Return how an output differs from the one that a page shows, or "".

    The lines of the page must follow one another in the output; "..." means omitted lines. Numbers may differ
    by one in a thousand, whole ones by 1 (versions of numpy differ in the last digits), or by any amount
    where they vary.
    """
    lines = [line for line in output.splitlines() if line.strip()]
    for part in re.split(r"^ *\.\.\.$", shown, flags=re.MULTILINE):
        wanted = [line for line in part.splitlines() if line.strip()]
        if not wanted:
            continue
        start = next((at for at, line in enumerate(lines) if _same(wanted[0], line, varies)), None)
        if start is None:
            return f"{wanted[0]!r} is not in:\n{output}"
        found, lines = lines[start : start + len(wanted)], lines[start + len(wanted) :]
        for line, other in zip(wanted, [*found, *[""] * len(wanted)], strict=False):
            if not _same(line, other, varies):
                return f"{line!r} is shown, but {other!r} is printed in:\n{output}"
    return ""


def _same(line: str, other: str, varies: bool) -> bool:
    if _NUMBER.sub("#", line).split() != _NUMBER.sub("#", other).split():
        return False
    return varies or all(map(_near, _NUMBER.findall(line), _NUMBER.findall(other)))


def _near(shown: str, found: str) -> bool:
    first, second = (float(each.replace(",", "")) for each in (shown, found))
    slack = 1.0 if first.is_integer() and second.is_integer() else 0.0
    return abs(first - second) <= max(slack, 1e-3 * abs(second))
