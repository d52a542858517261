"""The certificate compared with the truth: every input of every device and every count, in integers."""

import math
from fractions import Fraction
from functools import reduce
from itertools import combinations_with_replacement, permutations

import numpy as np
import pytest

from arcwise.analysis.central_privacy.blanket import blanket_of
from arcwise.analysis.central_privacy.statement import central, central_witness
from arcwise.kernels import CirculantKernel, TableKernel, WindowKernel
from arcwise.kernels.base import Kernel
from arcwise.kernels.certificate import UNIT
from tests.support.cases import mostly_slow

Law = dict[tuple[int, ...], int]


def with_report(law: Law, row: list[int]) -> Law:
    """Return the law of counts after one more report, in units of ``2^(-64 n)``."""
    grown: Law = {}
    for counts, mass in law.items():
        for code, weight in enumerate(row):
            if weight:
                more = (*counts[:code], counts[code] + 1, *counts[code + 1 :])
                grown[more] = grown.get(more, 0) + mass * weight
    return grown


def true_deltas(kernel: Kernel, n: int, bounds: list[Fraction]) -> list[Fraction]:
    """Return the largest delta at every E over all values of the others and all value pairs of device 1."""
    rows = [kernel.row(node) for node in range(kernel.nodes)]
    largest = [0] * len(bounds)
    for others in combinations_with_replacement(range(kernel.nodes), n - 1):
        law = reduce(with_report, (rows[node] for node in others), {(0,) * kernel.codes: 1})
        laws = [with_report(law, row) for row in rows]
        for first, second in permutations(laws, 2):
            for place, bound in enumerate(bounds):
                up, down = bound.as_integer_ratio()
                total = sum(
                    max(0, down * mass - up * second.get(counts, 0)) for counts, mass in first.items()
                )
                largest[place] = max(largest[place], total)
    return [
        Fraction(total, bound.denominator * UNIT**n) for total, bound in zip(largest, bounds, strict=True)
    ]


def row(*parts: float) -> tuple[int, ...]:
    """Return integer weights in the given proportions."""
    weights = [int(UNIT * Fraction(part) / sum(map(Fraction, parts))) for part in parts]
    weights[0] += UNIT - sum(weights)
    return tuple(weights)


def window(nodes: int, width: int, ratio: float, *, circular: bool = False) -> WindowKernel:
    return WindowKernel.fit(nodes=nodes, window=width, epsilon=math.log(ratio), circular=circular)


RANDOM = np.random.default_rng(20261122)


def table(nodes: int, codes: int, spread: float) -> TableKernel:
    return TableKernel(
        tuple(row(*np.exp(spread * RANDOM.normal(size=codes)).round(6).tolist()) for _ in range(nodes))
    )


EVEN = UNIT // 20 * 2

KERNELS: list[tuple[Kernel, int]] = [
    *[(window(4, 1, ratio, circular=True), 6) for ratio in (1.5, 5, 60)],
    *[(window(5, 2, ratio, circular=True), 5) for ratio in (1.2, 3, 12)],
    *[(window(5, 3, ratio, circular=True), 5) for ratio in (3, 9)],
    *[(window(3, 1, ratio), 8) for ratio in (4, 20)],
    *[(window(3, 2, ratio), 7) for ratio in (2, 7)],
    *[(window(2, 3, ratio), 8) for ratio in (2, 30)],
    (window(4, 2, 3), 6),
    (WindowKernel(5, 5, 2, EVEN, (UNIT - 5 * EVEN - 4) // 2, circular=True), 4),  # four units left over
    *[
        (table(2, codes, spread), n)
        for codes, spread, n in ((2, 1.0, 8), (3, 0.5, 7), (4, 2.0, 6), (5, 1.0, 5))
    ],
    *[
        (table(3, codes, spread), n)
        for codes, spread, n in ((2, 2.0, 8), (3, 1.0, 6), (4, 0.7, 5), (6, 1.0, 4))
    ],
    *[(table(4, codes, spread), n) for codes, spread, n in ((3, 1.5, 5), (4, 0.4, 4))],
    (CirculantKernel(row(4, 2, 1, 1)), 5),
    (CirculantKernel(row(9, 3, 1, 3)), 4),
    (CirculantKernel(row(5, 1, 1, 1, 2)), 4),
    (TableKernel((row(3, 1, 1), row(1, 1, 3))), 8),
    # Codes that one input never gives, and codes without a blanket.
    (TableKernel((row(8, 2, 0), row(0, 2, 8))), 6),
    (TableKernel((row(90, 9, 1, 0), row(9, 90, 1, 0), row(9, 45, 45, 1))), 5),
    (CirculantKernel(row(20, 5, 0, 5)), 4),
    (TableKernel((row(1000, 500, 1, 0), row(500, 1000, 0, 1))), 6),
]
"""More than thirty kernels of all kinds, each with the most reports that are quick to enumerate."""

EPSILONS = [0.0, 0.1, 0.4, 0.9, 1.6]


def check(kernel: Kernel, n: int) -> None:
    """Check at several epsilons that the bound is above the truth and the witness below it."""
    bounds = [Fraction(math.exp(epsilon)) for epsilon in EPSILONS]
    for epsilon, truth in zip(EPSILONS, true_deltas(kernel, n, bounds), strict=True):
        above = central(kernel, n, epsilon=epsilon).delta
        assert truth <= Fraction(above), (epsilon, float(truth), above)
        dominating = blanket_of(kernel).log_delta(epsilon, n, 0)  # without looking at pairs
        assert truth <= Fraction(math.exp(dominating)) * (1 + Fraction(1, 10**12)), (epsilon, dominating)
        below = central_witness(kernel, n, epsilon=epsilon)
        assert Fraction(below) <= truth * (1 + Fraction(1, 10**12)), (epsilon, float(truth), below)


@pytest.mark.parametrize("place", mostly_slow(range(len(KERNELS)), every=3))
def test_no_data_set_of_a_few_devices_exceeds_the_certificate(place: int) -> None:
    kernel, n = KERNELS[place]
    for reports in range(1, min(n, 3)):
        check(kernel, reports)


@pytest.mark.slow
@pytest.mark.parametrize("place", range(len(KERNELS)))
def test_no_data_set_exceeds_the_certificate(place: int) -> None:
    check(*KERNELS[place])
