"""Quantiles: the point, the constrained maximum behind the interval, and coverage."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from arcwise.domains import Interval
from arcwise.mechanisms import OptimalPiecewise
from arcwise.server.estimators.distribution import fit_held_out
from arcwise.server.estimators.grid import cell_edges
from arcwise.server.estimators.likelihood import Likelihood, Maximum, maximize
from arcwise.server.estimators.profile import Profile
from arcwise.server.estimators.quantile_ends import signed_root
from arcwise.server.estimators.quantiles import (
    LEVELS,
    functional,
    point,
    quantile_interval,
    quantiles,
)
from arcwise.server.estimators.rows import code_laws
from surveys import drawn_counts, node_distribution

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray: TypeAlias = NDArray[np.float64]


def test_points_of_a_known_distribution() -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0, nodes=5)  # cells end at 1/8, 3/8, 5/8, 7/8
    f = np.array([0.2, 0.3, 0.1, 0.0, 0.4])
    assert point(mechanism, f, 0.1) == 0.0  # inside the atom at 0
    assert point(mechanism, f, 0.2) == 0.0
    assert point(mechanism, f, 0.35) == pytest.approx(0.25)  # half way through the second cell
    assert point(mechanism, f, 0.5) == pytest.approx(0.375)
    assert point(mechanism, f, 0.61) == 1.0


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32),
    epsilon=st.floats(0.1, 8.0),
    n=st.sampled_from([3, 100, 10_000, 10**7]),
    unit=st.floats(0.05, 0.95),
    tau=st.floats(0.05, 0.95),
)
def test_the_constrained_maximum_is_feasible_and_certified(
    seed: int, epsilon: float, n: int, unit: float, tau: float
) -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), epsilon, nodes=20)
    truth = np.random.default_rng(seed).dirichlet(np.ones(20) / 4)
    profile = Profile(mechanism, drawn_counts(mechanism, truth, n, seed))
    below = functional(profile.edges, unit)
    held = maximize(profile.rows, profile.counts, functional=below, value=tau, gap=0.005)
    assert held.probabilities.min() > 0
    assert held.probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    assert below @ held.probabilities == pytest.approx(tau, abs=1e-12)
    assert held.log_likelihood == pytest.approx(
        float(profile.counts @ np.log(held.probabilities @ profile.rows)), rel=1e-12
    )
    assert held.gap <= 0.005
    assert held.log_likelihood <= profile.best.log_likelihood + profile.best.gap
    # No feasible distribution is better by more than the gap: try the mixture with any other feasible one.
    other = np.random.default_rng(seed + 1).dirichlet(np.ones(20))
    low = below @ other > tau
    corner = np.eye(20)[0 if not low else -1]
    share = (tau - below @ other) / (below @ corner - below @ other)
    other = (1 - share) * other + share * corner
    for weight in (1e-4, 1e-2, 1.0):
        mixed = (1 - weight) * held.probabilities + weight * other
        assert profile.counts @ np.log(mixed @ profile.rows) <= held.log_likelihood + held.gap + 1e-9 * n


def test_the_constrained_maximum_agrees_with_a_general_optimiser() -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), 2.0, nodes=6)
    truth = np.array([0.1, 0.3, 0.2, 0.1, 0.2, 0.1])
    profile = Profile(mechanism, drawn_counts(mechanism, truth, 500, 4))
    below, tau = functional(profile.edges, 0.4), 0.6

    def loss(f: FloatArray) -> float:
        return -float(profile.counts @ np.log(f @ profile.rows))

    def slope(f: FloatArray) -> FloatArray:
        return -profile.rows @ (profile.counts / (f @ profile.rows))

    options: dict[str, Any] = {
        "jac": slope,
        "bounds": [(0, 1)] * 6,
        "constraints": [
            {"type": "eq", "fun": lambda f: f.sum() - 1},
            {"type": "eq", "fun": lambda f: below @ f - tau},
        ],
        "method": "SLSQP",
        "options": {"ftol": 1e-12, "maxiter": 500},
    }
    general = minimize(loss, np.full(6, 1 / 6), **options)
    ours = maximize(profile.rows, profile.counts, functional=below, value=tau, gap=1e-6)
    assert ours.log_likelihood == pytest.approx(-float(general.fun), abs=1e-4)


def test_the_signed_root_increases_and_the_ends_sit_on_the_bound() -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0, nodes=48)
    truth = node_distribution(mechanism, np.random.default_rng(1).beta(2, 5, 5000))
    profile = Profile(mechanism, drawn_counts(mechanism, truth, 20_000, 2))

    def root(unit: float) -> float:
        return signed_root(profile, functional(profile.edges, unit), 0.5)

    roots = [root(unit) for unit in np.linspace(0.05, 0.95, 41)]
    # Each maximum is known to 0.005, so a root of r to 0.005/r or 0.1.
    assert all(after >= before - 0.1 for before, after in pairwise(roots))
    low, high = quantile_interval(profile, 0.5, 0.95)
    # Never short of the bound; at most 6 % and half a cell beyond it.
    half = profile.margin
    assert root(low) <= -1.9599
    assert root(low + half) >= -1.96 * 1.06 - 0.01
    assert root(high) >= 1.9599
    assert root(high - half) <= 1.96 * 1.06 + 0.01


def test_more_nodes_than_needed_are_coarsened_without_harm() -> None:
    """At 0.95 a median is missed in more than 3 of 16 surveys with probability 0.007."""
    values = np.random.default_rng(1).beta(2, 5, 5000)
    widths, missed = [], []
    for nodes in (128, 600):
        mechanism = OptimalPiecewise(Interval(0, 1), 2.0, nodes=nodes)
        truth = node_distribution(mechanism, values)
        intervals = []
        for seed in range(16):
            profile = Profile(mechanism, drawn_counts(mechanism, truth, 20_000, seed))
            intervals.append(quantile_interval(profile, 0.5, 0.95))
        assert profile.rows.shape[0] == 128
        assert profile.rows.shape[1] <= 512
        np.testing.assert_allclose(profile.rows.sum(axis=1), 1.0)
        missed.append(sum(not low <= np.median(values) <= high for low, high in intervals))
        widths.append(np.mean([high - low for low, high in intervals]))
    assert max(missed) <= 3
    # Wider by a third: hats between the 128 nodes leave the likelihood more room than atoms at them.
    assert 0.9 <= widths[1] / widths[0] <= 1.5


@pytest.mark.parametrize("placement", ["inset", "clamp"])
def test_a_coarsened_grid_keeps_what_is_at_the_ends(placement: Literal["inset", "clamp"]) -> None:
    """From the reports that are expected: no chance enters, and an interval without the truth is wrong."""
    mechanism = OptimalPiecewise(Interval(0, 1), 4.0, nodes=1024, placement=placement)
    truth = np.full(1024, 0.5 / 1024)
    truth[0] += 0.3
    truth[-1] += 0.2
    law = code_laws(mechanism.kernel, truth[None])[0]
    profile = Profile(mechanism, np.rint(1e8 * law))
    assert len(profile.edges) == 129
    fine = cell_edges(mechanism)
    for unit in np.linspace(profile.edges[1], profile.edges[-2], 7):
        share = functional(profile.edges, unit)
        low, high = profile.share_end(share, 0.95, -1), profile.share_end(share, 0.95, 1)
        assert low <= functional(fine, unit) @ truth <= high
    assert -2 * (profile.best.log_likelihood - profile.counts @ np.log(profile.counts / profile.n)) < 1.0


def test_quantiles_are_ordered_and_inside_their_intervals() -> None:
    mechanism = OptimalPiecewise(Interval(-10, 30), 1.0)
    values = 40 * np.random.default_rng(1).beta(2, 5, 5000) - 10
    counts = drawn_counts(mechanism, node_distribution(mechanism, values), 10_000, 3)
    result = quantiles(mechanism, counts, fit_held_out(mechanism, counts).probabilities)
    assert list(result) == ["0.05", "0.25", "0.5", "0.75", "0.95"]
    points = [value.value for value in result.values()]
    for value in result.values():
        assert value.value is not None
        assert value.contains(value.value)
        assert value.low is not None
        assert value.high is not None
        assert -10 <= value.low < value.high <= 30
    assert points == sorted(points, key=float)  # type: ignore[arg-type]


def test_quantiles_in_an_end_zone_of_clamp_are_ranges() -> None:
    mechanism = OptimalPiecewise(Interval(0, 100), 1.0, placement="clamp")
    zone = 100 * mechanism.kernel.window / (2 * mechanism.kernel.codes)
    for at, truth in ((0.0, 0.0), (zone / 2, zone / 2), (100.0, 100.0)):
        counts = drawn_counts(mechanism, node_distribution(mechanism, [at]), 20_000, 3)
        fitted = fit_held_out(mechanism, counts)
        median = quantiles(mechanism, counts, fitted.probabilities)["0.5"]
        assert median.value is None
        assert median.contains(truth)
        assert "end zone" in median.note


def test_an_atom_at_an_end_is_found() -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), 4.0)
    values = np.concatenate([np.zeros(400), np.linspace(0, 1, 600)])
    counts = drawn_counts(mechanism, node_distribution(mechanism, values), 50_000, 3)
    result = quantiles(mechanism, counts, fit_held_out(mechanism, counts).probabilities)
    assert result["0.05"].value == 0.0
    assert result["0.05"].low == 0.0
    assert result["0.25"].contains(0.0)
    assert result["0.75"].contains(0.583)


def test_a_likelihood_that_was_not_certified_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    finished = Likelihood.maximize

    def unfinished(*args: Any, **kwargs: Any) -> Maximum:
        return replace(finished(*args, **kwargs), gap=1.5)

    mechanism = OptimalPiecewise(Interval(0, 1), 2.0, nodes=16)
    counts = drawn_counts(mechanism, np.full(16, 1 / 16), 500, 1)
    plain = quantiles(mechanism, counts, np.full(16, 1 / 16))["0.5"]
    assert "certified" not in plain.note
    assert "only 16 nodes" in plain.note
    assert "smoothed" in plain.note
    monkeypatch.setattr(Likelihood, "maximize", unfinished)
    loose = quantiles(mechanism, counts, np.full(16, 1 / 16))["0.5"]
    assert "certified to 1.5 only" in loose.note
    assert plain.low is not None
    assert loose.low is not None
    assert loose.low < plain.low


def test_coverage_of_quantiles() -> None:
    # 40 surveys and 5 quantiles. At a coverage of 0.95 each, fewer than 33 of 40 have probability 7e-4 (4e-3
    # for any of the five). The study with 200 surveys of 10^4 is benchmarks/coverage.py.
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0, nodes=48)
    values = np.sort(np.random.default_rng(1).beta(2, 5, 4000))
    nodes = node_distribution(mechanism, values)
    covered = dict.fromkeys(LEVELS, 0)
    for seed in range(40):
        counts = drawn_counts(mechanism, nodes, 2000, seed)
        profile = Profile(mechanism, counts)
        for tau in LEVELS:
            low, high = quantile_interval(profile, tau, 0.95)
            covered[tau] += low <= float(np.quantile(values, tau)) <= high
    assert min(covered.values()) >= 33
