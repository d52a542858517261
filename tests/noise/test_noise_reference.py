"""Every reference number for noise, which the reference computes with 50 digits from the definitions.

Arguments that the reference found by a search are compared by the values that they reach.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arcwise.noise import (
    AnalyticGaussian,
    BoxStaircase,
    DiscreteStaircase,
    Geometric,
    IndependentLaplace,
    Laplace,
    Staircase,
    TruncatedLaplace,
    UniformAtom,
    heuristic_gamma,
)

REFERENCE: dict[str, Any] = json.loads((Path(__file__).parent / "reference_noise.json").read_text())


def close(expected: float) -> Any:
    return pytest.approx(expected, rel=1e-12)


def agrees(computed: dict[str, float], entry: dict[str, float]) -> None:
    assert set(computed) == set(entry)
    for name, expected in entry.items():
        assert computed[name] == close(expected), name


@pytest.mark.parametrize("epsilon", REFERENCE["staircase"])
def test_staircase(epsilon: str) -> None:
    least_abs, least_square = (Staircase.optimal(float(epsilon), power=power) for power in (1, 2))
    laplace = Laplace(float(epsilon))
    agrees(
        {
            "gamma_L1": least_abs.gamma,
            "E_abs_L1": least_abs.abs_moment(1),
            "E_sq_at_gamma_L1": least_abs.var(),
            "gamma_L2": least_square.gamma,
            "E_sq_L2": least_square.var(),
            "E_abs_at_gamma_L2": least_square.abs_moment(1),
            "laplace_over_staircase_L1": laplace.abs_moment(1) / least_abs.abs_moment(1),
            "laplace_over_staircase_L2": laplace.var() / least_square.var(),
            "gamma_heuristic": heuristic_gamma(float(epsilon)),
        },
        REFERENCE["staircase"][epsilon],
    )


@pytest.mark.parametrize("epsilon", REFERENCE["discrete_staircase"])
def test_discrete_staircase(epsilon: str) -> None:
    entries = dict(REFERENCE["discrete_staircase"][epsilon])
    geometric = Geometric(float(epsilon))
    agrees({"E_abs": geometric.abs_moment(1), "E_sq": geometric.var()}, entries.pop("geometric"))
    for sensitivity, entry in entries.items():
        least_abs, least_square = (
            DiscreteStaircase.optimal(float(epsilon), int(sensitivity), power=power) for power in (1, 2)
        )
        agrees(
            {
                "r_L1": least_abs.r,
                "E_abs": least_abs.abs_moment(1),
                "r_L2": least_square.r,
                "E_sq": least_square.var(),
            },
            entry,
        )


@pytest.mark.parametrize("delta", REFERENCE["zero_delta"])
@pytest.mark.parametrize("power", [1, 2, 3])
def test_zero_delta(delta: str, power: int) -> None:
    noise = UniformAtom.optimal(2 / 3 if delta == "2/3" else float(delta), power=power)
    agrees(
        {
            "alpha": noise.alpha,
            "cost": noise.abs_moment(power),
            "half_width": noise.half_support,
            "density": noise.density,
        },
        REFERENCE["zero_delta"][delta][f"p{power}"],
    )


@pytest.mark.parametrize("key", REFERENCE["truncated_laplace"])
def test_truncated_laplace(key: str) -> None:
    epsilon, delta = map(float, key.split(","))
    noise, gaussian = TruncatedLaplace(epsilon, delta), AnalyticGaussian(epsilon, delta)
    agrees(
        {
            "A": noise.half_support,
            "B": noise.peak,
            "E_abs": noise.abs_moment(1),
            "E_sq": noise.var(),
            "V1_low": noise.lower_bound(1),
            "V2_low": noise.lower_bound(2),
            "V1_low_over_upp": noise.lower_bound(1) / noise.abs_moment(1),
            "V2_low_over_upp": noise.lower_bound(2) / noise.var(),
            "sigma_analytic_gaussian": gaussian.sigma,
            "ratio_amp_tlap_gauss": noise.abs_moment(1) / gaussian.abs_moment(1),
            "ratio_pow_tlap_gauss": noise.var() / gaussian.var(),
        },
        REFERENCE["truncated_laplace"][key],
    )


SORIA = REFERENCE["soria_comas"]


@pytest.mark.parametrize("epsilon", SORIA["table1_minvar"])
def test_least_variance(epsilon: str) -> None:
    noise = Staircase.optimal(float(epsilon), power=2)
    agrees(
        {
            "d": noise.half_step,
            "var": noise.var(),
            "laplace_var": Laplace(float(epsilon)).var(),
            "M0": noise.peak,
        },
        SORIA["table1_minvar"][epsilon],
    )


@pytest.mark.parametrize("epsilon", SORIA["table2_ci95"])
def test_shortest_interval(epsilon: str) -> None:
    noise, laplace = Staircase.shortest_interval(float(epsilon), level=0.95), Laplace(float(epsilon))
    entry = dict(SORIA["table2_ci95"][epsilon])
    assert noise.half_step == pytest.approx(entry.pop("d"), abs=1e-7)
    low, high = noise.interval(0.95)
    agrees(
        {
            "half_width": noise.half_width(0.95),
            "size": high - low,
            "laplace_half_width": laplace.half_width(0.95),
            "laplace_size": 2 * laplace.half_width(0.95),
            "half_width_at_minvar_d": Staircase.optimal(float(epsilon), power=2).half_width(0.95),
        },
        entry,
    )


EXAMPLE = BoxStaircase(1.0, (1.0, 10.0), (0.1, 1.0))
LAPLACE = IndependentLaplace(1.0, (1.0, 10.0))


def test_example_of_two_attributes() -> None:
    entry = SORIA["example2"]
    np.testing.assert_allclose(EXAMPLE.var(), [entry["VarY1"], entry["VarY2"]], rtol=1e-12)
    np.testing.assert_allclose(LAPLACE.var(), entry["laplace_var"], rtol=1e-12)
    assert EXAMPLE.peak == close(entry["M_original_units"])
    assert EXAMPLE.pdf([0.0, 0.0]) == close(entry["M_original_units"])


@pytest.mark.parametrize("level", SORIA["table3_laplace"])
def test_regions_of_laplace(level: str) -> None:
    region = LAPLACE.confidence_region(float(level))
    agrees({"alpha": region.radius, "size": region.volume}, SORIA["table3_laplace"][level])


@pytest.mark.parametrize(("level", "printed"), [("0.99", 1790.2), ("0.95", 916.6), ("0.90", 611.2)])
def test_regions_of_boxes(level: str, printed: float) -> None:
    box = EXAMPLE.confidence_box(float(level))
    entry = SORIA["table4_box"][level]
    assert box.half_widths == (
        close(entry["h_total_halfwidth_scaled"]),
        close(10 * entry["h_total_halfwidth_scaled"]),
    )
    assert (box.half_widths[0] - 0.1) == close(entry["beta=h-0.1"])
    assert box.volume == close(entry["size_40h2"])
    assert box.volume == pytest.approx(printed, rel=1e-3)  # the paper rounds its half widths first


def test_gains_over_laplace_at_epsilon_ten() -> None:
    """Geng and Viswanath: "about 15-fold and 23-fold"."""
    laplace = Laplace(10.0)
    assert int(laplace.abs_moment(1) / Staircase.optimal(10.0).abs_moment(1) + 0.5) == 15
    assert int(laplace.var() / Staircase.optimal(10.0, power=2).var()) == 23
