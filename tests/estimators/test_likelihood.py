"""The certified maximum where floats end: constraints next to the end of what any distribution has."""

from __future__ import annotations

import math

import numpy as np
import pytest

from arcwise.server.estimators.likelihood import Likelihood


@pytest.mark.parametrize("value", [1e-17, 1e-9, 1.0 - 2.0**-53, 1.0 - 1e-9])
@pytest.mark.parametrize("n", [1, 2**53])
def test_a_value_next_to_the_end_of_the_range_gives_a_number_and_no_warning(value: float, n: int) -> None:
    # Two of the codes have no probability at one of the nodes, as of mechanisms with a delta.
    rows = np.array([[0.5, 0.5, 0.0], [0.2, 0.5, 0.3], [0.0, 0.5, 0.5]])
    for counts in np.eye(3) * n:
        for functional in (np.array([1.0, 0.4, 0.0]), np.array([0.0, 1.0, 1.0])):
            found = Likelihood(rows, counts).maximize(functional=functional, value=value)
            assert math.isfinite(found.log_likelihood)
            assert not math.isnan(found.gap)
            assert found.probabilities.min() >= 0.0
            np.testing.assert_allclose(found.probabilities.sum(), 1.0, rtol=1e-12)
            np.testing.assert_allclose(functional @ found.probabilities, value, rtol=1e-9, atol=2e-14)
