"""Distributions estimated from reports of OPM, clamped as in its paper or inset, and of other mechanisms.

The authors' slides show no such figure: they compare errors of single reports. This figure shows why the goal
"distribution" uses the inset window. With the inset window, the error falls with the number of reports. With
the clamped window, it does not.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from arcwise.analysis.estimators.wasserstein import histogram_distance, wasserstein
from arcwise.analysis.grid import cell_edges
from arcwise.analysis.likelihood.distribution import fit_held_out
from arcwise.analysis.planning.distribution import FEWEST, users
from arcwise.analysis.simulate import as_population, simulate_counts
from arcwise.analysis.threads import one_thread
from arcwise.domains import Interval
from arcwise.errors import ParameterError
from arcwise.mechanisms import (
    OptimalPiecewise,
    PiecewiseOpt,
    PiecewiseSub,
    PiecewiseTransformation,
    SquareWave,
    UnbiasedOptimalPiecewise,
)
from arcwise.papers.base import Outcome, Progress, Reproduction, Table, reproduction, steps
from arcwise.papers.interval_laws import SOURCE
from arcwise.papers.pictures import BELOW, EPSILON, Panel, Picture, family_look, mark
from arcwise.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from arcwise.mechanisms import Mechanism
    from arcwise.typing import FloatArray

EPSILONS = (0.5, 1.0, 2.0, 4.0)
REPORTS = 100_000
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
"""The numbers of reports in the panel on the right, at epsilon 1."""

SURVEYS, _FULL_SURVEYS = 2, 20
"""The simulated surveys for each case (population and epsilon, or number of reports): default, full size."""

_OF_VALUES = 5
"""Factor on the number of surveys if there is only one population."""

_SEED = 20
_UNIT = Interval(0, 1)
_LARGE = "skewed"
_FEW = ("inset", "clamp", "SW")
"""The mechanisms of the panel on the right; by default its population is `_LARGE`."""

POPULATIONS = {
    "uniform": "uniform",
    "middle": "normal:0.55,0.15",
    "low": "beta:2,5",
    "two bumps": "0.5*normal:0.25,0.06 + 0.5*normal:0.7,0.1",
    "skewed": "beta:0.8,9",
    "many near 0": "0.5*uniform:0,0.04 + 0.5*normal:0.55,0.15",
}
"""The populations from which users are drawn, by their name in tables."""


_Population: TypeAlias = "str | FloatArray"
"""A line that describes a population, or an array of values."""


class _Kind(NamedTuple):
    """One mechanism: a function that makes it from epsilon and the number of nodes, and a style number."""

    make: Callable[[float, int], Mechanism]
    number: int


MECHANISMS = {
    "inset": _Kind(lambda e, n: OptimalPiecewise(_UNIT, e, nodes=n), 0),
    "clamp": _Kind(lambda e, n: OptimalPiecewise(_UNIT, e, nodes=n, placement="clamp"), 1),
    "SW": _Kind(lambda e, n: SquareWave(_UNIT, e, nodes=n), 2),
    "PM-SUB": _Kind(lambda e, n: PiecewiseSub(_UNIT, e, nodes=n), 4),
    "PM-OPT": _Kind(lambda e, n: PiecewiseOpt(_UNIT, e, nodes=n), 5),
    "PTT": _Kind(lambda e, n: PiecewiseTransformation(_UNIT, e, nodes=n), 6),
    "PTT, margins": _Kind(lambda e, n: UnbiasedOptimalPiecewise(_UNIT, e, nodes=n), 3),
}
"""The mechanisms by their name in tables.

"inset" is PM, the default of arcwise. "PTT" is the member of PTT with the least variance, which is PM-OPT as
a table. "PTT, margins" is the member that the authors of the slides call the unbiased variant of OPM.
"""


def error_of(mechanism: Mechanism, line: _Population, reports: int, seed: int) -> float:
    """Return the Wasserstein-1 distance between one survey's estimate and its users, as a share of the range.

    The mechanism is on [0, 1], and each user sends one report. `line` is a population in a form for
    `as_population`, or an array of values. Users are drawn from it; if there are as many values as users, the
    users have exactly these values. The seed determines users and devices. Users are the same for every
    mechanism.
    """
    generator = np.random.default_rng([_SEED, seed])
    if not isinstance(line, str) and line.size == reports:
        values, each = line, 1
    else:
        values, each = users(as_population(line, _UNIT), reports, generator)
    counts = simulate_counts(mechanism, values, values.size * each, generator, fixed=True)
    fitted = fit_held_out(mechanism, counts.astype(np.float64)).probabilities
    if getattr(mechanism, "placement", "") == "clamp":
        # Reports do not show where in an end zone users are, so the mass is spread over the zone, not put at
        # the end.
        return histogram_distance(cell_edges(mechanism), fitted, values, circular=False)
    return wasserstein(mechanism, fitted, values)


def errors_of(
    name: str,
    epsilon: float,
    surveys: int = SURVEYS,
    populations: Mapping[str, _Population] = POPULATIONS,
) -> dict[str, list[float]]:
    """Return the errors of several surveys with one of `MECHANISMS`, by population.

    A population given as a line has `REPORTS` users. A population given as values has one user for each
    value.
    """
    mechanism = _made(name, epsilon)
    return {
        population: [
            error_of(mechanism, line, _reports(line), 100 * place + survey) for survey in range(surveys)
        ]
        for place, (population, line) in enumerate(populations.items())
    }


def on_values(values: FloatArray, name: str) -> Reproduction:
    """Return the outcome for one population: at least 10 users with these values, in shares of the range.

    `name` is the name of the population in tables and pictures.
    """
    if values.size < FEWEST:
        raise ParameterError(f"values must be at least {FEWEST}, got {values.size}")
    return Reproduction(
        "opm-distribution-data",
        f"this project, on {SOURCE}",
        f"Wasserstein-1 error of the distribution of {name}: OPM inset and clamped, SW, PM-SUB, PM-OPT, PTT",
        partial(_experiment, populations={name: values}, large=name),
    )


def _reports(line: _Population) -> int:
    return REPORTS if isinstance(line, str) else line.size


@reproduction(
    "opm-distribution",
    f"this project, on {SOURCE}",
    "Wasserstein-1 error of distributions: OPM inset and clamped, SW, PM-SUB, PM-OPT and PTT",
)
def _distribution(full: bool, progress: Progress) -> Outcome:
    return _experiment(full, progress, POPULATIONS, _LARGE)


class _Errors(NamedTuple):
    """The mean errors of the surveys, with their populations and numbers of reports."""

    populations: Mapping[str, _Population]
    large: str
    """The population of the panel on the right."""
    by_population: dict[tuple[float, str, str], float]
    """Errors by epsilon, population and mechanism, all with the same number of reports."""
    by_size: dict[tuple[int, str], float]
    """Errors by the number of reports and the mechanism, at epsilon 1."""

    def over_populations(self, epsilon: float, name: str) -> float:
        """Return the geometric mean of a mechanism's errors over the populations."""
        errors = [self.by_population[epsilon, population, name] for population in self.populations]
        return float(np.exp(np.mean(np.log(errors))))


@one_thread()
def _experiment(
    full: bool, progress: Progress, populations: Mapping[str, _Population], large: str
) -> Outcome:
    surveys = (_FULL_SURVEYS if full else SURVEYS) * (1 if len(populations) > 1 else _OF_VALUES)
    errors = _Errors(populations, large, {}, {})
    cases = [("populations", epsilon, name) for epsilon in EPSILONS for name in MECHANISMS]
    cases += [("sizes", 1.0, name) for name in _FEW]
    for what, epsilon, name in steps(progress, cases):
        if what == "populations":
            for population, found in errors_of(name, epsilon, surveys, populations).items():
                errors.by_population[epsilon, population, name] = float(np.mean(found))
        else:
            mechanism, line = _made(name, epsilon), populations[large]
            for size in SIZES:
                found = [error_of(mechanism, line, size, survey) for survey in range(surveys)]
                errors.by_size[size, name] = float(np.mean(found))

    unit = "(W1 as a share of the range)"
    headings, few_headings = ([f"{name} {unit}" for name in names] for names in (MECHANISMS, _FEW))
    each: list[tuple[float | str, ...]] = [
        (epsilon, one, _reports(line), *(errors.by_population[epsilon, one, name] for name in MECHANISMS))
        for epsilon in EPSILONS
        for one, line in populations.items()
    ]
    reports = _reports(populations[large])
    means = [(e, reports, *(errors.over_populations(e, name) for name in MECHANISMS)) for e in EPSILONS]
    sizes: list[tuple[float | str, ...]] = [
        (1.0, large, size, *(errors.by_size[size, name] for name in _FEW)) for size in SIZES
    ]
    panels = [_over_epsilon(errors), _over_reports(errors)]
    return Outcome(
        {
            "populations": Table(("epsilon", "population", "reports", *headings), each),
            "means": Table(("epsilon", "reports", *headings), means),
            "reports": Table(("epsilon", "population", "reports", *few_headings), sizes),
        },
        Picture([panels], (7.6, 4.0), {"sharey": True}, BELOW | {"ncols": 4}),
        (),
        _findings(errors),
    )


def _made(name: str, epsilon: float) -> Mechanism:
    """Return a mechanism with as many nodes as a task for a distribution has at this epsilon."""
    nodes = Task("nodes", _UNIT, epsilon).mechanism.kernel.nodes
    return MECHANISMS[name].make(epsilon, nodes)


def _over_epsilon(errors: _Errors) -> Panel:
    marks = []
    for name, kind in MECHANISMS.items():
        thousandths = [1000 * errors.over_populations(epsilon, name) for epsilon in EPSILONS]
        marks.append(mark("plot", EPSILONS, thousandths, label=name, **family_look(kind.number)))
    whose = "six populations" if len(errors.populations) > 1 else next(iter(errors.populations))
    title = f"{whose}, {_reports(next(iter(errors.populations.values()))):,} reports"
    y = "Wasserstein-1 error, thousandths of the range"
    return Panel(marks, EPSILON, y, title, log="xy", legend=None)


def _over_reports(errors: _Errors) -> Panel:
    marks = []
    for name in _FEW:
        thousandths = [1000 * errors.by_size[size, name] for size in SIZES]
        marks.append(mark("plot", SIZES, thousandths, **family_look(MECHANISMS[name].number)))
    whose = f"{errors.large} population" if errors.large in POPULATIONS else errors.large
    return Panel(marks, "reports", "", rf"{whose}, $\varepsilon=1$", log="xy", legend=None)


def _findings(errors: _Errors) -> list[str]:
    large = errors.large
    whose = f"the {large} population" if large in POPULATIONS else large
    kernel: Any = _made("clamp", 1.0).kernel
    zone = kernel.window / (2 * kernel.codes)
    first, last = SIZES[0], SIZES[-1]

    def fall(name: str) -> str:
        before, after = errors.by_size[first, name], errors.by_size[last, name]
        return f"from {1000 * before:.1f} to {1000 * after:.2g} thousandths"

    ratios = {
        (epsilon, one): errors.by_population[epsilon, one, "clamp"]
        / errors.by_population[epsilon, one, "inset"]
        for epsilon in EPSILONS
        for one in errors.populations
    }
    least, most = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
    beside = []
    for name in MECHANISMS:
        if name not in ("inset", "clamp"):
            over = [errors.over_populations(e, name) / errors.over_populations(e, "inset") for e in EPSILONS]
            beside.append(f"{name} {min(over):.2f} to {max(over):.2f}")
    return [
        "The slides print no errors of distributions, so there is nothing to compare with. Every "
        f"mechanism has the same users, {_reports(errors.populations[large]):,} reports, the same number of "
        "nodes, and arcwise's estimate.",
        *(_ranked(errors, epsilon) for epsilon in EPSILONS),
        f"With the clamped window, all values below {zone:.4f} of the range give the same reports at epsilon "
        f"1, and so do all values above {1 - zone:.4f}. Users who are all at 0 look like users who are all "
        f"at {zone:.4f}. So for one of these two populations, every estimate has an error of at least "
        f"{1000 * zone / 2:.0f} thousandths, however many reports there are.",
        f"From {first:,} to {last:,} reports of users like {whose} at epsilon 1, the error falls "
        f"{fall('inset')} with the inset window, and {fall('clamp')} with the clamped window.",
        f"The error of the clamped window is at most {ratios[most]:.1f} times that of the inset window, at "
        f"epsilon {most[0]:g} ({most[1]}). It is at least {ratios[least]:.2f} times that error, at epsilon "
        f"{least[0]:g} ({least[1]}). The estimate spreads mass evenly over the end zones, which is right if "
        "the population is even in them.",
        f"Errors of other mechanisms divided by the error of the inset window, over the epsilons: "
        f"{', '.join(beside)}. They are from few surveys, so ratios from 0.8 to 1.25 may be chance.",
        "PTT without margins is PM-OPT on a table"
        + (": the difference of their errors is chance." if _same_law() else ", but NOT on this grid."),
    ]


def _ranked(errors: _Errors, epsilon: float) -> str:
    """Return a sentence with the errors of all mechanisms, smallest first."""
    populations = len(errors.populations)
    whole = f"Geometric mean of the errors of {populations} populations"
    what = "Wasserstein-1 error" if populations == 1 else whole
    means = {name: errors.over_populations(epsilon, name) for name in MECHANISMS}
    each = ", ".join(f"{name} {1000 * means[name]:.3g}" for name in sorted(means, key=means.__getitem__))
    return f"{what} at epsilon {epsilon:g}, in thousandths of the range: {each}."


def _same_law() -> bool:
    """Return whether reports of PTT and PM-OPT have the same variance at an end, apart from the grid."""
    table, window = _made("PTT", 1.0), _made("PM-OPT", 1.0)
    return math.isclose(table.variance(0.0), window.variance(0.0), rel_tol=0.02)
