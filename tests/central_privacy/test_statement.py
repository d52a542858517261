"""The central certificate: independent figures, composition, groups, liars, and its words."""

import math
import tracemalloc
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import pytest

from arcwise.analysis import central, central_witness
from arcwise.analysis.central_privacy import inversion
from arcwise.analysis.central_privacy.inversion import log_positive_part, log_positive_part_below
from arcwise.digits import rounded_up
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.kernels import CirculantKernel, Kernel, TableKernel
from arcwise.kernels.certificate import UNIT
from arcwise.mechanisms import Hybrid, OptimalPiecewise, Piecewise, ThreeOutputs
from arcwise.tasks import CentralStatement, Task
from arcwise.typing import FloatArray
from benchmarks.speed.certificates import random_table
from tests.central_privacy.test_enumeration import Law, with_report
from tests.support.cases import mostly_slow


def inset(epsilon: float) -> Task:
    return Task(
        "share", Interval(0, 1), epsilon, mechanism=OptimalPiecewise(Interval(0, 1), epsilon, nodes=128)
    )


@pytest.mark.parametrize(
    ("epsilon", "n", "expected"),
    [
        (0.5, 10**4, 0.0231),
        (1, 10**4, 0.0519),
        (2, 10**4, 0.1325),
        (4, 10**4, 0.4830),
        (8, 10**4, 5.36),
        (0.5, 10**6, 0.00203),
        (1, 10**6, 0.00461),
        (2, 10**6, 0.0119),
        (4, 10**6, 0.0426),
        (8, 10**6, 0.377),
    ],
)
def test_figures_that_another_program_found(epsilon: float, n: int, expected: float) -> None:
    """The figures are from sums by FFT, which were too high by up to 0.4 %, besides their rounding."""
    found = central(inset(epsilon), n, delta=1e-8).epsilon
    assert expected * 0.993 < found < expected * 1.004


@pytest.mark.parametrize(("n", "epsilon"), [(10**3, 3.09), (10**4, 5.17), (10**5, 7.41), (10**6, 9.69)])
def test_the_largest_local_epsilon_for_a_central_one(n: int, epsilon: float) -> None:
    below, above = (central(inset(round(epsilon + step, 3)), n, delta=1e-8).epsilon for step in (-0.01, 0.02))
    assert below < 1 < above


def exact(values: list[float], weights: list[float], n: int) -> Fraction:
    """Return ``E[max(0, Z_1 + ... + Z_n)]`` by convolution in rational arithmetic."""
    atoms = [*zip(map(Fraction, values), map(Fraction, weights), strict=True)]
    atoms.append((Fraction(0), 1 - sum((weight for _, weight in atoms), Fraction(0))))
    law = {Fraction(0): Fraction(1)}
    for _ in range(n):
        grown: dict[Fraction, Fraction] = {}
        for (total, mass), (value, weight) in product(law.items(), atoms):
            grown[total + value] = grown.get(total + value, Fraction(0)) + mass * weight
        law = grown
    return sum((max(total, Fraction(0)) * mass for total, mass in law.items()), Fraction(0))


@pytest.mark.parametrize("n", [1, 2, 9, 40])
@pytest.mark.parametrize(
    ("values", "weights"),
    [
        ([1.5, -2.25], [0.25, 0.5]),
        pytest.param([8.0, -0.5, -3.0], [0.001, 0.9, 0.05], marks=pytest.mark.slow),
        ([0.5, -4.0], [2.0**-30, 0.25]),
        pytest.param([100.0, -1.0], [1e-6, 0.999], marks=pytest.mark.slow),
        ([1.0, -1.0], [0.5, 0.5]),
    ],
)
def test_a_positive_part_lies_between_its_bounds(values: list[float], weights: list[float], n: int) -> None:
    atoms = np.array(values), np.array(weights)
    found = exact(values, weights, n)
    truth = math.log(found.numerator) - math.log(found.denominator)
    above, below = log_positive_part(*atoms, n), log_positive_part_below(*atoms, n)
    assert below <= truth + 1e-11
    assert truth - 1e-11 <= above <= truth + 0.01


def laws(kernel: Kernel, others: tuple[int, ...]) -> list[Law]:
    """Return the law of the counts for every value of device 1."""
    law = reduce(with_report, map(kernel.row, others), {(0,) * kernel.codes: 1})
    return [with_report(law, kernel.row(own)) for own in range(kernel.nodes)]


QUARTER = UNIT // 4
SMALL = TableKernel(((2 * QUARTER, QUARTER, QUARTER), (QUARTER, QUARTER, 2 * QUARTER)))


@pytest.mark.parametrize("epsilon", mostly_slow([0.0, 0.3, 0.7, 1.1], every=3))
def test_two_releases_reveal_no_more_than_is_said(epsilon: float) -> None:
    """All inputs of all others in both releases, with fresh randomness: the product of two laws."""
    n, bound = 4, Fraction(math.exp(epsilon))
    up, down = bound.as_integer_ratio()
    said = Fraction(central(SMALL, n, epsilon=epsilon, releases=2).delta)
    pairs = [laws(SMALL, (0,) * zeros + (1,) * (n - 1 - zeros)) for zeros in range(n)]
    for one, two in product(pairs, repeat=2):
        for s, t in ((0, 1), (1, 0)):
            total = sum(
                max(0, down * one[s][a] * two[s][b] - up * one[t][a] * two[t][b])
                for a in one[s]
                for b in two[s]
            )
            assert Fraction(total, down * UNIT ** (2 * n)) <= said


@pytest.mark.parametrize("epsilon", [0.2, 0.7])
def test_two_reports_of_a_device_reveal_no_more_than_is_said(epsilon: float) -> None:
    n, bound = 5, Fraction(math.exp(epsilon))
    up, down = bound.as_integer_ratio()
    said = Fraction(central(SMALL, n, epsilon=epsilon, reports_each=2).delta)
    for zeros in range(n - 1):
        rest = (0,) * zeros + (1,) * (n - 2 - zeros)
        first, second = laws(SMALL, (0, *rest))[0], laws(SMALL, (1, *rest))[1]
        for one, other in ((first, second), (second, first)):
            total = sum(max(0, down * mass - up * other[counts]) for counts, mass in one.items())
            assert Fraction(total, down * UNIT**n) <= said


@pytest.mark.slow
def test_more_reports_and_fewer_releases_reveal_less() -> None:
    task = inset(2.5)
    by_n = [central(task, n, delta=1e-7).epsilon for n in (1, 10, 10**3, 10**5, 10**7)]
    assert by_n == sorted(by_n, reverse=True)
    assert by_n[0] == pytest.approx(2.5, rel=1e-9)
    by_releases = [central(task, 3000, delta=1e-7, releases=k).epsilon for k in (1, 2, 10, 100)]
    assert by_releases == sorted(by_releases)
    assert by_releases[-1] < 100 * by_releases[0] / 3


def test_liars_count_as_absent() -> None:
    task = inset(2.5)
    honest = central(task, 3001, delta=1e-7, honest=0.5)
    assert honest.epsilon == central(task, 1500, delta=1e-7).epsilon
    assert (honest.n, honest.honest) == (3001, 0.5)


@pytest.mark.parametrize(("each", "releases"), mostly_slow([(1, 1), (1, 7), (3, 7), (3, 1)], every=3))
def test_delta_of_the_epsilon_is_the_delta(releases: int, each: int) -> None:
    options = {"releases": releases, "reports_each": each}
    found = central(inset(1.5), 5000, delta=1e-9, **options)
    assert 0.9e-9 < central(inset(1.5), 5000, epsilon=found.epsilon, **options).delta < 1.00001e-9


def test_a_local_charge_is_never_exceeded() -> None:
    found = central(inset(0.5), 3, delta=1e-30, releases=4, reports_each=2)
    assert found.epsilon <= 0.5 * 8 * (1 + 1e-9)
    assert central(inset(0.5), 3, epsilon=4.0, releases=4, reports_each=2).delta == 0


@pytest.mark.parametrize(
    "task",
    [
        Task("mean", Interval(0, 1), 1.5, mechanism=ThreeOutputs(Interval(0, 1), 1.5)),
        Task("noise", Interval(0, 1), 1.5, mechanism=Piecewise(Interval(0, 1), 1.5)),
        Task("direction", Circle(360), 1.5),
        Task("whole", Interval(0, 10, step=1), 1.5),
    ],
)
def test_every_kind_of_task_has_a_certificate_above_its_witness(task: Task) -> None:
    found = central(task, 20_000, delta=1e-8)
    assert 0 < central_witness(task, 20_000, delta=1e-8) <= found.epsilon < 0.2
    assert f"{found.local:.4g} for each" in str(found)
    assert "20,000 reports" in str(found)


def test_a_kernel_with_a_delta_of_its_own_keeps_it() -> None:
    kernel = TableKernel(((UNIT - 1, 1, 0), (UNIT - 2**44, 2**44 - 2**20, 2**20)))
    assert central(kernel, 100, epsilon=1.0).delta >= 2.0**-44
    assert central(kernel, 100, delta=1e-15).epsilon == math.inf
    assert "inf" in str(central(kernel, 100, delta=1e-15))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"delta": 0.0}, "delta must be"),
        ({"delta": 1e-6, "epsilon": 1.0}, "either delta or epsilon"),
        ({}, "either delta or epsilon"),
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"delta": 1e-6, "honest": 0.0}, "honest must be"),
        ({"delta": 1e-6, "releases": 0}, "releases must be"),
        ({"delta": 1e-6, "reports_each": 11}, "reports_each must be an integer from 1 to 10"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, float], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        central(SMALL, 10, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [10**7, 10**12])
@pytest.mark.parametrize("releases", [1, 2, 10**6])
def test_many_reports_need_no_more_memory(n: int, releases: int) -> None:
    """With 10^12 reports and two releases, an earlier version asked for sums of 10^9 terms."""
    task = Task("age", Interval(0, 100), 2.0)
    tracemalloc.start()
    found = central(task, n, delta=1e-8, releases=releases).epsilon
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6
    assert 0 < found < 0.1 * math.sqrt(releases * 10**7 / n)


@pytest.mark.parametrize(("nodes", "codes"), [(4, 8), (2, 30_000), (50, 84)])
@pytest.mark.parametrize("releases", [1, 5, 647])
def test_the_work_is_bounded_for_tables_of_any_size(
    nodes: int, codes: int, releases: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work is counted in frequencies times values: 2^16 take about 2 ms. A wide table once needed 2^21."""
    work = []
    integral = inversion._integral

    def counted(values: FloatArray, *rest: Any) -> Any:
        found = integral(values, *rest)
        work.append(values.size * inversion._LAST * found.period / (found.deviation * 2 * math.pi))
        return found

    monkeypatch.setattr(inversion, "_integral", counted)
    kernel = random_table(np.random.default_rng(nodes), nodes, codes, 0.5)
    assert 0 < central(kernel, 10_000, delta=1e-6, releases=releases).epsilon < 0.5 * releases
    assert max(work) <= 2**16 * 1.01
    assert sum(work) <= 450 * 2**16


def test_a_witness_that_would_take_hours_is_refused() -> None:
    weights = [UNIT // 8192] * 8192
    weights[0], weights[1] = weights[0] + 2**50, weights[1] - 2**50
    with pytest.raises(ParameterError, match="8192 rows of 8192 codes are too many"):
        central_witness(CirculantKernel(tuple(weights)), 10**6, delta=1e-8)


def test_a_large_circulant_is_not_written_out() -> None:
    codes = 8192
    weights = [UNIT // codes] * codes
    weights[0], weights[1] = weights[0] + 2**50, weights[1] - 2**50
    tracemalloc.start()
    found = central(CirculantKernel(tuple(weights)), 10**6, delta=1e-8).epsilon
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6
    assert 0 < found < 1


def test_one_pair_of_laws_dominates_the_mechanisms_pairs_closely() -> None:
    """The figures are from a search through all pairs of nodes, which took up to 22 s."""
    hybrid = Hybrid(Interval(0, 1), 1.0).kernel
    assert central(hybrid, 10**4, delta=1e-8).epsilon == pytest.approx(0.0547, rel=2e-3)
    assert central(hybrid, 10**4, delta=1e-8, releases=30).epsilon <= 0.3453


def test_the_least_difference_of_two_rows_is_seen() -> None:
    """In floats, the logarithms of the two weights are equal."""
    least = TableKernel(((2**63 + 2**13, 2**63 - 2**13), (2**63, 2**63)))
    truth = Fraction(2**13, UNIT)
    assert Fraction(central(least, 1, epsilon=0.0).delta) >= truth
    found = central(least, 1, delta=1e-300**0.5, releases=30)
    assert 30 * truth <= Fraction(found.epsilon) < 10**-12
    assert Fraction(math.exp(found.local)) >= 1 + truth


def test_what_is_printed_is_not_below_what_is_found() -> None:
    assert rounded_up(1.0000004) == "1.00001"
    assert rounded_up(3 * 0.1) == "0.3"
    statement = CentralStatement(1.0000004, 1.2301e-8, 10_000)
    assert str(statement).startswith("epsilon = 1.00001, delta = 1.24e-08, ")
    assert "epsilon = 1.00001 per report" in Task("age", Interval(0, 100), 1.0000004).readers.popitem()[1]


def test_a_task_must_be_one() -> None:
    with pytest.raises(ParameterError, match="task must be a Task or a Kernel, got str"):
        central("age", 10, delta=1e-6)  # type: ignore[arg-type]
