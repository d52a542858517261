"""docs/reference/protocol.md says what the client does."""

from __future__ import annotations

import re
from pathlib import Path

from arcwise.client.delivery import Verdict, classify

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "protocol.md"


def test_the_table_of_answers_names_the_verdicts() -> None:
    """Each row that names statuses and nothing else has what a client does in bold."""
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([0-9, ]+) \|.*\*\*(\w+)\*\*.*\|$", text, re.MULTILINE)
    stated = {int(status): verdict for statuses, verdict in rows for status in statuses.split(",")}
    assert len(stated) == 12
    assert stated == {status: classify(status).value for status in stated}
    assert set(stated.values()) == {verdict.value for verdict in Verdict}
