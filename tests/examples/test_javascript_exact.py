"""The JavaScript client compared with this one: every mechanism, draw by draw."""

from __future__ import annotations

import json
import math
import random
import re
import subprocess
from typing import Any, Literal

import numpy as np
import pytest

from arcwise.domains import Circle, Domain, Interval
from arcwise.errors import CertificateError
from arcwise.kernels.certificate import certify
from arcwise.mechanisms import Mechanism, OptimalCircular, OptimalPiecewise
from arcwise.tasks import Task
from tests.support.fixed_draw import FixedDraw
from tests.support.nodejs import JAVASCRIPT, NODE, ask
from tests.support.strategies import ALL_EXAMPLES, LATTICE_EXAMPLES, Example, moves

TOP = 2**64 - 1


def compare(tasks: list[Task], draws: list[list[tuple[float, int, int]]]) -> None:
    """Assert that the JavaScript client gives the same nodes and codes for these draws as this client."""
    given = [
        {"bytes": task.to_bytes().hex(), "draws": [[value, str(r), str(u)] for value, r, u in of_task]}
        for task, of_task in zip(tasks, draws, strict=True)
    ]
    for task, of_task, theirs in zip(tasks, draws, ask("randomize", given), strict=True):
        mechanism = task.mechanism
        ours = [
            [mechanism.node(value, r), mechanism.randomize(value, randomness=FixedDraw(r, u))]
            for value, r, u in of_task
        ]
        assert theirs == ours, task


def thresholds(mechanism: Mechanism, value: float) -> tuple[int, int]:
    """Return the largest r that rounds a value up and the smallest that does not, within 64 bits."""
    position = mechanism.position(mechanism.domain.to_unit(value))
    first_down = math.ceil((position - math.floor(position)) * 2.0**53) * 2**11
    return max(first_down - 1, 0), min(first_down, TOP)


def is_pure(example: Example) -> bool:
    mechanism = example.make(1.0)
    try:
        certify(mechanism.kernel.ratio(), 1.0)
    except CertificateError:
        return False
    return True


def test_every_registered_mechanism_gives_the_same_codes() -> None:
    generator = random.Random(5)
    pure = [example for example in (*ALL_EXAMPLES, *LATTICE_EXAMPLES) if is_pure(example)]
    assert len(pure) >= 45
    tasks, draws = [], []
    for example in pure:
        mechanism = example.make(1.0)
        domain = mechanism.domain
        task = Task("t", domain, 1.0, mechanism=mechanism)
        low, high = (domain.low, domain.high) if isinstance(domain, Interval) else (-700.0, 1400.0)
        values = [low, high, *(generator.uniform(low, high) for _ in range(60))]
        if domain.lattice is not None:
            units = np.array([generator.random() for _ in range(60)])
            low = domain.low if isinstance(domain, Interval) else -5 * domain.period
            values = [low + move for move in moves(domain, units)]
        tasks.append(task)
        draws.append([(value, generator.getrandbits(64), generator.getrandbits(64)) for value in values])
    compare(tasks, draws)


def test_nodes_of_any_domain_are_the_same_to_the_last_bit() -> None:
    """Random bounds of all magnitudes; r is exactly at the threshold of rounding, to one unit."""
    generator = random.Random(6)

    def number() -> float:
        return generator.choice((-1, 1)) * generator.uniform(0.5, 1) * 2.0 ** generator.randint(-60, 60)

    tasks, draws = [], []
    for _ in range(150):
        domain: Domain
        mechanism: Mechanism
        if generator.random() < 0.5:
            low, high = sorted((number(), number()))
            domain = Interval(low, high, clip=True)
            values = [generator.uniform(low, high) for _ in range(8)] + [number(), number()]
            placement: Literal["inset", "clamp"] = generator.choice(("inset", "clamp"))
            mechanism = OptimalPiecewise(domain, 1.0, placement=placement, nodes=generator.randint(2, 300))
        else:
            domain = Circle(abs(number()))
            values = [number() for _ in range(8)] + [-domain.period / 3, -1e-320]
            mechanism = OptimalCircular(domain, 1.0, nodes=generator.randint(2, 300))
        tasks.append(Task("t", domain, 1.0, mechanism=mechanism))
        draws.append([(v, r, generator.getrandbits(64)) for v in values for r in thresholds(mechanism, v)])
    compare(tasks, draws)


def test_every_value_of_a_lattice_is_the_same_node() -> None:
    generator = random.Random(7)
    domains: list[Domain] = [
        Interval(0, 100, step=1),
        Interval(0, 100, step=0.1),
        Interval(0, 51.15, step=0.05),
        Interval(-0.3, 0.3, step=0.1),
        Circle(360, step=10),
        Circle(24, step=1),
        Circle(24, step=0.25),
        Circle(7, step=1),
    ]
    tasks, draws = [], []
    for domain in domains:
        for goal in ("distribution", "value" if isinstance(domain, Interval) else "direction"):
            task = Task("t", domain, 1.0, goal=goal)
            low, step = domain.low if isinstance(domain, Interval) else 0.0, domain.step
            assert step is not None
            products = [low + k * step for k in range(len(domain.values()))]
            values = [
                value for pair in zip(domain.values().tolist(), products, strict=True) for value in pair
            ]
            nodes = [task.mechanism.node(value, TOP) for value in values]
            assert len(set(nodes)) == task.mechanism.kernel.nodes
            tasks.append(task)
            draws.append([(value, TOP, generator.getrandbits(64)) for value in values])
    compare(tasks, draws)


@pytest.mark.slow
@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_nodes_between_the_values_of_a_lattice_are_the_same_to_the_last_bit(rounding: Any) -> None:
    generator = random.Random(8)
    tasks, draws = [], []
    for _ in range(150):
        step = generator.uniform(0.5, 1) * 2.0 ** generator.randint(-30, 30)
        size = generator.choice((generator.randint(2, 40), generator.randint(1000, 1100)))
        low = generator.uniform(-1e6, 1e6) * step
        domain: Domain = Interval(low, low + (size - 1) * step, clip=True, step=step, rounding=rounding)
        if generator.random() < 0.5:
            domain, low = Circle(size * step, step=step, rounding=rounding), 0.0
        clamped = isinstance(domain, Interval) and generator.random() < 0.5
        task = Task("t", domain, 1.0, goal="value" if clamped else "distribution")
        places = [generator.uniform(-2, size + 1) for _ in range(6)] + [
            0.5,
            size - 0.5,
            1 + 2.0**-16,
            -1e-300,
        ]
        values = [low + step * place for place in places]
        tasks.append(task)
        draws.append(
            [
                (value, r, generator.getrandbits(64))
                for value in values
                for r in (0, TOP, *near(task.mechanism, value))
            ]
        )
    compare(tasks, draws)


def near(mechanism: Mechanism, value: float) -> list[int]:
    """Return some r next to the one at which a value between two nodes switches to the other node."""
    below = mechanism.node(value, TOP)
    low, high = 0, 2**53 - 1  # the last r >> 11 that rounds up lies below `high`
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if mechanism.node(value, middle << 11) == below else (middle, high)
    return [low << 11, high << 11]


def test_mechanisms_with_a_delta_are_refused() -> None:
    mixed = [example for example in ALL_EXAMPLES if not is_pure(example)]
    assert {example.make(1.0).name for example in mixed} >= {"gaussian", "truncated-laplace", "uniform-atom"}
    for example in mixed:
        mechanism = example.make(1.0)
        task = Task("t", mechanism.domain, mechanism.epsilon, mechanism=mechanism)
        with pytest.raises(AssertionError, match=r"CertificateError: some ratio|TaskError: epsilon"):
            ask("randomize", [{"bytes": task.to_bytes().hex(), "draws": []}])


def test_it_has_no_dependency() -> None:
    """Apps get only its own modules; Node's and esbuild serve the conformance kit, a bundle and a ledger."""
    package = json.loads((JAVASCRIPT / "package.json").read_text(encoding="utf-8"))
    assert not package.keys() & {"dependencies", "peerDependencies", "optionalDependencies"}
    paths = [*JAVASCRIPT.glob("*.js"), *(JAVASCRIPT / "arcwise").glob("*.js")]
    assert len(paths) > 15
    for path in paths:
        found = re.findall('^import .*?"(.*?)";', path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        given = {"esbuild", "arcwise"}
        own = [name for name in found if not name.startswith("node:") and name not in given]
        assert all((path.parent / name).is_file() for name in own), path
        assert own == found or path.name in {"conformance.js", "bundle.js", "file-ledger.js"}
    subprocess.run([NODE, "--check", *map(str, paths)], check=True)
