"""A Sphinx extension for formulas, links and pages of the site."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from pygments.lexers.special import TextLexer
from sphinx import addnodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = ["setup"]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.add_lexer("mermaid", TextLexer)
    logging.getLogger("sphinx.sphinx.directives.other").addFilter(_is_no_empty_glob)
    for part in ("description", "options", "epilog"):
        app.connect(f"sphinx-click-process-{part}", _without_emphasis)
    app.connect("doctree-read", _tell_apart)
    app.connect("missing-reference", _code)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _is_no_empty_glob(record: logging.LogRecord) -> bool:
    """Leave out the warning of a menu that has put all pages of its folder in order: it has no type."""
    return "glob pattern" not in str(record.msg)


def _without_emphasis(_app: Sphinx, _context: object, lines: list[str]) -> None:
    """Keep the stars of a command's help as they are."""
    lines[:] = [line.replace("*", "\\*") for line in lines]


def _inline(translator: Any, node: nodes.math) -> None:
    """Write a formula as MathML, which browsers draw without a script or a network."""
    # Delimiters stay as high as the line: browsers stretch them, even next to a letter.
    formula = re.sub(r"<mo>([{}()\[\]|])</mo>", r'<mo stretchy="false">\1</mo>', tex2mathml(node.astext()))
    translator.body.append(formula)
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def _tell_apart(_app: Sphinx, tree: nodes.document) -> None:
    """Lead a bare `Outcome` to that of its package: the client and the stores have one each."""
    for node in tree.findall(addnodes.pending_xref):
        if node["reftarget"] == "Outcome":
            package = "arcwise.client" if "client" in str(node.get("py:module")) else "arcwise.server.store"
            node["reftarget"] = f"{package}.Outcome"


def _code(
    _app: Sphinx, _env: object, node: addnodes.pending_xref, content: nodes.Element
) -> nodes.Element | None:
    """Leave `words` of docstrings as code where they name nothing that has a page."""
    return content if node["reftype"] == "obj" else None
