"""Distributions from reports of OPM, clamped as its paper has it and inset as arcwise does, beside others.

The slides show no such figure: they compare errors of single reports. This one shows why the goal
"distribution" takes the inset window: the error falls with the number of reports, and the clamped one's
does not.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcwise.analysis.charts.look import COLOURS
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
from arcwise.papers.base import Outcome, Progress, Reproduction, Table
from arcwise.papers.interval_laws import SOURCE
from arcwise.papers.pictures import Panel, Picture, mark
from arcwise.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from arcwise.mechanisms import Mechanism
    from arcwise.typing import FloatArray

EPSILONS = (0.5, 1.0, 2.0, 4.0)
REPORTS = 100_000
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
"""Numbers of reports of the panel on the right, at epsilon 1."""

SURVEYS, _FULL_SURVEYS = 2, 20
"""How many of each population and epsilon; of the numbers of reports, too."""

_OF_VALUES = 5
"""Times as many where there is only one population."""

_SEED = 20
_UNIT = Interval(0, 1)
_LARGE = "skewed"
_FEW = ("inset", "clamp", "SW")
"""The population and the mechanisms of the panel on the right."""

POPULATIONS = {
    "uniform": "uniform",
    "middle": "normal:0.55,0.15",
    "low": "beta:2,5",
    "two bumps": "0.5*normal:0.25,0.06 + 0.5*normal:0.7,0.1",
    "skewed": "beta:0.8,9",
    "many near 0": "0.5*uniform:0,0.04 + 0.5*normal:0.55,0.15",
}
"""What users are drawn from, by the name in tables."""


class _Kind(NamedTuple):
    """One mechanism: how it is made with so many nodes, and its line."""

    make: Callable[[float, int], Mechanism]
    colour: str
    dash: Any

    @property
    def style(self) -> dict[str, Any]:
        return {"color": self.colour, "linestyle": self.dash}


MECHANISMS = {
    "inset": _Kind(lambda e, n: OptimalPiecewise(_UNIT, e, nodes=n), COLOURS[0], "-"),
    "clamp": _Kind(
        lambda e, n: OptimalPiecewise(_UNIT, e, nodes=n, placement="clamp"), COLOURS[1], (0, (6, 2))
    ),
    "SW": _Kind(lambda e, n: SquareWave(_UNIT, e, nodes=n), COLOURS[2], (0, (4, 1.5, 1, 1.5))),
    "PM-SUB": _Kind(lambda e, n: PiecewiseSub(_UNIT, e, nodes=n), COLOURS[4], (0, (3, 1, 1, 1, 1, 1))),
    "PM-OPT": _Kind(lambda e, n: PiecewiseOpt(_UNIT, e, nodes=n), COLOURS[5], (0, (2, 1))),
    "PTT": _Kind(lambda e, n: PiecewiseTransformation(_UNIT, e, nodes=n), COLOURS[6], (0, (1, 3))),
    "PTT, margins": _Kind(
        lambda e, n: UnbiasedOptimalPiecewise(_UNIT, e, nodes=n), COLOURS[3], (0, (1, 1.2))
    ),
}
"""By the name in tables. "inset" is PM, the default of arcwise; "PTT" the member of least variance, which is
PM-OPT as a table; "PTT, margins" the member that the slides' authors call the unbiased variant of OPM."""


def error_of(mechanism: Mechanism, line: str | FloatArray, reports: int, seed: int) -> float:
    """Return the Wasserstein-1 distance of one survey's estimate to its users, as a share of the range.

    The mechanism is on [0, 1], and each user sends one report. `line` is a population, as `as_population`
    takes it, or values: users are drawn from them, or are the values themselves if there are as many. The
    seed is for users and devices; users are the same for every mechanism.
    """
    generator = np.random.default_rng([_SEED, seed])
    if not isinstance(line, str) and line.size == reports:
        values, each = line, 1
    else:
        values, each = users(as_population(line, _UNIT), reports, generator)
    counts = simulate_counts(mechanism, values, values.size * each, generator, fixed=True)
    fitted = fit_held_out(mechanism, counts.astype(np.float64)).probabilities
    if getattr(mechanism, "placement", "") == "clamp":
        # Nothing tells where in an end zone its users are: the mass is spread over it, not put at the end.
        return histogram_distance(cell_edges(mechanism), fitted, values, circular=False)
    return wasserstein(mechanism, fitted, values)


def errors_of(
    name: str,
    epsilon: float,
    surveys: int = SURVEYS,
    populations: Mapping[str, str | FloatArray] = POPULATIONS,
) -> dict[str, list[float]]:
    """Return, by population, the errors of so many surveys by one of `MECHANISMS`.

    A population that is a line has `REPORTS` users, one of values a user for each.
    """
    mechanism = _made(name, epsilon)
    return {
        population: [
            error_of(mechanism, line, _reports(line), 100 * place + survey) for survey in range(surveys)
        ]
        for place, (population, line) in enumerate(populations.items())
    }


def on_values(values: FloatArray, name: str) -> Reproduction:
    """Return the experiment with one population: at least 10 users with these values, in shares of the range.

    `name` is that of the population, for tables and pictures.
    """
    if values.size < FEWEST:
        raise ParameterError(f"values must be at least {FEWEST}, got {values.size}")
    return Reproduction(
        "opm-distribution-data",
        f"this project, on {SOURCE}",
        f"Wasserstein-1 error of the distribution of {name}: OPM inset and clamped, SW, PM-SUB, PM-OPT, PTT",
        partial(_distribution, populations={name: values}, large=name),
    )


def _reports(line: str | FloatArray) -> int:
    return REPORTS if isinstance(line, str) else line.size


@one_thread()
def _distribution(
    full: bool,
    progress: Progress,
    populations: Mapping[str, str | FloatArray] = POPULATIONS,
    large: str = _LARGE,
) -> Outcome:
    surveys = (_FULL_SURVEYS if full else SURVEYS) * (1 if len(populations) > 1 else _OF_VALUES)
    cells = [(epsilon, name) for epsilon in EPSILONS for name in MECHANISMS]
    steps = len(cells) + len(_FEW)
    found: dict[tuple[float, str, str], list[float]] = {}
    for done, (epsilon, name) in enumerate(cells):
        progress(done, steps)
        for population, errors in errors_of(name, epsilon, surveys, populations).items():
            found[epsilon, population, name] = errors
    sizes: dict[tuple[int, str], list[float]] = {}
    for done, name in enumerate(_FEW):
        progress(len(cells) + done, steps)
        mechanism = _made(name, 1.0)
        for reports in SIZES:
            line = populations[large]
            sizes[reports, name] = [error_of(mechanism, line, reports, survey) for survey in range(surveys)]

    means = {
        (epsilon, name): _geometric([np.mean(found[epsilon, one, name]) for one in populations])
        for epsilon, name in cells
    }
    users_each = _reports(populations[large])
    return Outcome(
        {
            "populations": Table(
                ("epsilon", "population", "reports", *_headings(MECHANISMS)),
                [
                    (
                        epsilon,
                        population,
                        _reports(line),
                        *_means(found[epsilon, population, name] for name in MECHANISMS),
                    )
                    for epsilon in EPSILONS
                    for population, line in populations.items()
                ],
            ),
            "means": Table(
                ("epsilon", "reports", *_headings(MECHANISMS)),
                [
                    (epsilon, users_each, *(means[epsilon, name] for name in MECHANISMS))
                    for epsilon in EPSILONS
                ],
            ),
            "reports": Table(
                ("epsilon", "population", "reports", *_headings(_FEW)),
                [(1.0, large, reports, *_means(sizes[reports, name] for name in _FEW)) for reports in SIZES],
            ),
        },
        Picture(
            [[_over_epsilon(means, populations), _over_reports(sizes, large)]],
            (7.6, 4.0),
            {"sharey": True},
            legend={"loc": "outside lower center", "ncols": 4},
        ),
        (),
        _findings(found, means, sizes, populations, large),
    )


def _made(name: str, epsilon: float) -> Mechanism:
    """Return a mechanism with as many nodes as a task for a distribution has at this epsilon."""
    nodes = Task("nodes", _UNIT, epsilon).mechanism.kernel.nodes
    return MECHANISMS[name].make(epsilon, nodes)


def _headings(names: Iterable[str]) -> list[str]:
    return [f"{name} (W1 as a share of the range)" for name in names]


def _means(surveys: Iterable[list[float]]) -> list[float]:
    return [float(np.mean(errors)) for errors in surveys]


def _geometric(values: list[Any]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def _over_epsilon(
    means: dict[tuple[float, str], float], populations: Mapping[str, str | FloatArray]
) -> Panel:
    whose = "six populations" if len(populations) > 1 else next(iter(populations))
    reports = _reports(next(iter(populations.values())))
    marks = [
        mark("plot", EPSILONS, [1000 * means[at, name] for at in EPSILONS], label=name, **kind.style)
        for name, kind in MECHANISMS.items()
    ]
    return Panel(
        marks,
        x=r"$\varepsilon$",
        y="Wasserstein-1 error, thousandths of the range",
        title=f"{whose}, {reports:,} reports",
        log="xy",
        legend=None,
    )


def _over_reports(sizes: dict[tuple[int, str], list[float]], large: str) -> Panel:
    marks = [
        mark("plot", SIZES, [1000 * np.mean(sizes[size, name]) for size in SIZES], **MECHANISMS[name].style)
        for name in _FEW
    ]
    whose = f"{large} population" if large in POPULATIONS else large
    title = rf"{whose}, $\varepsilon=1$"
    return Panel(marks, x="reports", title=title, log="xy", legend=None)


def _findings(
    found: dict[tuple[float, str, str], list[float]],
    means: dict[tuple[float, str], float],
    sizes: dict[tuple[int, str], list[float]],
    populations: Mapping[str, str | FloatArray],
    large: str,
) -> list[str]:
    whose = f"the {large} population" if large in POPULATIONS else large
    kernel: Any = _made("clamp", 1.0).kernel
    zone = kernel.window / (2 * kernel.codes)
    first, last = SIZES[0], SIZES[-1]

    def fall(name: str) -> str:
        before, after = np.mean(sizes[first, name]), np.mean(sizes[last, name])
        return f"from {1000 * before:.1f} to {1000 * after:.2g} thousandths"

    ratios = {
        (epsilon, one): float(np.mean(found[epsilon, one, "clamp"]) / np.mean(found[epsilon, one, "inset"]))
        for epsilon in EPSILONS
        for one in populations
    }
    least, most = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
    rest = {
        name: [means[epsilon, name] / means[epsilon, "inset"] for epsilon in EPSILONS]
        for name in MECHANISMS
        if name not in ("inset", "clamp")
    }
    beside = ", ".join(f"{name} {min(each):.2f} to {max(each):.2f}" for name, each in rest.items())
    return [
        "The slides print no errors of distributions, so there is nothing to compare with. Every "
        f"mechanism has the same users, {_reports(populations[large]):,} reports, as many nodes, and "
        "arcwise's estimate.",
        *_by_epsilon(means, len(populations)),
        f"Clamped, all values below {zone:.4f} of the range give the same reports at epsilon 1, and so "
        f"do all above {1 - zone:.4f}. Users who are all at 0 look like users who are all at {zone:.4f}: "
        f"every estimate is at least {1000 * zone / 2:.0f} thousandths from one of the two, "
        "however many reports.",
        f"With {first:,} to {last:,} reports of users like {whose} at epsilon 1 the error falls "
        f"{fall('inset')} with inset, {fall('clamp')} with clamp.",
        f"The clamp's error is {ratios[most]:.1f} times the inset's at epsilon {most[0]:g} ({most[1]}), and "
        f"{ratios[least]:.2f} times at {least[0]:g} ({least[1]}): mass that is spread evenly over the end "
        "zones is right for a population that is even there.",
        f"The others' over the inset's, by epsilon: {beside}. They are of few surveys: ratios from 0.8 "
        "to 1.25 may be chance.",
        "PTT without margins is PM-OPT on a table"
        + (": the difference of their errors is chance." if _same_law() else ", but NOT on this grid."),
    ]


def _by_epsilon(means: dict[tuple[float, str], float], populations: int) -> list[str]:
    """Return a sentence for each epsilon: the errors of all mechanisms, least first."""
    whole = f"Geometric mean of the errors of {populations} populations"
    what = "Wasserstein-1 error" if populations == 1 else whole
    lines = []
    for epsilon in EPSILONS:
        ranked = sorted(MECHANISMS, key=lambda name: means[epsilon, name])
        each = ", ".join(f"{name} {1000 * means[epsilon, name]:.3g}" for name in ranked)
        lines.append(f"{what} at epsilon {epsilon:g}, in thousandths of the range: {each}.")
    return lines


def _same_law() -> bool:
    """Return whether the reports of PTT and of PM-OPT have the same variance at the end, but for the grid."""
    table, window = _made("PTT", 1.0), _made("PM-OPT", 1.0)
    return math.isclose(table.variance(0.0), window.variance(0.0), rel_tol=0.02)


REPRODUCTIONS = (
    Reproduction(
        "opm-distribution",
        f"this project, on {SOURCE}",
        "Wasserstein-1 error of distributions: OPM inset and clamped, SW, PM-SUB, PM-OPT and PTT",
        _distribution,
    ),
)
