"""Check that commits changed nothing but prose in the Python files.

``python .ci/prose_only.py BASE [HEAD]`` compares the Python files of two revisions; HEAD is the working tree
unless given. It compares syntax trees without comments, docstrings and the words of messages. It exits with
1 and names each file that differs in anything else.

A string counts as words if it contains a space and is not an SQL statement. Its placeholders must stay.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_PLACEHOLDER = re.compile(r"%(?:\(\w+\))?[-#0 +]*[\d.]*[sdrfgxi]|\{[^{} ]*\}")
_STATEMENT = re.compile(
    r"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|PRAGMA|WITH|BEGIN|SET|COPY|LOCK|ATTACH|FROM|WHERE|AND)\b"
)


class _Blanked(ast.NodeTransformer):
    """Replace what is written for people by what has to stay of it."""

    def visit(self, node: ast.AST) -> ast.AST:
        """Drop the docstrings of a body, then visit the rest."""
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not _is_docstring(each)] or [ast.Pass()]  # type: ignore[attr-defined]
        return super().visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Blank a string with words, keeping its placeholders."""
        if not isinstance(node.value, str) or not _is_prose(node.value):
            return node
        return ast.Constant(("words", *sorted(_PLACEHOLDER.findall(node.value))))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """Blank an f-string with words, keeping its expressions in any order."""
        words = "".join(each.value for each in node.values if isinstance(each, ast.Constant))
        if not _is_prose(words):
            return self.generic_visit(node)
        values = [ast.dump(each) for each in node.values if isinstance(each, ast.FormattedValue)]
        return ast.Constant(("words", *sorted(values)))


def _is_docstring(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _is_prose(text: str) -> bool:
    return " " in text.strip() and not _STATEMENT.match(text)


def blanked(source: str) -> str:
    """Return the syntax tree of a module without what is written for people."""
    return ast.dump(_Blanked().visit(ast.parse(source)))


def _git(*arguments: str) -> str:
    return subprocess.run(("git", *arguments), cwd=ROOT, check=True, capture_output=True, text=True).stdout


def _is_different(name: str, base: str, head: str | None) -> bool:
    """Return whether a changed file differs in more than prose; a new or a deleted file does."""
    try:
        before = _git("show", f"{base}:{name}")
        after = _git("show", f"{head}:{name}") if head else (ROOT / name).read_text(encoding="utf-8")
    except (subprocess.CalledProcessError, FileNotFoundError):
        return True
    return blanked(before) != blanked(after)


def main() -> int:
    """Print the files that differ, and return 1 if there are any."""
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    base, head = sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else None
    changed = _git("diff", "--name-only", "--no-renames", *sys.argv[1:], "--", "*.py").split()
    different = [name for name in changed if _is_different(name, base, head)]
    for name in different:
        print(name)
    print(f"{len(different)} of {len(changed)} changed files differ in more than prose")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
