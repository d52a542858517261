"""The samplers realise the integer rows: by an exact partition of the draws, and by statistics.

Statistical tests have fixed seeds and state their false-alarm rate: the share of seeds that would fail
although the code is right.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.domains import Circle, Interval
from arcwise.kernels import WindowKernel
from arcwise.kernels.certificate import UNIT
from arcwise.mechanisms import OptimalCircular, OptimalPiecewise, circle_expected_error
from arcwise.randomness import InsecureSeededRandomness, SystemRandomness
from tests.core.brute_force import law
from tests.support.chances import chi_square
from tests.support.strategies import (
    WINDOW_EXAMPLES,
    WindowExample,
    WindowMechanisms,
    inner_values,
    mechanisms,
    values_in,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.typing import FloatArray


# --- the exact law of the sampler ----------------------------------------------------------------


def stretches(kernel: WindowKernel, node: int) -> Iterator[tuple[int, int, int]]:
    """Yield ``(first u, last u, code)`` of every stretch of draws, as the design defines them."""
    k, w, b, g = kernel.codes, kernel.window, kernel.background, kernel.extra
    for code in range(k):
        yield code * b, (code + 1) * b - 1, code
    for i in range(w):
        yield k * b + i * g, k * b + (i + 1) * g - 1, (node + i) % k
    for code in range(UNIT - k * b - w * g):
        yield k * b + w * g + code, k * b + w * g + code, code


def with_leftover(nodes: int, window: int, leftover: int, *, circular: bool, background: int) -> WindowKernel:
    """Return a kernel with exactly this leftover and a background near the given one."""
    codes = nodes if circular else nodes + window - 1
    while (UNIT - leftover - codes * background) % window:
        background += 1
    extra = (UNIT - leftover - codes * background) // window
    kernel = WindowKernel(codes, nodes, window, background, extra, circular)
    assert kernel.leftover == leftover
    return kernel


EXACT_KERNELS = {
    **{
        f"{example.label}, epsilon {epsilon:g}": example.make(epsilon, 128).kernel
        for example in WINDOW_EXAMPLES
        for epsilon in (0.01, 1.0, 20.0)
    },
    "inset, 256 nodes": OptimalPiecewise(Interval(0, 1), 0.5, nodes=256).kernel,
    "no leftover, circle": WindowKernel(4, 4, 2, 2**61, 2**62, True),
    "no leftover, line": with_leftover(3, 2, 0, circular=False, background=2**60),
    "one background unit, no leftover": WindowKernel(2, 2, 1, 1, 2**64 - 2, True),
    "one background unit, one left over": WindowKernel(2, 2, 1, 1, 2**64 - 3, True),
    "one extra unit": WindowKernel(2, 2, 1, 2**63 - 1, 1, False),
    "one extra unit, wide window": WindowKernel(200, 100, 101, (2**64 - 101) // 200, 1, False),
    "all but one left over, circle": with_leftover(257, 3, 256, circular=True, background=2**50),
    "all but one left over, line": with_leftover(254, 3, 255, circular=False, background=2**54),
    "all but one left over, widest": with_leftover(65_536, 9, 65_535, circular=True, background=2**40),
    "window of all codes but one": with_leftover(65_536, 65_535, 1, circular=True, background=1),
}


# The two widest are slow.
@pytest.mark.parametrize(
    "label",
    [
        *list(EXACT_KERNELS)[:-2],
        *(pytest.param(each, marks=pytest.mark.slow) for each in list(EXACT_KERNELS)[-2:]),
    ],
)
def test_sampling_realises_the_rows_exactly(label: str) -> None:
    """Every draw in [0, 2**64) lies in one stretch; the stretches of a code add up to its weight.

    Inside a stretch the sampler divides by a constant, so the first and the last draw determine the code of
    all draws in it. Both samplers get both draws of every stretch.
    """
    kernel = EXACT_KERNELS[label]
    few = kernel.codes <= 512
    nodes = list(range(kernel.nodes)) if few else [0, 1, kernel.nodes // 2, kernel.nodes - 1]
    if kernel.circular:
        nodes.append(kernel.nodes)  # rounding up from the last node of a circle gives node 0
    for node in nodes:
        counts = [0] * kernel.codes
        draws, codes = [], []
        at = 0
        for first, last, code in stretches(kernel, node):
            assert first == at <= last
            at = last + 1
            counts[code] += last - first + 1
            draws += [first, last]
            codes += [code, code]
        assert at == UNIT
        assert counts == kernel.row(node % kernel.nodes)
        assert [kernel.sample(node, u) for u in draws] == codes
        many = kernel.sample_many(np.full(len(draws), node, np.uint32), np.array(draws, np.uint64))
        assert many.dtype == kernel.code_dtype
        np.testing.assert_array_equal(many, codes)


@given(mechanisms(), st.data())
def test_both_samplers_agree_on_any_draw(mechanism: WindowMechanisms, data: st.DataObject) -> None:
    kernel = mechanism.kernel
    edges = [0, kernel.inside_from, min(kernel.leftover_from, UNIT - 1), UNIT - 1]
    u = data.draw(st.lists(st.integers(0, UNIT - 1) | st.sampled_from(edges), max_size=20))
    top = kernel.nodes if kernel.circular else kernel.nodes - 1
    nodes = data.draw(st.lists(st.integers(0, top), min_size=len(u), max_size=len(u)))
    for dtype in (np.uint16, np.uint32, np.int64):
        many = kernel.sample_many(np.array(nodes, dtype), np.array(u, np.uint64))
        assert many.tolist() == [kernel.sample(node, draw) for node, draw in zip(nodes, u, strict=True)]


def test_code_dtype_is_the_narrowest() -> None:
    for codes, dtype in ((2, np.uint8), (256, np.uint8), (257, np.uint16), (65_536, np.uint16)):
        assert OptimalCircular(Circle(1), 1.0, nodes=codes).kernel.code_dtype == dtype


# --- from a value to a node ----------------------------------------------------------------------


def continuous_node(mechanism: WindowMechanisms, unit: float) -> float:
    """Return the real-valued node of a position, as the design defines it."""
    kernel = mechanism.kernel
    n, k, w = kernel.nodes, kernel.codes, kernel.window
    if mechanism.placement == "inset":
        return (n - 1) * unit
    if mechanism.placement == "clamp":
        return min(max(k * unit - w / 2, 0.0), float(k - w))
    return (k * unit - w / 2) % k


@given(mechanisms(), st.data())
def test_positions_follow_the_design(mechanism: WindowMechanisms, data: st.DataObject) -> None:
    value = data.draw(values_in(mechanism.domain))
    unit = mechanism.domain.to_unit(value)
    position = mechanism.position(unit)
    top = mechanism.kernel.nodes if mechanism.kernel.circular else mechanism.kernel.nodes - 1
    assert 0 <= position <= top
    assert not (mechanism.kernel.circular and position == top)
    gap = abs(position - continuous_node(mechanism, unit))
    assert min(gap, top - gap if mechanism.kernel.circular else gap) < 1e-9
    for shape in ((), (1,), (1, 1)):
        many = mechanism.positions(np.full(shape, unit))
        assert np.shape(many) == shape
        assert float(many.reshape(-1)[0]) == position


def test_a_value_just_before_the_turn_of_the_nodes_is_node_zero() -> None:
    """A tiny negative position plus K rounds to K, which is not a node."""
    mechanism = OptimalCircular(Circle(1), 1.0)
    window, codes = mechanism.kernel.window, mechanism.kernel.codes
    assert (window, codes) == (48, 128)
    unit = math.nextafter(24 / 128, 0.0)
    assert -1e-12 < codes * unit - 24 < 0
    assert mechanism.position(unit) == 0.0
    assert mechanism.positions(np.array([unit, 24 / 128])).tolist() == [0.0, 0.0]
    assert 127.99 < mechanism.position(24 / 128 - 1e-9) < 128


# --- scalar and array calls agree ------------------------------------------------------------------


def spread(mechanism: WindowMechanisms, count: int) -> FloatArray:
    """Return `count` values all over the domain; on a circle also many turns away."""
    units = np.random.default_rng(count).random(count)
    units[: min(2, count)] = (0.0, 1.0)[: min(2, count)]
    if isinstance(mechanism.domain, Interval):
        return np.minimum(mechanism.domain.from_unit(units), mechanism.domain.high)
    return mechanism.domain.from_unit(units * 9 - 4)


@pytest.mark.parametrize("example", WINDOW_EXAMPLES, ids=repr)
@pytest.mark.parametrize(
    ("epsilon", "nodes", "size"),
    [
        (1.0, 128, 0),
        (1.0, 128, 1),
        (0.5, 256, 2**14 - 1),
        (1.0, 128, 2**14),
        (4.0, 33, 2**14 + 1),
        (0.01, 128, 2**15 + 1),
    ],
)
def test_scalar_and_array_calls_give_the_same_codes(
    example: WindowExample, epsilon: float, nodes: int, size: int
) -> None:
    mechanism = example.make(epsilon, nodes)
    values = spread(mechanism, size)
    many = mechanism.randomize_many(values, randomness=InsecureSeededRandomness(size))
    one_by_one = InsecureSeededRandomness(size)
    expected = [mechanism.randomize(value, randomness=one_by_one) for value in values.tolist()]
    assert many.tolist() == expected
    assert many.dtype == mechanism.kernel.code_dtype


@pytest.mark.parametrize("example", WINDOW_EXAMPLES, ids=repr)
def test_arrays_of_any_shape_take_draws_in_c_order(example: WindowExample) -> None:
    mechanism = example.make(1.0, 128)
    base = spread(mechanism, 3 * 4 * 5)
    before = base.copy()
    flat = mechanism.randomize_many(base, randomness=InsecureSeededRandomness(7))
    np.testing.assert_array_equal(base, before)  # the input stays unchanged
    shapes: list[FloatArray] = [base.reshape(3, 4, 5), base.reshape(60, 1), base.reshape(1, 1, 60)]
    shapes.append(np.asfortranarray(base.reshape(12, 5)))
    shapes.append(np.repeat(base, 2).reshape(60, 2)[:, 0])  # not contiguous
    for values in shapes:
        codes = mechanism.randomize_many(values, randomness=InsecureSeededRandomness(7))
        assert codes.shape == values.shape
        np.testing.assert_array_equal(codes.ravel(), flat)
    as_list = mechanism.randomize_many(base.tolist(), randomness=InsecureSeededRandomness(7))
    np.testing.assert_array_equal(as_list, flat)
    scalar = mechanism.randomize_many(base[5], randomness=InsecureSeededRandomness(8))
    assert scalar.shape == ()
    assert int(scalar) == mechanism.randomize(float(base[5]), randomness=InsecureSeededRandomness(8))
    assert mechanism.randomize_many([]).tolist() == []
    for shape in ((0,), (0, 3), (2, 0)):
        codes = mechanism.randomize_many(np.zeros(shape))
        assert codes.shape == shape
        assert codes.dtype == np.uint8


# --- statistics ------------------------------------------------------------------------------------


def mixture(mechanism: WindowMechanisms, value: float) -> FloatArray:
    """Return the probabilities of the codes for a value; these tests compute its place among the nodes."""
    return law(mechanism, value, continuous_node(mechanism, mechanism.domain.to_unit(value)))


@pytest.mark.parametrize("example", WINDOW_EXAMPLES, ids=repr)
def test_the_chi_square_would_see_a_wrong_law(example: WindowExample) -> None:
    """A chi-square has power: it finds a law that is off by half a node, and one that is 10 % flatter."""
    mechanism = example.make(1.0, 128)
    value = inner_values(mechanism, 1000)[371]
    codes = mechanism.randomize_many(np.full(200_000, value), randomness=InsecureSeededRandomness(1))
    beside = value + mechanism.domain.length / mechanism.kernel.codes / 2
    counts = np.bincount(codes, minlength=mechanism.kernel.codes)
    assert chi_square(counts, mixture(mechanism, value)) > 1e-5
    assert chi_square(counts, mixture(mechanism, beside)) < 1e-5
    assert chi_square(counts, 0.9 * mixture(mechanism, value) + 0.1 / mechanism.kernel.codes) < 1e-5


@pytest.mark.parametrize("example", WINDOW_EXAMPLES, ids=repr)
def test_codes_from_the_operating_system_follow_the_rows(example: WindowExample) -> None:
    """The only tests without a seed: false-alarm rate 1e-6 in total, six p-values."""
    mechanism = example.make(1.0, 128)
    value = inner_values(mechanism, 1000)[371]
    probabilities = mixture(mechanism, value)
    randomness = SystemRandomness()
    single = [mechanism.randomize(value, randomness=randomness) for _ in range(20_000)]
    for codes in (mechanism.randomize_many(np.full(100_000, value)), single):
        counts = np.bincount(codes, minlength=mechanism.kernel.codes)
        assert chi_square(counts, probabilities) > 1e-6 / 6


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0, 20.0])
@pytest.mark.parametrize("nodes", [2, 3, 128, 256])
def test_inset_decoding_is_unbiased_exactly(epsilon: float, nodes: int) -> None:
    """Exact means of the integer rows, without sampling; at epsilon 0.01 decoded values reach 200."""
    mechanism = OptimalPiecewise(Interval(0, 1), epsilon, nodes=nodes)
    values = mechanism.values
    for node in range(nodes):
        mean = math.fsum(w / UNIT * v for w, v in zip(mechanism.kernel.row(node), values, strict=True))
        assert mean == pytest.approx(node / (nodes - 1), abs=1e-14 * float(np.abs(values).max()) * 10)


# --- decoding and expected error -------------------------------------------------------------------


def test_cells_decode_to_their_centres() -> None:
    clamp = OptimalPiecewise(Interval(-20, 180), 1.0, placement="clamp", nodes=5)
    circle = OptimalCircular(Circle(360), 1.0, nodes=4)
    k = clamp.kernel.codes
    np.testing.assert_allclose(clamp.values, [-20 + 200 * (j + 0.5) / k for j in range(k)])
    np.testing.assert_allclose(circle.values, [45, 135, 225, 315])
    assert not clamp.unbiased
    assert not circle.unbiased
    assert circle.decode(np.array([[0, 3]])).tolist() == [[45, 315]]
    assert float(circle.decode(2)) == 225


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 2.0, 3.0, 4.0])
def test_one_byte_codes_cost_less_than_one_percent(epsilon: float) -> None:
    grid = np.linspace(0, 1, 501).tolist()
    clamp = OptimalPiecewise(Interval(0, 1), epsilon, placement="clamp")
    circle = OptimalCircular(Circle(1), epsilon)
    assert clamp.kernel.codes <= 256
    assert circle.kernel.codes <= 256
    worst = max(clamp.expected_error(x) for x in grid)
    assert worst == pytest.approx(1 / (1 + math.exp(epsilon / 2)), rel=0.01)
    worst = max(circle.expected_error(x) for x in grid)
    assert worst == pytest.approx(circle_expected_error(epsilon), rel=0.01)
