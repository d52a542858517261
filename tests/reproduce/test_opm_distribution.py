"""Why the goal "distribution" takes the inset window: the clamp hides where in an end zone users are."""

import numpy as np
import pytest

from arcwise.domains import Interval
from arcwise.mechanisms import OptimalPiecewise, Piecewise
from arcwise.papers.opm_distribution import MECHANISMS, POPULATIONS, error_of
from tests.support.outcomes import outcome, records

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
    for population in ("skewed", "many near 0", "two bumps"):
        (row,) = records("opm-distribution", "populations", epsilon=1.0, population=population)
        assert row["clamp"] > 1.4 * max(row[name] for name in MECHANISMS if name != "clamp")
    small, large = records("opm-distribution", "reports")
    assert large["inset"] < 0.15 * small["inset"]
    assert large["clamp"] > 0.5 * small["clamp"]
