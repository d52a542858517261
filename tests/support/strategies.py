"""The one place for examples and Hypothesis strategies: domains, epsilons, mechanisms, values, tasks.

`EXAMPLES` holds, for every mechanism of the registry, ways to make it. `core/test_contract` runs over all of
them and fails for a registered mechanism without an example.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from hypothesis import strategies as st

from arcwise.domains import Circle, Domain, Interval
from arcwise.kernels.rounding import integer_row, integer_rows
from arcwise.mechanisms import (
    BoundedLaplaceMechanism,
    DesignedCircular,
    DesignedTable,
    DiscreteStaircaseMechanism,
    Duchi,
    GaussianMechanism,
    GeometricMechanism,
    Hybrid,
    LaplaceMechanism,
    Mechanism,
    OptimalCircular,
    OptimalPiecewise,
    Piecewise,
    PiecewiseOpt,
    PiecewiseSub,
    PiecewiseTransformation,
    Purkayastha,
    RandomizedResponse,
    SquareWave,
    StaircaseMechanism,
    ThreeOutputs,
    TruncatedLaplaceMechanism,
    TruncatedPiecewise,
    UnbiasedOptimalPiecewise,
    UniformAtomMechanism,
    VonMises,
)
from arcwise.mechanisms.closed_forms.piecewise import least_half_range
from arcwise.tasks import DAY, Caps, CentralStatement, Task

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.typing import FloatArray


HEIGHT = Interval(-20.0, 180.0)
HEADING = Circle(360.0)
SCORES = Interval(-2.0, 8.0, step=0.5)
HOURS = Circle(24.0, step=1.0)


WindowMechanisms: TypeAlias = OptimalPiecewise | OptimalCircular


class WindowExample(NamedTuple):
    """One window mechanism in one placement, at any epsilon and number of nodes."""

    label: str
    make: Callable[[float, int], WindowMechanisms]

    def __repr__(self) -> str:
        return self.label


WINDOW_EXAMPLES = [
    WindowExample("inset", lambda epsilon, nodes: OptimalPiecewise(HEIGHT, epsilon, nodes=nodes)),
    WindowExample(
        "clamp", lambda epsilon, nodes: OptimalPiecewise(HEIGHT, epsilon, placement="clamp", nodes=nodes)
    ),
    WindowExample("wrap", lambda epsilon, nodes: OptimalCircular(HEADING, epsilon, nodes=nodes)),
]
"""The optimal 3-piece mechanism in its three placements, for tests about windows."""


class Example(NamedTuple):
    """One mechanism of the registry with some parameters, at any epsilon."""

    label: str
    make: Callable[[float], Mechanism]

    def __repr__(self) -> str:
        return self.label


def _designed_table(epsilon: float) -> Mechanism:
    """Return some table: three nodes, four codes, and in every row the same levels in another order."""
    levels = np.exp(epsilon * np.array([1.0, 0.0, 0.5, 0.1]))
    rows = np.array([levels, levels[[1, 0, 3, 2]], levels[[3, 2, 1, 0]]]) / levels.sum()
    return DesignedTable(HEIGHT, epsilon, integer_rows(rows, epsilon), (-0.5, 0.1, 0.6, 1.75))


def _designed_circular(epsilon: float) -> Mechanism:
    """Return a turned row that is not a window: three levels around the value, on seven nodes."""
    row = np.exp(epsilon * np.array([1.0, 0.5, 0.25, 0.0, 0.0, 0.25, 0.5]))
    return DesignedCircular(HEADING, epsilon, integer_row(row / row.sum(), epsilon))


def _lattice_table(epsilon: float) -> Mechanism:
    """Return some table on a lattice of three values."""
    domain = Interval(-1.0, 1.0, step=1.0, rounding="nearest")
    fields = _designed_table(epsilon).kernel_fields()
    return DesignedTable(domain, epsilon, fields[2], fields[3])


def _lattice_circular(epsilon: float) -> Mechanism:
    """Return a turned row on the days of a week."""
    fields = _designed_circular(epsilon).kernel_fields()
    return DesignedCircular(Circle(7.0, step=1.0, rounding="stochastic"), epsilon, fields[1])


def _made(label: str, cls: Any, domain: Domain, *others: float, **options: Any) -> Example:
    return Example(label, lambda epsilon: cls(domain, epsilon, *others, **options))


EXAMPLES: dict[tuple[str, int], tuple[Example, ...]] = {
    ("optimal-piecewise", 1): (
        _made("optimal-piecewise", OptimalPiecewise, HEIGHT),
        _made("clamp", OptimalPiecewise, HEIGHT, placement="clamp", nodes=33),
        _made("power 2", OptimalPiecewise, HEIGHT, nodes=33, power=2.0),
        _made("optimal-piecewise on a lattice", OptimalPiecewise, SCORES),
        _made("clamp on a lattice", OptimalPiecewise, SCORES, placement="clamp"),
    ),
    ("optimal-circular", 1): (
        _made("optimal-circular", OptimalCircular, HEADING),
        _made("circular power 2.5", OptimalCircular, HEADING, nodes=33, power=2.5),
        _made("optimal-circular on a lattice", OptimalCircular, HOURS),
        # At small epsilon it has a window of 32 of 75 codes, which has no middle code.
        _made("even window on a lattice", OptimalCircular, Circle(300.0, step=4.0), power=2.0),
    ),
    ("designed-table", 1): (
        Example("designed-table", _designed_table),
        Example("designed-table on a lattice", _lattice_table),
    ),
    ("designed-circular", 1): (
        Example("designed-circular", _designed_circular),
        Example("designed-circular on a lattice", _lattice_circular),
    ),
    ("laplace", 1): (
        _made("laplace", LaplaceMechanism, HEIGHT),
        _made("laplace in the domain", LaplaceMechanism, HEIGHT, nodes=21, reach=0),
        _made("laplace on a lattice", LaplaceMechanism, SCORES),
    ),
    ("bounded-laplace", 1): (
        _made("bounded-laplace", BoundedLaplaceMechanism, HEIGHT),
        _made("bounded-laplace on a lattice", BoundedLaplaceMechanism, SCORES),
    ),
    ("geometric", 1): (
        _made("geometric", GeometricMechanism, HEIGHT),
        _made("geometric on a lattice", GeometricMechanism, SCORES),
    ),
    ("staircase", 1): (
        _made("staircase", StaircaseMechanism, HEIGHT),
        _made("staircase power 2", StaircaseMechanism, HEIGHT, power=2.0, nodes=9),
        _made("staircase on a lattice", StaircaseMechanism, SCORES),
    ),
    ("discrete-staircase", 1): (
        _made("discrete-staircase", DiscreteStaircaseMechanism, HEIGHT),
        _made("discrete-staircase on a lattice", DiscreteStaircaseMechanism, SCORES),
    ),
    ("truncated-laplace", 1): (
        _made("truncated-laplace", TruncatedLaplaceMechanism, HEIGHT, 1e-3),
        _made("truncated-laplace clamped", TruncatedLaplaceMechanism, HEIGHT, 1e-2, nodes=10, reach=0.5),
        _made("truncated-laplace on a lattice", TruncatedLaplaceMechanism, SCORES, 1e-3),
    ),
    ("uniform-atom", 1): (
        # Its epsilon is always 0; a delta that grows replaces it.
        Example("uniform-atom", lambda epsilon: UniformAtomMechanism(HEIGHT, epsilon / (epsilon + 1.0))),
        Example(
            "uniform-atom on a lattice",
            lambda epsilon: UniformAtomMechanism(SCORES, epsilon / (epsilon + 1.0)),
        ),
    ),
    ("gaussian", 1): (
        _made("gaussian", GaussianMechanism, HEIGHT, 1e-5),
        _made("gaussian on a lattice", GaussianMechanism, SCORES, 1e-5),
    ),
    ("piecewise", 1): (
        _made("piecewise", Piecewise, HEIGHT),
        _made("piecewise on a lattice", Piecewise, SCORES),
    ),
    ("piecewise-sub", 1): (
        _made("piecewise-sub", PiecewiseSub, HEIGHT),
        _made("piecewise-sub on a lattice", PiecewiseSub, SCORES),
    ),
    ("piecewise-opt", 1): (
        _made("piecewise-opt", PiecewiseOpt, HEIGHT, nodes=20),
        _made("piecewise-opt on a lattice", PiecewiseOpt, SCORES),
    ),
    ("truncated-piecewise", 1): (
        _made("truncated-piecewise", TruncatedPiecewise, HEIGHT, nodes=20),
        _made("truncated-piecewise on a lattice", TruncatedPiecewise, SCORES),
    ),
    ("square-wave", 1): (
        _made("square-wave", SquareWave, HEIGHT),
        _made("square-wave on a lattice", SquareWave, SCORES),
    ),
    ("piecewise-transformation", 1): (
        _made("piecewise-transformation", PiecewiseTransformation, HEIGHT),
        Example(
            "transformation with margins",
            lambda epsilon: PiecewiseTransformation(
                HEIGHT, epsilon, s=3.0, half_range=1.3 * least_half_range(epsilon, 3.0), nodes=12
            ),
        ),
        _made("piecewise-transformation on a lattice", PiecewiseTransformation, SCORES),
    ),
    ("unbiased-optimal-piecewise", 1): (
        _made("unbiased-optimal-piecewise", UnbiasedOptimalPiecewise, HEIGHT, nodes=30),
        _made("unbiased-optimal-piecewise on a lattice", UnbiasedOptimalPiecewise, SCORES),
    ),
    ("duchi", 1): (
        _made("duchi", Duchi, HEIGHT),
        _made("duchi on a lattice", Duchi, Interval(0.0, 1.0, step=1.0)),
    ),
    ("three-outputs", 1): (_made("three-outputs", ThreeOutputs, HEIGHT),),
    ("hybrid", 1): (
        _made("hybrid", Hybrid, HEIGHT),
        _made("hybrid on few nodes", Hybrid, HEIGHT, nodes=9),
        _made("hybrid on a lattice", Hybrid, SCORES),
    ),
    ("randomized-response", 1): (
        _made("randomized-response", RandomizedResponse, HEIGHT),
        _made("randomized-response of 20", RandomizedResponse, HEIGHT, nodes=20),
        _made("randomized-response on a lattice", RandomizedResponse, SCORES),
    ),
    ("von-mises", 1): (
        _made("von-mises", VonMises, HEADING),
        _made("von-mises on a lattice", VonMises, HOURS),
    ),
    ("purkayastha", 1): (
        _made("purkayastha", Purkayastha, HEADING, nodes=45),
        _made("purkayastha on a lattice", Purkayastha, HOURS),
    ),
}
"""Ways to make every mechanism, by name and version as in the registry."""

LATTICE_EXAMPLES = [
    example
    for examples in EXAMPLES.values()
    for example in examples
    if example.label.endswith("on a lattice")
]
"""Mechanisms on a domain with a step: numbers that are not its values are refused."""

ALL_EXAMPLES = [
    example for examples in EXAMPLES.values() for example in examples if example not in LATTICE_EXAMPLES
]
"""Mechanisms on continuous domains."""

epsilons = st.floats(0.01, 20.0)

_bounds = st.floats(-1e6, 1e6)


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    """Return intervals of very different lengths and places, with and without clip."""
    low = draw(_bounds)
    length = draw(st.floats(1e-3, 1e6))
    return Interval(low, low + length, clip=draw(st.booleans()))


circles = st.builds(Circle, st.sampled_from([24.0, 360.0, 2 * 3.141592653589793]) | st.floats(1e-6, 1e6))


def domains() -> st.SearchStrategy[Domain]:
    """Return intervals and circles."""
    return intervals() | circles


def values_in(domain: Domain) -> st.SearchStrategy[float]:
    """Return values that the domain takes, including its ends; on a circle also many turns away."""
    if isinstance(domain, Interval):
        return st.floats(domain.low, domain.high) | st.sampled_from([domain.low, domain.high])
    turns = st.floats(allow_nan=False, allow_infinity=False)
    return turns | st.floats(0.0, domain.period) | st.sampled_from([0.0, -1e-300, domain.period])


def inner_values(mechanism: Mechanism, count: int) -> list[float]:
    """Return `count` values spread over the domain from one end to the other, including both ends."""
    low = mechanism.domain.low if isinstance(mechanism.domain, Interval) else 0.0
    return [low + move for move in moves(mechanism.domain, np.arange(count) / (count - 1))]


def moves(domain: Domain, units: FloatArray) -> list[float]:
    """Return fractions of the domain's length, rounded to whole steps of a lattice."""
    if domain.lattice is not None:
        units = np.rint(units * domain.lattice.steps) / domain.lattice.steps
    return [domain.length * unit for unit in units.tolist()]


@st.composite
def mechanisms(draw: st.DrawFn, domain: Domain | None = None, max_nodes: int = 300) -> WindowMechanisms:
    """Return optimal 3-piece mechanisms in every placement on `domain`, or on any domain."""
    domain = draw(domains()) if domain is None else domain
    epsilon = draw(epsilons)
    nodes = draw(st.integers(2, max_nodes))
    if isinstance(domain, Circle):
        return OptimalCircular(domain, epsilon, nodes=nodes)
    return OptimalPiecewise(domain, epsilon, placement=draw(st.sampled_from(["inset", "clamp"])), nodes=nodes)


@cache  # a new strategy object recomputes its characters
def texts(most: int) -> st.SearchStrategy[str]:
    """Return valid texts of a task with at most `most` characters; some are not in NFC."""

    def fits(text: str) -> bool:
        normal = unicodedata.normalize("NFC", text)
        return 1 <= len(normal) <= most and normal == normal.strip()

    printable = st.characters(categories=["L", "M", "N", "P", "S"]) | st.just(" ")
    return st.text(printable, min_size=1, max_size=min(most, 24)).filter(fits)


names = texts(64)


@st.composite
def caps(draw: st.DrawFn, epsilon: float) -> Caps:
    """Return caps that allow at least one report of `epsilon`."""
    cap = st.none() | st.floats(epsilon, 1e6)
    return Caps(draw(cap), draw(cap), draw(st.integers(1, 366 * DAY)))


@st.composite
def statements(draw: st.DrawFn) -> CentralStatement:
    """Return central statements with every assumption."""
    reports = draw(st.integers(1, 10**12))
    return CentralStatement(
        draw(st.floats(0, 1e6, exclude_min=True)),
        draw(st.floats(1e-200, 1, exclude_max=True)),
        reports,
        honest=draw(st.floats(0, 1, exclude_min=True)),
        reports_each=draw(st.integers(1, min(reports, 1000))),
        releases=draw(st.integers(1, 10**6)),
    )


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    """Return tasks of every kind, with every optional part."""
    mechanism = draw(mechanisms())
    epoch = draw(st.integers(1, 366 * DAY))
    central = draw(st.none() | statements())
    goals = (
        ["direction", "distribution"] if isinstance(mechanism.domain, Circle) else ["distribution", "value"]
    )
    return Task(
        draw(names),
        mechanism.domain,
        mechanism.epsilon,
        goal=draw(st.none() | st.sampled_from(goals)),
        mechanism=mechanism,
        epoch_seconds=epoch,
        caps=draw(st.none() | caps(mechanism.epsilon))
        if central is None
        else central.caps(mechanism.epsilon, draw(st.integers(epoch, 366 * DAY))),
        central=central,
        lateness_seconds=draw(st.none() | st.integers(0, 366 * DAY)),
        release=draw(st.sampled_from([None, "closed-epochs"])),
        description=draw(st.none() | texts(200)),
        unit=draw(st.none() | texts(20)),
    )


json_values: st.SearchStrategy[object] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["", "1", "-1", "wrap", "inset", "clamp", "interval", "circle", "window", 10**400]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def mutations(draw: st.DrawFn, data: bytes) -> bytes:
    """Return `data` with a few bytes changed, inserted, removed, or its end cut off."""
    mutated = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(mutated) - 1, 0)))
        action = draw(st.sampled_from(["set", "insert", "delete", "cut", "append"]))
        if action == "set" and mutated:
            mutated[at] = draw(st.integers(0, 255))
        elif action == "insert":
            mutated[at:at] = draw(st.binary(min_size=1, max_size=4))
        elif action == "delete":
            del mutated[at : at + draw(st.integers(1, 4))]
        elif action == "cut":
            del mutated[at:]
        else:
            mutated += draw(st.binary(min_size=1, max_size=4))
    return bytes(mutated)
