"""The fit test: false alarms on honest reports of many populations, and how often it detects false reports.

    python -m benchmarks.studies.fit_test [--epsilon 1 4 8 12] [--reports 30 1e4 1e5]
        [--repeats 20] [--jobs 1] [--population NAME ...] [--level 0.05]
    python -m benchmarks.studies.fit_test --attack 0.001 [--codes 1]
    python -m benchmarks.studies.fit_test --liars

A cell is a population, an epsilon and a number of reports. Every cell is printed, and at the end the worst of
all, with the probability of as many alarms or more if the rate were 0.07. Populations: smooth ones, atoms on
and between nodes, lattices as values and as the domain's, 2 % of the domain, a comb, a gap, a step, heavy
tails, four modes; on a circle near-uniform ones and atoms at round angles, too.

With --attack: liars with this share, in addition to the honest devices, send one code, or one of a number of
codes; any codes. "Named" is how often the test names such a code; "held" is how often the lower bounds are at
most the number of false reports; nominal is 0.95 or more.

With --liars: how many times more effect liars with 1 % of the reports have by codes of their choice, below a
residual of 3.5, than by false inputs: beta(2, 5) on an interval, von Mises(2) on a circle.
"""

from __future__ import annotations

import argparse
import time
import zlib
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.stats import binom

from arcwise.analysis.robustness.damage import Damage, damage
from arcwise.analysis.robustness.fit_test import fit_test
from arcwise.analysis.simulate import (
    Atoms,
    Beta,
    CutNormal,
    Histogram,
    Mixture,
    Population,
    VonMises,
    code_law,
    multinomial,
)
from arcwise.domains import Circle, Interval
from arcwise.mechanisms import Mechanism, OptimalCircular, OptimalPiecewise

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.typing import FloatArray


PROMISED = 0.07
"""The rate of false alarms that no cell may exceed."""

_UNIFORM = Histogram([0.0, 1.0], [1.0])


def _mix(*parts: tuple[float, Population]) -> Population:
    return Mixture([weight for weight, _ in parts], tuple(each for _, each in parts))


def _atoms(*places: float) -> Population:
    return Atoms(np.array(places))


def _tails() -> Population:
    """Cauchy around 0.4, cut to [0, 1] with atoms at the ends."""
    levels = (np.arange(4000) + 0.5) / 4000
    return Atoms((0.4 + 0.02 * np.tan(np.pi * (levels - 0.5))).clip(0.0, 1.0))


def _comb(teeth: int) -> Population:
    return Histogram(np.arange(4 * teeth + 1) / (4 * teeth), np.tile([1.0, 0.0, 0.0, 0.0], teeth) / teeth)


def _modes(width: float) -> Population:
    return _mix(*((0.25, CutNormal(mean, width)) for mean in (0.15, 0.38, 0.6, 0.85)))


_SCORES = np.arange(101) / 100
_SCORED = (_SCORES + 0.005) ** 7 * (1.005 - _SCORES) ** 2

LINE: dict[str, Callable[[], Population]] = {
    "uniform": lambda: _UNIFORM,
    "beta(2, 5)": lambda: Beta(2.0, 5.0),
    "beta(1/2, 1/2)": lambda: Beta(0.5, 0.5),
    "two humps": lambda: _mix((0.5, CutNormal(0.3, 0.05)), (0.5, CutNormal(0.7, 0.08))),
    "four modes": lambda: _modes(0.03),
    "atoms at the ends": lambda: _mix((0.3, _atoms(0.0)), (0.2, _atoms(1.0)), (0.5, _UNIFORM)),
    "one atom on a node": lambda: _atoms(32 / 127),
    "one atom between nodes": lambda: _atoms(0.37),
    "atom and normal": lambda: _mix((0.6, _atoms(0.3137)), (0.4, CutNormal(0.55, 0.15))),
    "atom and uniform": lambda: _mix((0.5, _atoms(0.4321)), (0.5, _UNIFORM)),
    "twenty atoms": lambda: Atoms(np.random.default_rng(12345).random(20)),
    "five values": lambda: Atoms(np.arange(5) / 4),
    "eleven values": lambda: Atoms(np.arange(11) / 10),
    "scores 0 to 100": lambda: Atoms(_SCORES, _SCORED / _SCORED.sum()),
    "2 % of the domain": lambda: Histogram([0.0, 0.613, 0.633, 1.0], [0.0, 1.0, 0.0]),
    "comb": lambda: _comb(8),
    "gap": lambda: Histogram([0.0, 0.35, 0.65, 1.0], [0.5, 0.0, 0.5]),
    "step": lambda: Histogram([0.0, 0.4, 1.0], [0.8, 0.2]),
    "heavy tails": _tails,
}
LATTICE: dict[str, Callable[[], Population]] = {
    "lattice: scores": LINE["scores 0 to 100"],
    "lattice: five of 101": LINE["five values"],
    "lattice: one of 101": lambda: _atoms(0.37),
}
CIRCLE: dict[str, Callable[[], Population]] = {
    "circle: uniform": lambda: _UNIFORM,
    "circle: nearly uniform": lambda: VonMises(0.0, 0.1),
    "circle: von Mises(2)": lambda: VonMises(0.0, 2.0),
    "circle: four modes": lambda: _mix(*((0.25, VonMises(at, 40.0)) for at in (0.1, 0.35, 0.6, 0.9))),
    "circle: one atom": lambda: _atoms(0.37),
    "circle: every 90 degrees": lambda: Atoms(np.arange(4) / 4),
    "circle: every 30 degrees": lambda: Atoms(np.arange(12) / 12),
    "circle: every 10 degrees": lambda: Atoms(np.arange(36) / 36),
    "circle: 90 degrees and uniform": lambda: _mix((0.5, Atoms(np.arange(4) / 4)), (0.5, _UNIFORM)),
    "circle: 2 % of the domain": LINE["2 % of the domain"],
    "circle: gap": lambda: Histogram([0.0, 0.7, 1.0], [1.0, 0.0]),
}
POPULATIONS = LINE | LATTICE | CIRCLE


class Found(NamedTuple):
    """Result of one test."""

    rejected: bool
    named: bool
    held: bool
    seconds: float


class Cell(NamedTuple):
    """A population of devices, an epsilon and a number of reports."""

    population: str
    epsilon: float
    reports: int

    def __str__(self) -> str:
        return f"{self.population:<31} {self.epsilon:7g} {self.reports:9,}"


@cache
def _prepared(population: str, epsilon: float) -> tuple[Mechanism, FloatArray]:
    mechanism: Mechanism
    if population in LINE:
        mechanism = OptimalPiecewise(Interval(0, 1), epsilon)
    elif population in LATTICE:
        mechanism = OptimalPiecewise(Interval(0, 100, step=1), epsilon)
    else:
        mechanism = OptimalCircular(Circle(1), epsilon)
    return mechanism, code_law(mechanism, POPULATIONS[population]())


def one(job: tuple[Cell, int], *, share: float, codes: int, level: float) -> Found:
    """Return the result of the test in one survey of a cell with a share of liars on some codes."""
    cell, seed = job
    mechanism, law = _prepared(cell.population, cell.epsilon)
    key = [zlib.crc32(cell.population.encode()), round(1e6 * cell.epsilon), cell.reports, round(1e6 * share)]
    rng = np.random.default_rng([*key, seed])
    counts = multinomial(np.int64(cell.reports), law, rng)
    chosen = rng.choice(mechanism.kernel.codes, codes, replace=False)
    sent = np.zeros_like(counts)
    sent[chosen] = round(share * cell.reports / codes)
    started = time.process_time()
    result = fit_test(mechanism, counts + sent, level=level)
    seconds = time.process_time() - started
    named = any(sent[each.code] for each in result.flagged)
    held = all(each.at_least <= sent[each.code] for each in result.flagged)
    return Found(result.rejected, named, held, seconds)


def liars() -> None:
    """Print bounds on the effect of chosen codes, in multiples of that of false inputs."""
    rng = np.random.default_rng(1)
    draws = rng.beta(2, 5, 100_000), rng.vonmises(0, 2, 100_000) / (2 * np.pi) % 1.0
    names = ("mean", "standard deviation", "direction", "resultant length")
    print("reports  epsilon  " + "  ".join(names))
    for reports, epsilon in product((1e5, 1e12), (1.0, 4.0)):
        found: dict[str, Damage] = {}
        mechanisms = OptimalPiecewise(Interval(0, 1), epsilon), OptimalCircular(Circle(1), epsilon)
        for mechanism, values in zip(mechanisms, draws, strict=True):
            position = np.rint(mechanism.positions(values)).astype(np.int64) % mechanism.kernel.nodes
            nodes = np.bincount(position, minlength=mechanism.kernel.nodes) / values.size
            told = damage(mechanism, nodes, 0.01, reports=reports, critical=3.5)
            found |= {each.estimate: each for each in told}
        ratios = [(found[name].sending or np.nan) / (found[name].lying or np.nan) for name in names]
        columns = "  ".join(f"{ratio:{len(name)}.2f}" for name, ratio in zip(names, ratios, strict=True))
        print(f"{reports:7.0e}  {epsilon:7g}  {columns}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--reports", type=float, nargs="+", default=[30, 1e4, 1e5])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0, 8.0, 12.0])
    parser.add_argument("--population", choices=POPULATIONS, nargs="+", default=list(POPULATIONS))
    parser.add_argument("--level", type=float, default=0.05)
    parser.add_argument("--attack", type=float, default=0.0)
    parser.add_argument("--codes", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--liars", action="store_true")
    arguments = parser.parse_args()
    if arguments.liars:
        liars()
        return
    run = partial(one, share=arguments.attack, codes=arguments.codes, level=arguments.level)
    sizes = [int(each) for each in arguments.reports]
    rates: dict[Cell, float] = {}
    everything: list[Found] = []
    print(f"level {arguments.level:g}, {arguments.repeats} surveys of each cell", end="")
    print(f", liars with {100 * arguments.attack:g} % on {arguments.codes} codes" if arguments.attack else "")
    print(f"{'population':<31} {'epsilon':>7} {'reports':>9} {'alarms':>7} {'named':>7} {'held':>7}")
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for epsilon, reports, population in product(arguments.epsilon, sizes, arguments.population):
            cell = Cell(population, epsilon, reports)
            found = list(pool.map(run, [(cell, seed) for seed in range(arguments.repeats)]))
            everything += found
            alarms, named, held = (float(x) for x in np.mean([each[:3] for each in found], axis=0))
            rates[cell] = alarms
            print(f"{cell} {alarms:7.3f} {named:7.3f} {held:7.3f}", flush=True)
    alarms, named, held = (float(x) for x in np.mean([each[:3] for each in everything], axis=0))
    print(f"{f'all {len(everything):,} surveys':<49} {alarms:7.3f} {named:7.3f} {held:7.3f}")
    if not arguments.attack:
        worst = max(rates, key=rates.__getitem__)
        raised = round(rates[worst] * arguments.repeats)
        chance = float(binom.sf(raised - 1, arguments.repeats, PROMISED))
        somewhere = 1.0 - (1.0 - chance) ** len(rates)
        print(
            f"worst cell: {worst.population}, epsilon {worst.epsilon:g}, {worst.reports:,} reports:", end=" "
        )
        print(
            f"{raised} of {arguments.repeats}; if the rate were {PROMISED:g}, as many or more would have",
            end=" ",
        )
        print(f"probability {chance:.2g}, and {somewhere:.2g} in one or more of {len(rates)} cells")
    print(f"seconds of a test, on average: {np.mean([each.seconds for each in everything]):.2f}")


if __name__ == "__main__":
    main()
