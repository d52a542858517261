"""The study of accuracy: its cells and populations, its rivals, and its table.

Run the whole study with ``python -m benchmarks.studies.accuracy``.
"""

import numpy as np
import pytest
from scipy.optimize import minimize

from arcwise.analysis.simulate import as_population
from arcwise.domains import Circle, Interval
from arcwise.errors import MissingExtraError
from benchmarks.studies.accuracy import SURVEYS, cells_of, promise, promised_cells, survey, tables
from benchmarks.studies.accuracy_populations import CIRCLE, INTERVAL
from benchmarks.studies.accuracy_rivals import haar, hierarchy, histogram, numbers, on_simplex, oracle

RECORDS = ("arrival-delays", "departures", "wind")


def test_there_are_twenty_populations_of_each_domain_and_all_can_be_drawn() -> None:
    for populations, domain in ((INTERVAL, Interval(0, 1)), (CIRCLE, Circle(1))):
        assert len(populations) >= 20
        for name, line in populations.items():
            try:
                drawn = as_population(line, domain).draw(100, np.random.default_rng(1))
            except MissingExtraError:
                assert name in RECORDS
                continue
            assert ((drawn >= 0) & (drawn <= 1)).all()


def test_patterns_choose_cells() -> None:
    assert len(cells_of(["*"])) == 6 * len(SURVEYS) * (len(INTERVAL) + len(CIRCLE))
    assert [str(cell) for cell in cells_of(["circle/0.25/1e6/four-*"])] == [
        "circle/0.25/1e6/four-modes",
        "circle/0.25/1e6/four-unequal",
    ]
    assert not cells_of(["square/*"])
    assert len(set(promised_cells())) == 20 * 5 * 2


@pytest.mark.slow
def test_surveys_are_seeded_and_make_a_table() -> None:
    cells = cells_of(["interval/4/1e3/gap", "circle/4/1e3/gap"])
    made = {cell: [survey((cell, number), seed=1, nodes=None) for number in range(2)] for cell in cells}
    again = survey((cells[0], 1), seed=1, nodes=None)
    assert again.distances == made[cells[0]][1].distances
    lines = list(tables(made))
    assert sum("gap" in line for line in lines) == 4  # a row and a line of the summary for each
    assert "2 cells" in next(iter(promise(made)))
    assert any("of 2 cells are more than 1.15 times their best rival" in line for line in lines)


@pytest.mark.parametrize(("cells", "epsilon"), [(64, 0.5), (64, 4.0)])
def test_the_oracles_are_unbiased_with_the_variance_they_say(cells: int, epsilon: float) -> None:
    users = np.zeros(cells, dtype=np.int64)
    users[3] = 5000
    generator = np.random.default_rng(1)
    answers = [oracle(users, epsilon, generator) for _ in range(400)]
    shares, variance = np.array([answer for answer, _ in answers]), answers[0][1]
    rare = np.delete(shares, 3, axis=1)
    # 400 x 63 numbers: five standard errors of their mean and of their variance.
    assert abs(rare.mean()) < 5 * np.sqrt(variance / 400)
    assert rare.var() == pytest.approx(variance, rel=0.1)
    assert shares[:, 3].mean() == pytest.approx(1.0, abs=5 * np.sqrt(variance / 100))


def test_the_nearest_probabilities() -> None:
    shares = np.array([0.9, 0.4, -0.2, 0.1])
    np.testing.assert_allclose(on_simplex(shares), [0.75, 0.25, 0.0, 0.0])


def test_rivals_find_who_is_there_at_a_large_epsilon() -> None:
    users = np.random.default_rng(1).multinomial(100_000, np.arange(1, 65) / (32 * 65))
    for rival in (histogram, hierarchy):
        shares = rival(users, 8.0, np.random.default_rng(2))
        assert shares.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(shares, users / 100_000, atol=0.004)
    values = np.repeat((np.arange(64) + 0.5) / 64, users)
    generator = np.random.default_rng(2)
    found = [numbers(values, 8.0, generator, square=square) for square in (True, False)]
    for shares in (haar(users, 8.0, generator), *(each.reshape(64, -1).sum(axis=1) for each in found)):
        assert np.abs(np.cumsum(shares - users / 100_000)).max() < 0.01


def test_a_hierarchy_is_the_non_negative_least_squares_of_its_levels() -> None:
    users = np.array([500, 0, 0, 0, 0, 0, 0, 0, 0, 0, 300, 0, 0, 0, 0, 200])
    shares = hierarchy(users, 2.0, np.random.default_rng(3))
    # The same reports, level by level, as the function draws them.
    generator, left = np.random.default_rng(3), users
    answers = []
    for level in range(2):
        here = generator.binomial(left, 1 / (2 - level))
        left = left - here
        answers.append(oracle(here.reshape(4 ** (level + 1), -1).sum(axis=1), 2.0, generator))

    def loss(x: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        return sum(
            float(((x.reshape(len(answer), -1).sum(axis=1) - answer) ** 2).sum() / variance)
            for answer, variance in answers
        )

    best = minimize(
        loss,
        np.full(16, 1 / 16),
        bounds=[(0, 1)] * 16,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
        method="SLSQP",
    )
    assert loss(shares) <= best.fun * (1 + 1e-6)
