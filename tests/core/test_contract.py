"""The contract of every registered mechanism: one suite over all of `strategies.EXAMPLES`.

No test here depends on a particular mechanism. Rows, ratios and delta are computed by brute force over the
integers; sampling is compared with the rows by an exact partition of the draws and by statistics; moments are
sums over rows.
"""

from __future__ import annotations

import copy
import math
import pickle
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from arcwise.domains import Circle, Interval
from arcwise.errors import CertificateError, DomainError, ParameterError, TaskError
from arcwise.kernels import WindowKernel
from arcwise.kernels.certificate import UNIT
from arcwise.mechanisms.registry import MECHANISMS, mechanism_from_fields, mechanism_to_fields
from arcwise.randomness import InsecureSeededRandomness
from arcwise.tasks import Task
from arcwise.wire import code_width
from tests.core.brute_force import distances, exp_bounds, largest_delta, largest_ratio, law
from tests.support.chances import chi_square
from tests.support.fixed_draw import FixedDraw, Untouchable
from tests.support.strategies import ALL_EXAMPLES, EXAMPLES, LATTICE_EXAMPLES, Example, inner_values, moves

if TYPE_CHECKING:
    from arcwise.mechanisms import Mechanism

EPSILONS = (0.1, 1.0, 8.0, 0.5, 2.0, 4.0)
"""The last three lie between the others; no mechanism behaves differently there."""

CASES = [
    pytest.param(
        (example, epsilon),
        id=f"{example}-{epsilon:g}",
        marks=[pytest.mark.slow] if place != number % 3 else [],
    )
    for number, example in enumerate((*ALL_EXAMPLES, *LATTICE_EXAMPLES))
    for place, epsilon in enumerate(EPSILONS)
]
"""One epsilon of each mechanism runs every time: in turn a small one, 1 and a large one."""


@cache
def made(example: Example, epsilon: float) -> Mechanism:
    """Return the mechanism of an example, made once because some take a while."""
    return example.make(epsilon)


@pytest.fixture(params=CASES)
def mechanism(request: pytest.FixtureRequest) -> Mechanism:
    return made(*request.param)


@pytest.fixture(params=[*ALL_EXAMPLES, *LATTICE_EXAMPLES], ids=repr)
def at_one(request: pytest.FixtureRequest) -> Mechanism:
    return made(request.param, 1.0)


def test_every_registered_mechanism_has_an_example() -> None:
    missing = set(MECHANISMS) - set(EXAMPLES)
    assert not missing, f"tests/support/strategies.py has no example of {sorted(missing)}"
    for key, examples in EXAMPLES.items():
        assert examples
        for example in examples:
            mechanism = made(example, 1.0)
            assert (mechanism.name, mechanism.version) == key
            assert type(mechanism) is MECHANISMS[key]
    labels = [example.label for example in (*ALL_EXAMPLES, *LATTICE_EXAMPLES)]
    assert len(set(labels)) == len(labels) == sum(map(len, EXAMPLES.values()))


# --- privacy -----------------------------------------------------------------------------------------


def test_rows_are_integers_that_sum_to_one(mechanism: Mechanism) -> None:
    kernel = mechanism.kernel
    assert 2 <= kernel.codes <= 65_536
    for node in range(kernel.nodes):
        row = kernel.row(node)
        assert len(row) == kernel.codes
        assert sum(row) == UNIT
        assert all(type(weight) is int and weight >= 0 for weight in row)
    for node in (-1, kernel.nodes):
        with pytest.raises(ParameterError, match=f"node must be from 0 to {kernel.nodes - 1}, got {node}"):
            kernel.row(node)
    matrix = kernel.matrix()
    for node in (0, kernel.nodes // 3, kernel.nodes - 1):
        assert matrix[node].tolist() == [weight / UNIT for weight in kernel.row(node)]


def test_the_certificate_holds_over_all_pairs_of_rows(mechanism: Mechanism) -> None:
    kernel = mechanism.kernel
    certificate = mechanism.certificate()
    ratio = largest_ratio(kernel)
    assert certificate.epsilon == mechanism.epsilon
    assert certificate.ratio == kernel.ratio() == ratio
    if mechanism.approximate:
        return
    assert certificate.delta == 0
    assert ratio is not None
    assert ratio <= exp_bounds(mechanism.epsilon)[0]
    assert certificate.spent_epsilon <= mechanism.epsilon * (1 + 1e-12)


def test_weights_are_large_enough_for_the_sampler_to_be_fair(mechanism: Mechanism) -> None:
    """No positive weight is below 2**31, so rounding changes each probability by at most 1e-9 of itself."""
    if mechanism.epsilon <= 8:
        rows = (mechanism.kernel.row(node) for node in range(mechanism.kernel.nodes))
        assert min(weight for row in rows for weight in row if weight) >= 2**31


def test_delta_is_exact(mechanism: Mechanism) -> None:
    """All pairs where that is quick; otherwise the pairs that are worst in floats, and some random pairs."""
    if not mechanism.approximate:
        return
    nodes = mechanism.kernel.nodes
    matrix = mechanism.kernel.matrix()
    growth = math.exp(mechanism.epsilon)
    in_floats = {
        (s, t): float(np.maximum(matrix[s] - growth * matrix[t], 0).sum())
        for s in range(nodes)
        for t in range(nodes)
    }
    worst = sorted(in_floats, key=in_floats.__getitem__, reverse=True)[:6]
    pairs = [*worst, (0, nodes - 1), (nodes - 1, 0), (0, 1), (nodes // 2, 0)]
    delta = mechanism.certificate().delta
    assert delta == largest_delta(mechanism.kernel, mechanism.epsilon, pairs)
    assert delta / UNIT == pytest.approx(in_floats[worst[0]], rel=1e-6, abs=1e-14)


def test_a_stronger_claim_has_no_certificate(mechanism: Mechanism) -> None:
    """The same integers at a smaller epsilon: pure mechanisms are refused, the others show a larger delta."""
    smaller = mechanism.epsilon * 0.9
    fields = mechanism_to_fields(mechanism)
    claimed = mechanism_from_fields(fields, mechanism.domain, smaller)
    if mechanism.approximate:
        assert claimed.certificate().delta >= mechanism.certificate().delta
        return
    if mechanism.certificate().spent_epsilon > smaller:
        with pytest.raises(
            CertificateError, match=r"largest ratio of weights is .*, more than e\^epsilon = "
        ):
            claimed.certificate()
        with pytest.raises(CertificateError):
            Task("x", mechanism.domain, smaller, mechanism=claimed)


# --- sampling ----------------------------------------------------------------------------------------


def test_sampling_realises_the_rows_exactly(mechanism: Mechanism) -> None:
    """If a kernel inverts its rows, code j has exactly ``row[j]`` draws, between two running sums.

    Both samplers get the first and the last draw of every code. Window kernels order their draws differently;
    `test_sampling` checks that.
    """
    if mechanism.kind == "window":
        return
    kernel = mechanism.kernel
    for node in {0, 1, kernel.nodes // 2, kernel.nodes - 1} | ({kernel.nodes} if kernel.circular else set()):
        turn = node if mechanism.kind == "circulant" else 0
        row = kernel.row(0 if mechanism.kind == "circulant" else node)
        draws, codes = [], []
        for code, (end, weight) in enumerate(zip(accumulate(row), row, strict=True)):
            if weight:
                draws += [end - weight, end - 1, end - weight + weight // 2]
                codes += [(code + turn) % kernel.codes] * 3
        assert [kernel.sample(node, u) for u in draws] == codes
        many = kernel.sample_many(np.full(len(draws), node, np.uint32), np.array(draws, np.uint64))
        assert many.dtype == kernel.code_dtype
        assert many.tolist() == codes


def test_scalar_and_array_calls_give_the_same_codes(mechanism: Mechanism) -> None:
    low = mechanism.domain.low if isinstance(mechanism.domain, Interval) else -3 * mechanism.domain.length
    units = np.random.default_rng(5).random(3000)
    values = low + np.array(moves(mechanism.domain, units))
    many = mechanism.randomize_many(values, randomness=InsecureSeededRandomness(5))
    one_by_one = InsecureSeededRandomness(5)
    assert many.tolist() == [mechanism.randomize(value, randomness=one_by_one) for value in values.tolist()]
    assert many.dtype.itemsize == code_width(mechanism.kernel.codes)
    grid = mechanism.randomize_many(values.reshape(30, 100), randomness=InsecureSeededRandomness(5))
    np.testing.assert_array_equal(grid.ravel(), many)


def test_codes_follow_the_rows(mechanism: Mechanism) -> None:
    """Chi-square at three values, with a false-alarm rate of 1e-7 each (under 1e-4 for all mechanisms)."""
    randomness = InsecureSeededRandomness(20_241)
    values = inner_values(mechanism, 1000)
    for value in (values[0], values[371], values[-2]):
        codes = mechanism.randomize_many(np.full(100_000, value), randomness=randomness)
        counts = np.bincount(codes, minlength=mechanism.kernel.codes)
        assert chi_square(counts, law(mechanism, value)) > 1e-7


def test_rounding_goes_up_exactly_with_the_fraction(mechanism: Mechanism) -> None:
    kernel = mechanism.kernel
    # In a window its first code, which names the node.
    u = kernel.inside_from if isinstance(kernel, WindowKernel) else UNIT // 3
    for value in inner_values(mechanism, 7):
        position = mechanism.position(mechanism.domain.to_unit(value))
        node, fraction = math.floor(position), position - math.floor(position)
        ups = math.ceil(fraction * 2**53)  # this many of the 2**53 values of r >> 11 round up
        for share, rounded in ((ups - 1, node + 1), (ups, node), (2**53 - 1, node), (0, node + (ups > 0))):
            for low_bits in (0, 2**11 - 1) if 0 <= share < 2**53 else ():  # r >> 11 drops them
                draw = FixedDraw((share << 11) | low_bits, u)
                code = kernel.sample(rounded, u)
                assert mechanism.randomize(value, randomness=draw) == code
                assert mechanism.randomize_many([value], randomness=draw).tolist() == [code]


# --- moments -----------------------------------------------------------------------------------------


def test_moments_are_sums_over_the_rows(mechanism: Mechanism) -> None:
    for value in inner_values(mechanism, 9)[:-1]:
        rows = law(mechanism, value)
        for power in (1.0, 2.0, 3.5):
            dense = math.fsum(rows * distances(mechanism, value) ** power)
            assert mechanism.expected_error(value, power) == pytest.approx(dense, rel=1e-9)
        mean = mechanism.mean(value)
        if isinstance(mechanism.domain, Interval):
            reach = float(np.abs(mechanism.values).max())
            assert mean == pytest.approx(math.fsum(rows * mechanism.values), abs=1e-12 * reach)
            if mechanism.unbiased:
                assert mean == pytest.approx(value, abs=1e-9 * mechanism.domain.length + 1e-12 * reach)
        else:
            turns = np.exp(2j * math.pi / mechanism.domain.period * (mechanism.values - mean))
            moment = complex(rows @ turns)
            assert abs(moment.imag) < 1e-12
            assert moment.real > 0
            # The attenuation is that of a node; rounding between nodes costs up to (pi/K)^2 / 2 more.
            rho = mechanism.attenuation()  # type: ignore[attr-defined]
            assert moment.real == pytest.approx(rho, rel=1e-9 + (math.pi / mechanism.kernel.nodes) ** 2)
        spread = math.fsum(rows * distances(mechanism, mean) ** 2)
        assert mechanism.variance(value) == pytest.approx(spread, rel=1e-9)
    many = mechanism.expected_errors(inner_values(mechanism, 9))
    assert many.tolist() == pytest.approx([mechanism.expected_error(v) for v in inner_values(mechanism, 9)])
    assert mechanism.expected_errors(np.zeros((2, 3))).shape == (2, 3)


def test_moments_are_what_reports_show(at_one: Mechanism) -> None:
    """6 standard errors: false-alarm rate 2e-9 for each of a few hundred comparisons."""
    randomness = InsecureSeededRandomness(31)
    for value in inner_values(at_one, 1000)[::333]:
        codes = at_one.randomize_many(np.full(100_000, value), randomness=randomness)
        errors = distances(at_one, value)[codes]
        standard = math.sqrt(at_one.expected_error(value, 2.0) / errors.size)
        assert abs(errors.mean() - at_one.expected_error(value)) < 6 * standard


# --- domains, tasks, copies --------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf, "1", None, True, 10**400])
def test_values_that_are_none_are_refused(at_one: Mechanism, bad: Any) -> None:
    with pytest.raises(DomainError):
        at_one.randomize(bad, randomness=Untouchable())
    with pytest.raises(DomainError):
        at_one.randomize_many([at_one.domain.from_unit(np.zeros(1))[0], bad], randomness=Untouchable())
    with pytest.raises(DomainError):
        at_one.expected_error(bad)


def test_values_outside_an_interval_are_refused(at_one: Mechanism) -> None:
    if isinstance(at_one.domain, Interval):
        least = 1e-9 if at_one.domain.step is None else 2.0**-15 * at_one.domain.step
        for bad in (at_one.domain.low - least, at_one.domain.high + 1):
            with pytest.raises(DomainError, match="value must be in"):
                at_one.randomize(bad, randomness=Untouchable())
            with pytest.raises(DomainError, match="values must be in"):
                at_one.randomize_many([at_one.domain.low, bad], randomness=Untouchable())
    codes = at_one.kernel.codes
    no_codes: list[Any] = [[-1], [codes], [0, codes], 2**70, [0.5], [0.0], [True], ["1"], ["x"], [None]]
    for each in no_codes:
        with pytest.raises(DomainError, match=rf"codes must be (integers )?in \[0, {codes}\), got"):
            at_one.decode(each)


def test_a_task_carries_it_whole(mechanism: Mechanism) -> None:
    task = Task("name", mechanism.domain, mechanism.epsilon, mechanism=mechanism)
    read = [
        Task.from_bytes(task.to_bytes()),
        Task.from_json(task.to_json()),
        pickle.loads(pickle.dumps(task)),
    ]
    for other in read:
        assert other.id == task.id
        assert type(other.mechanism) is type(mechanism)
        assert other.mechanism.kernel == mechanism.kernel
        assert other.mechanism.certificate() == mechanism.certificate()
        np.testing.assert_array_equal(other.mechanism.values, mechanism.values)
        assert other.mechanism.unbiased == mechanism.unbiased
        assert other.mechanism.placement == mechanism.placement
        draw = FixedDraw(12345 << 20, UNIT // 7)
        value = inner_values(mechanism, 10)[3]
        expected = mechanism.randomize(value, randomness=draw)
        assert other.mechanism.randomize(value, randomness=draw) == expected


def test_the_task_of_another_domain_is_refused(at_one: Mechanism) -> None:
    other: Any = Circle(24) if isinstance(at_one.domain, Interval) else Interval(0, 1)
    with pytest.raises(TaskError, match="mechanism must agree with the task"):
        Task("name", other, 1.0, goal="distribution", mechanism=at_one)
    with pytest.raises(ParameterError, match=r"domain must be (an Interval|a Circle), got"):
        mechanism_from_fields(mechanism_to_fields(at_one), other, 1.0)
    fields = mechanism_to_fields(at_one)
    for kernel in ([*fields[2], 0], fields[2][:-1], fields[2][:2], ["else", *fields[2][1:]]):
        with pytest.raises(ParameterError):
            mechanism_from_fields([*fields[:2], kernel], at_one.domain, 1.0)


def test_mechanisms_are_immutable_and_copy_by_their_integers(at_one: Mechanism) -> None:
    for name in ("epsilon", "kernel", "domain"):
        with pytest.raises(AttributeError, match=f"is immutable; cannot set '{name}'"):
            setattr(at_one, name, 3.0)
    with pytest.raises(AttributeError):
        at_one.kernel.codes = 7  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        at_one.values[0] = 0.0
    fields = mechanism_to_fields(at_one)
    made = mechanism_from_fields(fields, at_one.domain, at_one.epsilon)
    for other in (made, copy.copy(at_one), copy.deepcopy(at_one), pickle.loads(pickle.dumps(at_one))):
        assert other.kernel == at_one.kernel
        assert mechanism_to_fields(other) == fields
        assert repr(other) == repr(at_one)
    assert type(at_one).__name__ in repr(at_one)


def test_nodes_stand_where_values_become_them(at_one: Mechanism) -> None:
    """`node_units` is the inverse of `positions` for each value that has its own node."""
    units = np.linspace(0.25, 0.75, 41)
    if at_one.lattice is not None:  # a lattice may lack a node between its values
        units = np.rint(units * at_one.lattice.steps) / at_one.lattice.steps
    there = at_one.node_units(at_one.positions(units.copy()))
    gap = np.abs(there - units)
    if isinstance(at_one.domain, Circle):
        gap = np.minimum(gap % 1.0, 1.0 - gap % 1.0)
    np.testing.assert_allclose(gap, 0.0, atol=1e-12)


@pytest.mark.parametrize("r", [0, 1 << 40, 1 << 63, UNIT - 1])
def test_a_code_is_sampled_from_the_row_of_the_node_that_the_value_is_rounded_to(
    at_one: Mechanism, r: int
) -> None:
    for value in inner_values(at_one, 9):
        node = at_one.node(value, r)
        assert 0 <= node < at_one.kernel.nodes
        for u in (0, 3 << 61, UNIT - 1):
            code = at_one.randomize(value, randomness=FixedDraw(r, u))
            assert code == at_one.kernel.sample(node, u)
