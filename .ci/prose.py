"""Look for words and sentences in prose that make a reader stumble.

``python .ci/prose.py [PATH ...]`` reads docstrings, comments and messages of Python files, and the text of
pages: all files of the repository unless paths are given. It prints each finding with a better wording, and
exits with 1 if there are any. proselint checks general English; `BANNED` holds the phrases that this project
used too often. docs/contributing/writing-documentation.md has the rules that a program cannot check.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from bisect import bisect_right
from inspect import cleandoc
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from proselint.checks import __register__
from proselint.registry import CheckRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent

MOST_WORDS = 40
"""In a sentence."""
MOST_WORDS_OF_A_CELL = 25

GENERAL = (
    "archaism",
    "cliches",
    "hedging",
    "malapropisms",
    "misc",
    "needless_variants",
    "nonwords",
    "oxymorons",
    "redundancy",
    "uncomparables",
    "weasel_words",
)
"""The checks of proselint that apply to technical prose."""

ALLOWED = {
    "very",
    "for ever",
    "one in a million",
    "but",
    "least worst",
    "least whole",
    "more false",
    "not honest",
    "multiply-",
    "family-",
}
"""Findings of proselint that are right here: one in a million is a probability."""

NOT_READ = {"CHANGELOG.md", ".ci/prose.py", "tests/vectors/policy.py"}

GENERATED = r"<!-- (?:table|figures|results): .*?<!-- end[ a-z]*-->"
"""A part of a page that is written from the source, where it is read, or from measurements."""

BANNED = {
    r"returns? what\b": "Return and a noun: Return the body of a batch",
    r"(?:^|(?<=\. ))what (?!if\b)(?:[^?.]|\.\w)*(?:\.\s|\.$)": "a sentence that begins with a noun",
    r"\bso (?:many|much|few)\b(?! that| as)": "this many, or the number's name",
    r"\b(?:is|are|was|were) (?-i:none)\b": "is not a X, or there is no X",
    r"\btells?\b|\btold\b": "shows, says, identifies, distinguishes",
    r"\bwh(?:at|o|om|ere|ich)ever\b": "any X, or a sentence with if",
    r"\blikewise\b": "also",
    r"\bwere it\b": "if it were",
    r"(?<!anyone )\bwho knows\b": "unknown",
    r"\banew\b|\bonce more\b": "again",
    r"\bbeside\b": "next to, with, or compared with",
    r"\bstands?\b(?! for\b)": "is",
    r"\bfor good\b": "permanently",
    r"\bat once\b": "immediately, or together",
    r"\blest\b|\btill\b|\bas yet\b|\bfares?\b": "the usual word",
    r"(?:^|(?<=[.;] ))(?:one that|who) \w+": "a sentence that begins with a noun",
}
"""What not to write, as a pattern without case, and what to write."""


class Text(NamedTuple):
    """A piece of prose: where it begins, and what it says on one line."""

    path: str
    line: int
    words: str
    literal: bool = False
    """Whether it may be code, or a drawing: its sentences have no end."""


def texts_of_python(path: str, source: str) -> Iterator[Text]:
    """Yield the docstrings, the messages of several words, and the comments of a module."""
    tree = ast.parse(source)
    inside = {
        id(part) for each in ast.walk(tree) if isinstance(each, ast.JoinedStr) for part in ast.walk(each)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            inside.add(id(node.value))
            yield from paragraphs(path, node.lineno, cleandoc(node.value.value))
        elif isinstance(node, ast.JoinedStr):
            parts = [each.value if isinstance(each, ast.Constant) else "X" for each in node.values]
            yield from message(path, node.lineno, "".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield from message(path, node.lineno, node.value)
    yield from comments(path, source)


def message(path: str, line: int, text: str) -> Iterator[Text]:
    """Yield a string if it is a message, not data: four words in small letters, without code."""
    if len(re.findall(r"\b[a-z]+\b", text)) > 3 and not re.search(r"[=;{}<>\\]|\b[A-Z]{4,} ", text):
        yield Text(path, line, " ".join(text.split()))


def comments(path: str, source: str) -> Iterator[Text]:
    """Yield the comments of a module, those of adjacent lines together."""
    lines: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or re.match(
            r"#!|# (?:noqa|type:|pragma|not run|run by)", token.string
        ):
            continue
        line = token.start[0]
        if line != last + 1 or not token.line.strip().startswith("#"):
            if lines:
                yield Text(path, first, plain(" ".join(lines)))
            lines, first = [], line
        last = line
        lines.append(token.string.lstrip("# "))
    if lines:
        yield Text(path, first, plain(" ".join(lines)))


def paragraphs(path: str, line: int, text: str) -> Iterator[Text]:
    """Yield the paragraphs of a docstring or of a page; a table's cells one by one."""
    text = re.sub(rf"(?ms)^ *(```|~~~).*?^ *\1|{GENERATED}|<!--.*?-->|\$\$.*?\$\$", _lines, text)
    for block in re.finditer(r"(?:[^\n]*\S[^\n]*\n?)+", text):
        at = line + text.count("\n", 0, block.start())
        lines = block.group().splitlines()
        drawn = all(each.startswith("    ") or "──" in each for each in lines)
        literal = drawn or lines[0].strip() == "\b" or lines[0].startswith("===")
        for each in _units(block.group()):
            yield Text(path, at, plain(each), literal)
            at += each.count("\n") + 1


def _lines(match: re.Match[str]) -> str:
    return "\n" * match.group().count("\n")


def _units(block: str) -> Iterator[str]:
    """Yield the parts of a block that are read by themselves: rows of tables, points of lists, headings."""
    if re.match(r" *>>>|(?: *\w[\w ,:*|.]*\n)? *-{3,}", block):
        return
    unit: list[str] = []
    for line in block.splitlines():
        if unit and (re.match(r" *(\||[-*] |\d+\. |#)", line) or unit[0].startswith("#")):
            yield "\n".join(unit)
            unit = []
        unit.append(line.strip())
    yield "\n".join(unit)


def plain(text: str) -> str:
    """Return a text without markup: code and formulas are an X each."""
    text = re.sub(r"``[^`]*``|`[^`]*`|\$[^$]+\$|<[^>]*>", "X", text)
    text = re.sub(r"(^#+ |\*\*|\[)(?:What|Who)\b", r"\1X", text)  # headings, labels and links may ask
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    return " ".join(re.sub(r"[*_#]+", " ", text).split())


def findings(text: Text) -> Iterator[str]:
    """Yield what is to be written otherwise in a text."""
    if text.words.startswith("|"):
        cells = [each.split() for each in text.words.strip("|").split("|")]
        if max(map(len, cells)) > MOST_WORDS_OF_A_CELL:
            yield f"a cell has {max(map(len, cells))} words, more than {MOST_WORDS_OF_A_CELL}: write a list"
    elif not text.literal:
        for sentence in re.split(r"(?<=[.!?:;]) ", text.words):
            if (many := len(re.findall(r"[^\W\d_][\w'-]*", sentence))) > MOST_WORDS:
                yield f"a sentence has {many} words, more than {MOST_WORDS}: {sentence[:60]}..."
    for pattern, instead in BANNED.items():
        for match in re.finditer(pattern, text.words, re.IGNORECASE):
            yield f"{match.group().strip()[:40]!r}: {instead}"


def general_findings(texts: list[Text]) -> Iterator[tuple[Text, str]]:
    """Yield what proselint finds in the texts of a file, all of them in one string: it starts slowly."""
    starts = list(accumulate((len(each.words) + 2 for each in texts), initial=0))
    everything = "\n\n".join(each.words for each in texts)
    for check in CHECKS:
        for result in check.check(everything):
            found = everything[slice(*result.span)].strip()
            if found.lower() not in ALLOWED:
                yield texts[bisect_right(starts, result.span[0] + 1) - 1], f"{found!r}: {result.message}"


def files() -> list[str]:
    """Return the paths of all files with prose of the project's own."""
    names = subprocess.run(("git", "ls-files"), cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [each for each in names.splitlines() if each.endswith((".py", ".md")) and each not in NOT_READ]


CheckRegistry().register_many(__register__)
CHECKS = CheckRegistry().get_all_enabled(dict.fromkeys(GENERAL, True))


def main() -> int:
    """Print the findings of the files, and return 1 if there are any."""
    found = 0
    for path in sys.argv[1:] or files():
        source = (ROOT / path).read_text(encoding="utf-8")
        read = texts_of_python(path, source) if path.endswith(".py") else paragraphs(path, 1, source)
        texts = [each for each in read if each.words]
        own = ((text, finding) for text in texts for finding in findings(text))
        for text, finding in chain(own, general_findings(texts)):
            found += 1
            print(f"{text.path}:{text.line}: {finding}")
    print(f"{found} findings")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
