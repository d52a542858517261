"""A short form of `benchmarks/hostile.py`: a server process among clients that mean it harm."""

from __future__ import annotations

import pytest
from hostile import run_part
from hostile_parts import PARTS


@pytest.mark.parametrize(
    ("name", "statuses"),
    [
        ("bodies", {204, 400, 410, 422}),
        pytest.param("requests", {204, 400, 404, 405, 408, 415}, marks=pytest.mark.slow),
        ("flood", {204, 503}),
    ],
)
def test_nothing_is_stored_but_what_was_acknowledged(name: str, statuses: set[int]) -> None:
    found = run_part(PARTS[name], seed=20261121, scale=0.02)
    assert found.violations == []
    assert statuses <= set(found.statuses)
    assert found.acknowledged > 100
