"""The hypothesis-testing region, compared with all subsets of codes and with the bound from privacy alone."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from arcwise.analysis.auditing.tradeoff import least_missed_detection, tradeoff, worst_tradeoff
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.kernels import Kernel, TableKernel, WindowKernel
from arcwise.kernels.rounding import nearest_rows
from arcwise.mechanisms import LaplaceMechanism, OptimalCircular, OptimalPiecewise, UniformAtomMechanism
from arcwise.tasks import Task

UNIT = 2**64


def random_table(seed: int, nodes: int, codes: int, zeros: float) -> TableKernel:
    generator = np.random.default_rng(seed)
    rows = generator.dirichlet(np.full(codes, 0.7), nodes) * (generator.random((nodes, codes)) >= zeros)
    return TableKernel(tuple(map(tuple, nearest_rows(rows / rows.sum(axis=1, keepdims=True)))))


def of_subsets(first: list[int], second: list[int]) -> list[tuple[Fraction, Fraction]]:
    """Return both errors of every deterministic test, one for each set of codes that reject the first."""
    return [
        (Fraction(sum(first[j] for j in chosen), UNIT), 1 - Fraction(sum(second[j] for j in chosen), UNIT))
        for size in range(len(first) + 1)
        for chosen in itertools.combinations(range(len(first)), size)
    ]


KERNELS = [
    random_table(3, 3, 7, 0.0),
    random_table(4, 3, 9, 0.3),
    random_table(5, 4, 6, 0.5),
    WindowKernel.fit(nodes=5, window=4, epsilon=0.83, circular=False),
    WindowKernel.fit(nodes=7, window=3, epsilon=2.7, circular=True),
]
WIDER = WindowKernel.fit(nodes=9, window=4, epsilon=2.7, circular=True)


@pytest.mark.parametrize("kernel", [*KERNELS, pytest.param(WIDER, marks=pytest.mark.slow)])
def test_region_is_the_convex_hull_of_all_subsets(kernel: Kernel) -> None:
    for s, t in itertools.permutations(range(kernel.nodes), 2):
        region = tradeoff(kernel, s, t)
        points = of_subsets(kernel.row(s), kernel.row(t))
        corners = list(zip(region.false_alarm, region.missed_detection, strict=True))
        assert set(corners) <= set(points)  # each corner is a test
        assert all(region.least_missed_detection(a) <= b for a, b in points)  # and no test lies below
        assert corners[0][0] == corners[-1][1] == 0
        assert corners[-1][0] == 1 or corners[-1][1] == 0
        slopes = [(d - b) / (c - a) for (a, b), (c, d) in itertools.pairwise(corners)]
        assert slopes == sorted(slopes)
        assert len(set(slopes)) == len(slopes)
        assert region.least_sum == min(a + b for a, b in points)


@pytest.mark.parametrize("kernel", KERNELS)
def test_worst_pair_has_the_least_sum_of_all_pairs(kernel: Kernel) -> None:
    worst = worst_tradeoff(kernel)
    sums = {
        (s, t): tradeoff(kernel, s, t).least_sum for s, t in itertools.permutations(range(kernel.nodes), 2)
    }
    assert worst.least_sum == min(sums.values()) == sums[worst.inputs]  # type: ignore[index]


@pytest.mark.parametrize("epsilon", [0.37, 2.9])
def test_no_test_beats_the_privacy(epsilon: float) -> None:
    for mechanism in (
        OptimalPiecewise(Interval(-3, 11), epsilon, nodes=12),
        OptimalPiecewise(Interval(-3, 11), epsilon, placement="clamp", nodes=12),
        OptimalCircular(Circle(24), epsilon),
        LaplaceMechanism(Interval(-3, 11), epsilon, nodes=6),
    ):
        region = worst_tradeoff(mechanism)
        assert region.inputs[0] != region.inputs[1]
        assert tradeoff(mechanism, *region.inputs) == region
        for a, b in zip(region.false_alarm, region.missed_detection, strict=True):
            assert b >= least_missed_detection(float(a), epsilon) - 1e-12
        assert region.delta(epsilon) <= 1e-12


def test_delta_of_the_worst_pair_is_the_certificates() -> None:
    mechanism = UniformAtomMechanism(Interval(0, 5), delta=0.23, nodes=7)
    region = worst_tradeoff(mechanism)
    assert region.delta(0.0) == pytest.approx(mechanism.certificate().delta / UNIT, abs=1e-15)
    assert least_missed_detection(0.1, 0.0, 0.23) == pytest.approx(0.67)


def test_values_between_nodes_mix_their_rows() -> None:
    task = Task("t", Interval(0, 10), epsilon=1.3, mechanism=OptimalPiecewise(Interval(0, 10), 1.3, nodes=11))
    region = tradeoff(task, 2.25, 9)
    kernel = task.mechanism.kernel
    rows = [[(3 * v + w) / 4 for v, w in zip(kernel.row(2), kernel.row(3), strict=True)], kernel.row(9)]
    least = sum(min(v, w) for v, w in zip(*rows, strict=True)) / UNIT
    assert float(region.least_sum) == pytest.approx(least, rel=1e-14)


def test_line_between_corners_and_the_bound_alone() -> None:
    region = tradeoff(TableKernel(((UNIT // 4 * 3, UNIT // 4), (UNIT // 4, UNIT // 4 * 3))), 0, 1)
    assert region.least_missed_detection(Fraction(1, 8)) == Fraction(5, 8)
    assert region.least_missed_detection(1.0) == 0
    for a in (0.0, 0.1, 0.25, 0.6, 1.0):
        assert float(region.least_missed_detection(a)) == pytest.approx(
            least_missed_detection(a, math.log(3))
        )


def test_arguments() -> None:
    with pytest.raises(ParameterError, match="Mechanism, a Task or a Kernel"):
        worst_tradeoff("laplace")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="false_alarm"):
        least_missed_detection(1.5, 1.0)
    with pytest.raises(ParameterError, match="from 0 to 4"):
        tradeoff(KERNELS[3], 0, 5)
    with pytest.raises(ParameterError, match="nodes"):
        worst_tradeoff(WindowKernel.fit(nodes=2000, window=30, epsilon=1.0, circular=False))
