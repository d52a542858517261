"""The densities that the papers draw, beside a computation of their own from what the papers define."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, optimize

from tests.support.outcomes import numbers, outcome


@pytest.mark.parametrize(("column", "delta"), [(2, 0.01), (3, 0.1), (4, 0.3)])
def test_truncated_laplace_solves_the_two_equations_of_its_caption(column: int, delta: float) -> None:
    # B e^-|x| up to A: the mass is 1, that of the last sensitivity delta.
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
