"""docs/howto/hosted-app.md, carried out: its ledgers in a schema of their own, its requests recorded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.ledgers import ledger_schema, ledger_url

if TYPE_CHECKING:
    import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "hosted-app.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_the_page_holds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DATABASE_URL", ledger_url())
    names: dict[str, Any] = {}
    with ledger_schema() as schema:
        for block in BLOCKS:
            text = block.replace("create=True)", f"create=True, schema={schema!r})")
            text = text.replace("ledger=ledgers)", "ledger=ledgers, transport=RecordingTransport())")
            text = text.replace(
                "from arcwise.client import ", "from arcwise.client import RecordingTransport, "
            )
            exec(compile(text, str(PAGE), "exec"), names)
            said = re.findall(r"^print\(.*\)  # (.*)$", block, re.MULTILINE)
            assert capsys.readouterr().out.splitlines() == said
    assert len(BLOCKS) == 5
