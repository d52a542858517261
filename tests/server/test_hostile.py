"""A short form of `tests/soak/hostile`: a server process among hostile clients."""

from __future__ import annotations

import pytest

from tests.soak.hostile.__main__ import run_part
from tests.soak.hostile.attack import PARTS


@pytest.mark.parametrize(
    ("name", "scale", "statuses"),
    [
        ("bodies", 0.02, {204, 400, 410, 422}),
        # Of this many requests about 24 have a method that is answered; on a busy machine, some of them.
        pytest.param("requests", 0.06, {204, 400, 404, 405, 408, 415}, marks=pytest.mark.slow),
        pytest.param("flood", 0.02, {204, 503}, marks=pytest.mark.slow),
    ],
)
def test_nothing_is_stored_but_what_was_acknowledged(name: str, scale: float, statuses: set[int]) -> None:
    found = run_part(PARTS[name], seed=20261121, scale=scale)
    assert found.violations == []
    assert statuses <= set(found.statuses)
    assert found.acknowledged > 100
