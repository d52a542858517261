"""Formulas are ones that the site can draw: a site that is built in parallel lacks pages with others."""

from __future__ import annotations

import re

import pytest

from tests.docs.blocks import ROOT

latex2mathml = pytest.importorskip("docutils.utils.math.latex2mathml")
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$(?!\s)([^$]+?)(?<!\s)\$(?!\d)", re.DOTALL)


def test_every_formula_can_be_drawn() -> None:
    wrong, found = [], 0
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for block, inline in FORMULA.findall(CODE.sub("", page.read_text("utf-8"))):
            found += 1
            try:
                latex2mathml.tex2mathml(block or inline)
            except Exception as error:
                wrong.append(f"{page.name}: {block or inline}: {error}")
    assert found > 200
    assert wrong == []
