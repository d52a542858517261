"""Why the goal "distribution" takes the inset window: the clamp hides where in an end zone users are."""

from __future__ import annotations

import numpy as np
import pytest

from arcwise.domains import Interval
from arcwise.mechanisms import OptimalPiecewise, Piecewise
from arcwise.papers.opm_distribution import MECHANISMS, POPULATIONS, error_of
from tests.support.outcomes import outcome

UNIT = Interval(0, 1)


@pytest.mark.parametrize("epsilon", [0.37, 1.0, 2.9])
def test_the_default_is_the_piecewise_mechanism(epsilon: float) -> None:
    assert OptimalPiecewise(UNIT, epsilon, nodes=128).kernel == Piecewise(UNIT, epsilon, nodes=128).kernel


@pytest.mark.parametrize("epsilon", [0.37, 1.0, 2.9])
def test_all_values_of_an_end_zone_have_one_law(epsilon: float) -> None:
    mechanism = OptimalPiecewise(UNIT, epsilon, placement="clamp")
    zone = mechanism.kernel.window / (2 * mechanism.kernel.codes)
    inside = np.array([0.0, zone / 3, zone * (1 - 1e-12)])
    assert len({mechanism.position(float(x)) for x in inside}) == 1
    assert mechanism.position(zone * 1.01) != mechanism.position(0.0)


def test_many_reports_help_the_inset_and_not_the_clamp() -> None:
    """Seeded; with 10^7 reports the inset is a hundred times nearer, so nothing hangs on a digit."""
    everybody = "atom:0.001"
    clamp = OptimalPiecewise(UNIT, 1.0, placement="clamp")
    zone = clamp.kernel.window / (2 * clamp.kernel.codes)
    clamped = error_of(clamp, everybody, 10_000_000, 1)
    assert clamped == pytest.approx(zone / 2, rel=0.1)  # spread over the zone, they are half of it away
    assert error_of(OptimalPiecewise(UNIT, 1.0), everybody, 10_000_000, 1) < clamped / 20


@pytest.mark.slow
def test_the_table_has_every_mechanism_and_population() -> None:
    found = outcome("opm-distribution")
    assert not found.checks  # the slides have no figure of distributions
    table = found.tables["populations"]
    assert [row[1] for row in table.rows] == [*POPULATIONS, *POPULATIONS]
    assert len(table.columns) == 3 + len(MECHANISMS)
    assert all(0 < float(value) < 0.1 for row in table.rows for value in row[3:])
    rows = {
        row[1]: dict(zip(MECHANISMS, map(float, row[3:]), strict=True)) for row in table.rows if row[0] == 1.0
    }
    for population in ("skewed", "many near 0", "two bumps"):
        others = [value for name, value in rows[population].items() if name != "clamp"]
        assert rows[population]["clamp"] > 1.4 * max(others)
    small, large = found.tables["reports"].rows
    inset, clamp = (
        found.tables["reports"].columns.index(f"{name} (W1 as a share of the range)")
        for name in ("inset", "clamp")
    )
    assert float(large[inset]) < 0.15 * float(small[inset])
    assert float(large[clamp]) > 0.5 * float(small[clamp])
