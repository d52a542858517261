"""The reproductions of the four papers on additive noise, and densities from the papers' definitions."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, optimize

from arcwise.noise import AnalyticGaussian, DiscreteStaircase, Laplace, Staircase, TruncatedLaplace, optimal_r
from arcwise.papers.base import printed
from arcwise.papers.soria_comas_attributes import BOX, LAPLACE, SCALED, SENSITIVITIES
from tests.support.outcomes import numbers, outcome


def test_tolerance_follows_from_the_printed_digits() -> None:
    assert printed("", "1.92", 1.9249).agrees
    assert not printed("", "1.92", 1.9251).agrees
    assert printed("", "11.97", 11.9799, units=1.0).agrees
    assert not printed("", "23", 24.1, units=1.0).agrees
    assert printed("", "73.02", 73.02).deviation == 0.0


def test_every_printed_number_of_soria_comas_is_checked() -> None:
    printed_numbers = {"figure-2": 2, "figure-3": 1, "figure-6": 3, **{f"table-{n}": 6 for n in (1, 2, 3, 4)}}
    for name, count in printed_numbers.items():
        assert len(outcome(f"soria-comas-{name}").checks) == count


def test_table_3_and_4_exactly() -> None:
    # By 50-digit integration of the definitions, levels 0.99, 0.95, 0.90.
    exact = {
        ("table-3", 1): [73.02187274793194, 52.182509702296365, 42.78692186854172],
        ("table-3", 2): [10664.38779923033, 5446.028637660508, 3661.4413659693873],
        ("table-4", 2): [6.688547839911114, 4.787717484753619, 3.908395380052418],
        ("table-4", 4): [1789.4668882711849, 916.8895485526209, 611.0221778726034],
    }
    for (name, column), values in exact.items():
        np.testing.assert_allclose(numbers(f"soria-comas-{name}")[:, column], values, rtol=1e-11)
    errata = [check.published for check in outcome("soria-comas-table-4").checks if check.erratum]
    assert errata == [6.99, 3.90]


def test_laplace_noise_in_proportion_to_the_sensitivities_protects_the_example() -> None:
    def loss(noises: tuple[Laplace, ...]) -> float:
        return sum(math.log(n.pdf(0.0) / n.pdf(s)) for n, s in zip(noises, SENSITIVITIES, strict=True))

    assert loss(SCALED) == pytest.approx(1.0)
    assert loss((LAPLACE, LAPLACE)) == pytest.approx(1.0)
    # Its regions are 11 * 11 / (2 * 20) times smaller; the box-shaped noise still halves its variances.
    table = numbers("soria-comas-table-3")
    np.testing.assert_allclose(table[:, 2] / table[:, 3], 121.0 / 40.0)
    np.testing.assert_allclose(
        [n.var() / v for n, v in zip(SCALED, BOX.var(), strict=True)], 1.983239, rtol=1e-6
    )


def test_nothing_is_saved_where_the_interval_ends_on_a_whole_period() -> None:
    for k in (1, 2, 3, 6, 30):
        epsilon = math.log(20.0) / k
        widths = [Staircase(epsilon, 1.0, gamma).half_width(0.95) for gamma in (0.1, 0.4, 0.9)]
        np.testing.assert_allclose(widths, k, rtol=1e-9)
        assert Laplace(epsilon).half_width(0.95) == pytest.approx(k)
    assert Staircase.shortest_interval(2.0).half_width(0.95) < 0.86 * Laplace(2.0).half_width(0.95)


def test_the_marked_minima_are_the_least_of_their_curves() -> None:
    for name, d, least in (
        ("soria-comas-figure-2", 0.41673743492888243, 1.9181035312355252),
        ("soria-comas-figure-3", 0.9932629423561018, 5.986525884712203),
    ):
        curve = numbers(name, "curve")
        assert curve[:, 1].min() == pytest.approx(least, rel=1e-6)
        assert curve[curve[:, 1].argmin(), 0] == pytest.approx(d, abs=2e-3)
        assert (curve[:, 1] >= least * (1.0 - 1e-12)).all()


@pytest.mark.slow
def test_optimal_zero_delta_noise_is_never_beaten() -> None:
    table = numbers("zero-delta-cost")
    assert (table[:, 1:2] <= table[:, 2:4] * (1.0 + 1e-12)).all()
    assert (table[:, 4:5] <= table[:, 5:7] * (1.0 + 1e-12)).all()
    # The atom helps above delta = p / (p + 1), and only there.
    for column, knee in ((1, 0.5), (4, 2.0 / 3.0)):
        helps = table[:, column] < table[:, column + 1] * (1.0 - 1e-9)
        np.testing.assert_array_equal(helps, table[:, 0] > knee + 1e-12)


@pytest.mark.slow
def test_gaussian_noise_wins_somewhere_above_the_found_delta_and_nowhere_below() -> None:
    epsilons = np.geomspace(0.01, 20.0, 60)
    for power, even in ((1, 0.3948), (2, 0.4018)):
        assert f"{even:.4f}" in outcome("truncated-laplace-gaussian").findings[0]
        for delta, wins in ((even - 1e-3, False), (even + 1e-3, True)):
            ratios = [
                TruncatedLaplace(e, delta).abs_moment(power) / AnalyticGaussian(e, delta).abs_moment(power)
                for e in (*epsilons, *np.linspace(0.8, 2.5, 60))
            ]
            assert (max(ratios) > 1.0) is wins
    table = numbers("truncated-laplace-gaussian")
    assert (table[table[:, 0] < 0.39, 2:] < 1.0).all()


def test_lower_bounds_are_below_what_is_achieved() -> None:
    table = numbers("truncated-laplace-bounds")
    for column in (2, 6):
        low, upper, ratio, with_staircase = table[:, column : column + 4].T
        assert (low < upper).all()
        np.testing.assert_allclose(ratio, low / upper)
        assert (with_staircase >= ratio).all()
        assert (with_staircase < 1.0).all()


def test_gains_of_the_staircase_at_epsilon_10() -> None:
    last = numbers("staircase-gain")[-1]
    # By 50-digit integration of the definitions.
    np.testing.assert_allclose(last[:3], [10.0, 14.840642115557753, 23.60689300418911], rtol=1e-12)
    assert (last[3:] < 1.0).all()


def test_the_heuristic_loses_to_laplace_noise_at_large_epsilon() -> None:
    table = numbers("staircase-heuristic")
    far = table[table[:, 0] > 2.0]
    near = table[table[:, 0] < 1.0]
    assert (far[:, 3:5] > far[:, 5:7]).all()
    assert (near[:, 3:5] < near[:, 5:7]).all()
    assert Staircase.heuristic(30.0).abs_moment(1) == pytest.approx(1.0 / 3.0)
    assert Staircase.heuristic(30.0).abs_moment(2) == pytest.approx(2.0 / 9.0)


def test_gamma_falls_with_epsilon_and_stays_below_a_half() -> None:
    table = numbers("staircase-gamma")[:, 1:]
    assert (np.diff(table, axis=0) < 0.0).all()
    assert (table < 0.5).all()
    assert (np.diff(table[:, :3], axis=1) > 0.0).all()


def test_r_is_the_best_of_all_r() -> None:
    table = numbers("staircase-integers-r", "over-sensitivity")
    for epsilon, sensitivity, *found in table[::23, :4]:
        for power, r in zip((1, 2), found, strict=True):
            every = range(1, int(sensitivity) + 1)
            costs = [DiscreteStaircase(epsilon, int(sensitivity), k).abs_moment(power) for k in every]
            assert costs[int(r) - 1] == pytest.approx(min(costs), rel=1e-12)
    assert (table[:, 4:] >= 1.0 - 1e-12).all()
    over = numbers("staircase-integers-r", "over-epsilon")
    assert (over[:, 1] == 1).all()
    assert (np.diff(over, axis=0)[:, 1:] <= 0).all()
    assert over[0, -1] == optimal_r(over[0, 0], 20) == 10


def test_vectors_on_a_grid_cost_what_the_optimum_costs() -> None:
    table = numbers("soria-comas-vectors").reshape(4, 5, 9)
    assert table[:, :, 1].tolist() == [[1, 2, 4, 8, 16]] * 4
    assert (table[:, :, 6] <= 1.02).all()
    np.testing.assert_allclose(table[1, :, 7], [1.0, 2.0, 3.2, 4.3, 5.0], rtol=0.01)
    # At small epsilon the optimum is near (d + 1) (d + 2) / 3 times the squared scale, 1 / epsilon.
    np.testing.assert_allclose(table[0, 1:, 2] * 0.5**2, [4.0, 10.0, 30.0, 102.0], rtol=2e-3)
    assert not outcome("soria-comas-vectors").checks


# --- densities ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("column", "delta"), [(2, 0.01), (3, 0.1), (4, 0.3)])
def test_truncated_laplace_solves_the_two_equations_of_its_caption(column: int, delta: float) -> None:
    # B e^-|x| up to A: the mass is 1, and that of the last sensitivity is delta.
    def excess(found: np.ndarray) -> list[float]:
        a, b = found
        last, _ = integrate.quad(lambda x: b * math.exp(-x), a - 1.0, a)
        half, _ = integrate.quad(lambda x: b * math.exp(-x), 0.0, a)
        return [2.0 * half - 1.0, last - delta]

    a, b = optimize.fsolve(excess, [2.0, 0.55], xtol=1e-13)
    table = numbers("truncated-laplace-density")
    assert table[0, 0] < -a < a < table[-1, 0]  # the ends are on the picture
    expected = [b * math.exp(-abs(x)) if abs(x) <= a else 0.0 for x in table[:, 0]]
    np.testing.assert_allclose(table[:, column], expected, rtol=1e-9)


def test_figure_1_moves_the_mass_of_each_sensitivity_towards_0() -> None:
    table = numbers("soria-comas-figure-1")
    np.testing.assert_allclose(table[:, 1], 0.5 * np.exp(-np.abs(table[:, 0])), rtol=1e-12)
    for x, _, density in table:
        i = math.floor(abs(x))
        highest, lowest = 0.5 * math.exp(-i), 0.5 * math.exp(-i - 1)
        mass = integrate.quad(lambda t: 0.5 * math.exp(-t), i, i + 1)[0]
        part = (mass - lowest) / (highest - lowest)
        # The inner part of each interval has its largest density, the rest its smallest.
        assert density == pytest.approx(highest if abs(x) - i < part else lowest, rel=1e-12)


def test_areas_of_figures_4_and_5_by_counting_points() -> None:
    for _, first, second, scale, box, diamond, ratio in numbers("soria-comas-figures-4-5"):
        span = 1.1 * (first + second)
        middles = (np.arange(2_000) + 0.5) / 2_000 * span
        x, y = np.meshgrid(middles, middles)
        cell = 4.0 * (span / 2_000) ** 2
        high = np.exp(-x / scale) * np.exp(-y / scale) >= math.exp(-1.0)  # of the density at 0, epsilon 1
        differences = (x <= first) & (y <= second)
        assert high[differences].all()
        assert cell * high.sum() == pytest.approx(diamond, rel=2e-3)
        assert cell * differences.sum() == pytest.approx(box, rel=2e-3)
        assert ratio == pytest.approx(diamond / box)


def _error(half: float) -> float:
    """Return the circular E|y - x| of a window of this half width at epsilon 1, on a circle of length 1."""
    low = 1.0 / (1.0 + 2.0 * half * math.expm1(1.0))
    inside, _ = integrate.quad(lambda t: t * math.e * low, 0.0, half)
    outside, _ = integrate.quad(lambda t: t * low, half, 0.5)
    return 2.0 * float(inside + outside)


def test_opm_has_the_window_of_least_error() -> None:
    c = optimize.minimize_scalar(_error, bounds=(0.01, 0.49), method="bounded", options={"xatol": 1e-10}).x
    low = 1.0 / (1.0 + 2.0 * c * math.expm1(1.0))
    found: dict[tuple[str, float], list[list[float]]] = {}
    for domain, x, *piece in outcome("opm-density").tables[""].rows:
        found.setdefault((str(domain), float(x)), []).append([float(number) for number in piece])
    assert {domain for domain, _ in found} == {"interval", "circle"}
    for (domain, x), pieces in found.items():
        turn = 2.0 * math.pi if domain == "circle" else 1.0
        half = turn * c
        assert pieces[0][0] == 0.0
        assert pieces[-1][1] == pytest.approx(turn)
        assert all(before[1] == after[0] for before, after in pairwise(pieces))
        assert sum((end - start) * level for start, end, level in pieces) == pytest.approx(1.0, rel=1e-12)
        centre = min(max(x, half), 1.0 - half) if domain == "interval" else x
        for y in (np.arange(500) + 0.5) / 500 * turn:
            far = abs(y - centre) if domain == "interval" else min(abs(y - x), turn - abs(y - x))
            level = next(level for start, end, level in pieces if start <= y < end)
            expected = (math.e if far < half else 1.0) * low / turn
            assert level == pytest.approx(expected, rel=1e-6), (domain, x, y)
