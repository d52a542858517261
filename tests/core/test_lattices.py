"""Domains with a step: the value of a number, the node of a value, and the average of its reports."""

from __future__ import annotations

import inspect
import math
import pickle
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.domains import Circle, Domain, Interval
from arcwise.errors import DomainError, ParameterError, TaskError
from arcwise.kernels.certificate import UNIT
from arcwise.mechanisms import (
    DesignedCircular,
    DesignedTable,
    Duchi,
    Mechanism,
    OptimalCircular,
    OptimalPiecewise,
    Piecewise,
    RandomizedResponse,
    ThreeOutputs,
)
from arcwise.mechanisms.circular import CircularMechanism
from arcwise.mechanisms.registry import MECHANISMS, mechanism_from_fields, mechanism_to_fields
from arcwise.tasks import Task
from tests.support.fixed_draw import FixedDraw
from tests.support.strategies import LATTICE_EXAMPLES

if TYPE_CHECKING:
    from tests.support.strategies import Example

TOP = 2**64 - 1

# Each with its values as decimals, as people and files write them.
INTERVALS = [
    (Interval(0, 100, step=1), [str(k) for k in range(101)]),
    (Interval(0, 100, step=0.1), [f"{k // 10}.{k % 10}" for k in range(1001)]),
    (Interval(0, 5, step=0.05), [f"{5 * k / 100:.2f}" for k in range(101)]),
    (Interval(0, 51.15, step=0.05), [f"{5 * k / 100:.2f}" for k in range(1024)]),
    (Interval(-0.3, 0.3, step=0.1), ["-0.3", "-0.2", "-0.1", "0.0", "0.1", "0.2", "0.3"]),
    (Interval(0.7, 10.3, step=0.3), [f"{(7 + 3 * k) / 10:.1f}" for k in range(33)]),
    (Interval(1_700_000_000, 1_700_000_900, step=1), [str(1_700_000_000 + k) for k in range(901)]),
]
CIRCLES = [
    (Circle(360, step=10), [str(10 * k) for k in range(36)]),
    (Circle(24, step=1), [str(k) for k in range(24)]),
    (Circle(24, step=0.25), [f"{25 * k / 100:.2f}" for k in range(96)]),
    (Circle(7, step=1), [str(k) for k in range(7)]),
    (Circle(1, step=0.1), [f"{k / 10:.1f}" for k in range(10)]),
]
LATTICES = [(example, epsilon) for example in LATTICE_EXAMPLES for epsilon in (0.1, 1.0, 4.0)]


def nodes_of(mechanism: Mechanism, values: list[float]) -> list[int]:
    """Return the nodes of values from every function that gives one, for the least and the largest r."""
    nodes = [mechanism.node(value, 0) for value in values]
    assert [mechanism.node(value, TOP) for value in values] == nodes
    units = mechanism.domain.to_unit_many(values)
    assert (mechanism.positions(units) % mechanism.kernel.nodes).tolist() == nodes
    assert [mechanism.position(unit) for unit in units.tolist()] == nodes
    u = UNIT // 2 + 12345
    for r in (0, TOP):
        codes = mechanism.randomize_many(values, randomness=FixedDraw(r, u)).tolist()
        assert codes == [mechanism.kernel.sample(node, u) for node in nodes]
        for value, code in zip(values, codes, strict=True):
            assert mechanism.randomize(value, randomness=FixedDraw(r, u)) == code
    return nodes


@pytest.mark.parametrize(("domain", "decimals"), [*INTERVALS, *CIRCLES], ids=str)
def test_each_value_is_numbered_however_it_is_computed(domain: Domain, decimals: list[str]) -> None:
    low = domain.low if isinstance(domain, Interval) else 0.0
    assert domain.size == len(decimals)
    numbers = list(range(len(decimals)))
    step = domain.step
    assert step is not None
    sums = np.cumsum(np.full(len(decimals), step)) - step + low  # the worst that an app may do
    for values in (
        [float(text) for text in decimals],
        [low + k * step for k in numbers],
        [low + domain.length * k / (domain.length / step) for k in numbers],
        domain.values().tolist(),
        sums.tolist(),
    ):
        assert [domain.to_place(value) for value in values] == numbers
        assert domain.to_places(values).tolist() == numbers
        assert domain.to_places(np.array(values).reshape(-1, 1)).shape == (len(values), 1)
    assert domain.values() == pytest.approx([float(text) for text in decimals], rel=1e-15, abs=1e-15)


@pytest.mark.parametrize(("domain", "decimals"), INTERVALS, ids=str)
def test_each_value_of_an_interval_is_a_node_of_its_own(domain: Interval, decimals: list[str]) -> None:
    values = [float(text) for text in decimals]
    for mechanism in (OptimalPiecewise(domain, 1.0), Piecewise(domain, 2.0), RandomizedResponse(domain, 4.0)):
        assert nodes_of(mechanism, values) == list(range(len(values)))
        assert mechanism.node_places().tolist() == list(range(len(values)))


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.7, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize(("domain", "decimals"), CIRCLES, ids=str)
def test_each_value_of_a_circle_is_a_node_of_its_own(
    domain: Circle, decimals: list[str], epsilon: float
) -> None:
    mechanism = OptimalCircular(domain, epsilon)
    size, window = mechanism.kernel.codes, mechanism.kernel.window
    values = [float(text) for text in decimals]
    nodes = nodes_of(mechanism, values)
    assert nodes == [(k - window // 2) % size for k in range(size)]
    assert mechanism.node_places()[nodes].tolist() == list(range(size))
    assert nodes_of(mechanism, [value - 3 * domain.period for value in values]) == nodes
    assert math.gcd(size, window) == 1
    assert np.linalg.matrix_rank(mechanism.kernel.matrix()) == size


@pytest.mark.parametrize("size", [2, 3, 4, 21, 22, 101])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_clamp_centres_its_window_on_each_value_that_has_the_room(size: int, epsilon: float) -> None:
    domain = Interval(10, 10 + 3 * (size - 1), step=3)
    mechanism = OptimalPiecewise(domain, epsilon, placement="clamp")
    kernel = mechanism.kernel
    assert kernel.codes == size
    assert kernel.window % 2 == 1
    reach = kernel.window // 2
    nodes = nodes_of(mechanism, domain.values().tolist())
    assert nodes == [min(max(k - reach, 0), size - kernel.window) for k in range(size)]
    assert mechanism.node_places().tolist() == list(range(reach, size - reach))
    assert mechanism.values.tolist() == domain.values().tolist()


@pytest.mark.parametrize("case", LATTICES, ids=str)
def test_reports_average_to_the_value_exactly(case: tuple[Example, float]) -> None:
    """Over all codes, with the integers of the rows: no rounding to nodes is left."""
    mechanism = case[0].make(case[1])
    assert mechanism.lattice is not None
    domain, kernel = mechanism.domain, mechanism.kernel
    decoded = mechanism.values
    for place, value in enumerate(domain.values().tolist()):
        node = mechanism.place_node(float(place))
        assert node == int(node)
        weights = kernel.row(int(node))
        if isinstance(domain, Circle):
            turns = [
                w / UNIT * np.exp(2j * math.pi * x / domain.period)
                for w, x in zip(weights, decoded, strict=True)
            ]
            angle = np.angle(sum(turns) * np.exp(-2j * math.pi * value / domain.period))
            assert abs(angle) < 1e-12 / abs(sum(turns))
        elif mechanism.unbiased:
            mean = sum(w * Fraction(float(x)) for w, x in zip(weights, decoded, strict=True)) / UNIT
            assert float(mean) == pytest.approx(value, abs=1e-12 * max(1.0, float(np.abs(decoded).max())))
        if mechanism.placement != "clamp":
            assert mechanism.node_places()[int(node)] == place
            unit = mechanism.node_units(np.array([node]))
            assert domain.from_unit(unit % 1.0 if isinstance(domain, Circle) else unit).tolist() == [value]


# --- numbers that are no values ----------------------------------------------------------------------


@pytest.mark.parametrize("domain", [Interval(0, 10, step=0.5), Circle(10, step=0.5)], ids=str)
def test_a_number_between_two_values_is_refused(domain: Domain) -> None:
    message = r": it is between two steps: round it, or give the domain rounding="
    with pytest.raises(DomainError, match=f"^value must be in .* in steps of 0.5{message}"):
        domain.to_unit(2.6)
    with pytest.raises(
        DomainError, match=f"^values must be in .* in steps of 0.5; wrong at index 1{message}"
    ):
        domain.to_unit_many([1.0, 2.6])


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_tolerance_is_an_exact_part_of_a_step(sign: int) -> None:
    for domain in (Interval(0, 8, step=1), Circle(8, step=1)):
        inside, outside = 3 + sign * 2.0**-16, 3 + sign * (2.0**-16 + 2.0**-50)
        assert domain.to_place(inside) == domain.to_places([inside])[0] == 3.0
        with pytest.raises(DomainError, match="between two steps"):
            domain.to_place(outside)
        with pytest.raises(DomainError, match="between two steps"):
            domain.to_places([outside])


def test_nearest_takes_the_nearer_value_and_of_two_the_upper() -> None:
    for domain in (Interval(0, 10, step=2, rounding="nearest"), Circle(10, step=2, rounding="nearest")):
        numbers = {0.9: 0.0, 1.0: 1.0, 4.999: 2.0, 5.0: 3.0, 5.1: 3.0}
        assert [domain.to_place(value) for value in numbers] == list(numbers.values())
        assert domain.to_places(list(numbers)).tolist() == list(numbers.values())
    turned = Circle(10, step=2, rounding="nearest")
    assert [turned.to_place(value) for value in (9.1, -0.9, -1e-300)] == [0.0, 0.0, 0.0]
    assert turned.to_places([9.1, -0.9, -1e-300]).tolist() == [0.0, 0.0, 0.0]


def test_stochastic_goes_to_one_of_the_two_values_around_with_the_right_chance() -> None:
    for domain in (Interval(0, 10, step=1, rounding="stochastic"), Circle(11, step=1, rounding="stochastic")):
        mechanism = Task("x", domain, 1.0).mechanism
        below, above = (mechanism.node(value, 0) for value in (3, 4))
        ups = 2**53 // 4
        assert mechanism.node(3.25, (ups - 1) << 11) == above
        assert mechanism.node(3.25, ups << 11) == below
        assert {mechanism.node(3.0, r) for r in (0, 2**63, TOP)} == {below}
    last, first = (Task("x", Circle(11, step=1), 1.0).mechanism.node(value, 0) for value in (10, 0))
    assert (mechanism.node(10.5, TOP), mechanism.node(10.5, 0)) == (last, first)
    assert mechanism.node(-0.5, 0) == first
    nearest = Interval(0, 10, step=1, rounding="nearest")
    assert Task("x", nearest, 1.0).mechanism.node(3.25, 0) == 3


def test_the_ends_of_an_interval_take_the_noise_of_floats_and_nothing_more() -> None:
    domain = Interval(0, 0.3, step=0.1)
    assert 0.1 * 3 > 0.3
    assert domain.to_place(0.1 * 3) == domain.to_places([0.1 * 3])[0] == 3.0
    assert domain.to_place(-1e-9) == 0.0
    for value in (-1e-5, 0.30001, -1e308, 1e308):
        with pytest.raises(DomainError, match=r"value must be in .*: clip it"):
            domain.to_place(value)
        with pytest.raises(DomainError, match=r"values must be in .*: clip them"):
            domain.to_places([0.0, value])
    clipped = Interval(0, 0.3, clip=True, step=0.1)
    values = [-1e-5, 0.30001, -1e308, 1e308, 0.1]
    assert [clipped.to_place(value) for value in values] == [0.0, 3.0, 0.0, 3.0, 1.0]
    assert clipped.to_places(values).tolist() == [0.0, 3.0, 0.0, 3.0, 1.0]
    far = Interval(-1e308, 0, clip=True, step=1e308)
    assert far.to_place(1.7e308) == far.to_places([1.7e308])[0] == 1.0


@given(
    st.floats(-1e6, 1e6),
    st.integers(1, 2000),
    st.floats(1e-3, 1e3),
    st.sampled_from(["nearest", "stochastic"]),
    st.lists(st.floats(-0.2, 1.2), min_size=1),
)
def test_one_value_and_an_array_agree_to_the_bit(
    low: float, steps: int, step: float, rounding: Any, units: list[float]
) -> None:
    domains: list[Domain] = [
        Interval(low, low + steps * step, clip=True, step=step, rounding=rounding),
        Circle((steps + 1) * step, step=step, rounding=rounding),
    ]
    for domain in domains:
        values = [low + domain.length * unit for unit in units]
        many = domain.to_places(values)
        assert [domain.to_place(value) for value in values] == many.tolist()
        assert domain.size is not None
        assert ((many >= 0.0) & (many < domain.size)).all()
        assert [domain.to_unit(value) for value in values] == domain.to_unit_many(values).tolist()


# --- domains, mechanisms and tasks -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "rounding", "message"),
    [
        (0, "refuse", "step must be positive and finite"),
        (-1, "refuse", "step must be positive and finite"),
        (math.inf, "refuse", "step must be positive and finite"),
        (math.nan, "refuse", "step must be positive and finite"),
        ("1", "refuse", "step must be a real number"),
        (True, "refuse", "step must be a real number"),
        (7, "refuse", "step must divide the length of the domain, 100.0, into whole steps; got 7.0"),
        (0.999, "refuse", "step must divide"),
        (200, "refuse", "step must divide"),
        (1e-9, "refuse", r"step must be at least 2\*\*-32 of the largest bound, 100.0"),
        (1, "up", 'rounding must be one of "refuse", "nearest", "stochastic"; got \'up\''),
        (1, None, "rounding must be one of"),
        (1, ["nearest"], "rounding must be one of"),
        (None, "nearest", "rounding needs a step: give step, or leave rounding out; got 'nearest'"),
    ],
)
def test_what_is_no_lattice_is_refused(step: Any, rounding: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Interval(0, 100, step=step, rounding=rounding)
    with pytest.raises(ParameterError, match=message):
        Circle(100, step=step, rounding=rounding)


def test_a_lattice_has_at_least_two_values() -> None:
    assert Interval(0, 1, step=1).values().tolist() == [0.0, 1.0]
    assert Circle(2, step=1).values().tolist() == [0.0, 1.0]
    with pytest.raises(ParameterError, match="step must be small enough for 2 values"):
        Circle(1, step=1)
    with pytest.raises(
        ParameterError, match=r"domain must have a step, so that it has a list of values; got Circle\("
    ):
        Circle(1).values()
    assert Circle(1).size is None


def test_domains_of_another_step_are_other_domains() -> None:
    domain = Interval(0, 10, step=1)
    assert domain == Interval(0.0, 10.0, False, 1.0, "refuse") == pickle.loads(pickle.dumps(domain))
    assert domain not in (
        Interval(0, 10),
        Interval(0, 10, step=2),
        Interval(0, 10, step=1, rounding="nearest"),
    )
    assert repr(domain) == "Interval(low=0.0, high=10.0, clip=False, step=1.0, rounding='refuse')"
    assert repr(Interval(0, 10)) == "Interval(low=0.0, high=10.0, clip=False)"
    assert repr(Circle(7, 1)) == "Circle(period=7.0, step=1.0, rounding='refuse')"
    assert str(domain) == "[0, 10] in steps of 1"
    assert str(Circle(24, step=0.25)) == "[0, 24) modulo 24 in steps of 0.25"


@pytest.mark.parametrize("cls", [Duchi, ThreeOutputs])
def test_a_mechanism_without_a_lattice_form_says_so(cls: Any) -> None:
    message = f"{cls.__name__} must have 11 nodes on a lattice of 11 values, got [23]: .* leave out the step"
    with pytest.raises(ParameterError, match=message):
        cls(Interval(0, 10, step=1), 1.0)


def test_a_kernel_that_does_not_fit_the_lattice_is_refused() -> None:
    scores, hours = Interval(0, 10, step=1), Circle(24, step=1)
    for make in (
        lambda: OptimalPiecewise(scores, 1.0, nodes=33),
        lambda: OptimalPiecewise(scores, 1.0, placement="clamp", nodes=11),
        lambda: OptimalCircular(hours, 1.0, nodes=128),
        lambda: DesignedTable(scores, 1.1, [[3 * 2**62, 2**62], [2**62, 3 * 2**62]], [-0.5, 1.5]),
        lambda: DesignedCircular(hours, 0.7, [2**63, 2**62, 2**62]),
    ):
        with pytest.raises(ParameterError, match=r"nodes (must|out)"):
            make()
    fields = mechanism_to_fields(OptimalPiecewise(Interval(0, 10), 1.0))
    with pytest.raises(ParameterError, match="must have 11 nodes on a lattice of 11 values, got 128"):
        mechanism_from_fields(fields, scores, 1.0)


def test_a_lattice_of_more_than_1024_values_is_continuous() -> None:
    assert Task("x", Interval(0, 1023, step=1), 1.0).mechanism.kernel.nodes == 1024
    for domain in (Interval(0, 1024, step=1), Circle(1025, step=1)):
        mechanism = Task("x", domain, 1.0).mechanism
        assert (mechanism.lattice, mechanism.kernel.nodes, domain.size) == (None, 128, 1025)
        plain: Domain = Interval(0, 1024) if isinstance(domain, Interval) else Circle(1025)
        continuous = Task("x", plain, 1.0).mechanism
        for value in range(0, 1024, 31):
            assert mechanism.node(value, 2**62) == continuous.node(value, 2**62)
        with pytest.raises(DomainError, match="between two steps"):
            mechanism.randomize(3.5)
        with pytest.raises(ParameterError, match="domain must have a step and at most 1024 values, got "):
            mechanism.node_places()


def test_a_file_with_another_step_under_the_id_is_refused() -> None:
    data = Task("x", Interval(0, 20, step=0.5), 1.0).to_json()
    for domain in (
        data["domain"] | {"rounding": "nearest"},
        {key: value for key, value in data["domain"].items() if key != "step"},
        {key: value for key, value in data["domain"].items() if key not in {"step", "rounding"}},
        data["domain"] | {"step": 1.0},
        data["domain"] | {"step": None},
    ):
        with pytest.raises(TaskError):
            Task.from_json(data | {"domain": domain})


@pytest.mark.parametrize("values", [11, 101, 700])
@pytest.mark.parametrize("key", list(MECHANISMS), ids=lambda key: key[0])
def test_every_mechanism_has_a_node_for_each_value_or_says_what_to_do(
    key: tuple[str, int], values: int
) -> None:
    cls: Any = MECHANISMS[key]
    if cls in (DesignedTable, DesignedCircular):
        return  # any table that fits: `test_a_kernel_that_does_not_fit_the_lattice_is_refused`
    if values == 700 and key[0] in {"piecewise-transformation", "unbiased-optimal-piecewise", "hybrid"}:
        return  # tables of half a million weights, which no task takes
    circular = issubclass(cls, CircularMechanism)
    domain: Domain = Circle(values, step=1) if circular else Interval(0, values - 1, step=1)
    takes = inspect.signature(cls).parameters
    given = {name: value for name, value in (("epsilon", 1.0), ("delta", 1e-2)) if name in takes}
    try:
        mechanism = cls(domain, **given)
    except ParameterError as error:
        message = str(error)
    else:
        assert mechanism.kernel.nodes == mechanism.lattice.size == values
        return
    assert any(words in message for words in ("larger step", "leave out the step", "on a lattice")), message


def test_a_task_that_is_too_large_says_to_take_a_larger_step() -> None:
    domain = Interval(0, 399, step=1)
    rows = [[2**54 if code < 1024 else 0 for code in range(1024)]] * 400
    advice = "take fewer nodes or codes, or a larger step on a lattice"
    with pytest.raises(TaskError, match=rf"a task takes at most 1048576 bytes, got \d+: {advice}"):
        Task("x", domain, 1.0, mechanism=DesignedTable(domain, 1.0, rows, [0.5] * 1024))
