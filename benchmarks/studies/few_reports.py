"""Whether intervals of averages cover with few reports and at a large epsilon, on any population.

    python -m benchmarks.studies.few_reports [--repeats 200] [--epsilons 0.25 1 2 4 8 12]
        [--reports 30 100 300 1000 10000] [--estimates mean variance ...] [--populations NAME ...]
        [--target users]

Prints a line for each estimate, epsilon and number of reports: the coverage over all populations, the median
width in thousandths, and the populations with the least coverage; with --all every population. Estimates are
mean, variance, difference (from "one value"), and on a circle direction and length. Other populations are
given as lines of the grammar of `arcwise simulate`. Surveys are seeded; 200 take 10 minutes.
"""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np
from scipy.stats import lognorm, pareto
from scipy.stats import t as student

from arcwise.analysis.estimators.differences import mean_difference
from arcwise.analysis.estimators.direction import direction, resultant_length
from arcwise.analysis.estimators.mean import mean
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.estimators.variance import spread
from arcwise.analysis.simulate import Histogram, as_population, code_law, multinomial, simulate_counts
from arcwise.domains import Circle, Interval
from arcwise.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.analysis import Value
    from arcwise.analysis.simulate import Population
    from arcwise.domains import Domain
    from arcwise.typing import FloatArray


UNIT, TURN = Interval(0, 1), Circle(1)

INTERVALS = {
    "uniform": "uniform",
    "beta(2, 5)": "beta:2,5",
    "arcsine": "beta:0.5,0.5",
    "two bumps": "0.5*normal:0.3,0.05 + 0.5*normal:0.7,0.08",
    "atoms at both ends": "0.3*atom:0 + 0.2*atom:1 + 0.5*uniform",
    "lognormal, cut": lognorm(1.0, scale=0.05),
    "wide lognormal, cut": lognorm(1.5, scale=0.02),
    "Pareto, cut": pareto(1.2, loc=-0.01, scale=0.01),
    "beta(0.1, 5)": "beta:0.1,5",
    "narrow normal": "normal:0.5,0.05",
    "2 % of the domain": "uniform:0.613,0.633",
    "2 % at the end": "uniform:0,0.02",
    "one value": "atom:0.3137",
    "nearly one value": "0.98*atom:0.3 + 0.02*atom:0.35",
    "0.1 % far": "0.999*atom:0.1 + 0.001*atom:1",
    "1 % far": "0.99*normal:0.1,0.02 + 0.01*atom:1",
    "3 % far": "0.97*normal:0.1,0.02 + 0.03*atom:1",
    "10 % far": "0.9*atom:0 + 0.1*atom:1",
    "five values": "0.05*atom:0 + 0.1*atom:0.25 + 0.5*atom:0.5 + 0.25*atom:0.75 + 0.1*atom:1",
    "atom and normal": "0.6*atom:0.3137 + 0.4*normal:0.55,0.15",
    "two ends": "0.5*atom:0 + 0.5*atom:1",
    "mostly zeros": "0.8*atom:0 + 0.2*beta:2,8",
}

CIRCLES = {
    "uniform": "uniform",
    "von Mises 0.3": "vonmises:0.7,0.3",
    "von Mises 2": "vonmises:0.2,2",
    "von Mises 50": "vonmises:0.5,50",
    "two directions": "0.6*vonmises:0,4 + 0.4*vonmises:0.4,8",
    "one value": "atom:0.13",
    "2 % of the circle": "uniform:0.3,0.32",
    "half of the circle": "uniform:0,0.5",
    "opposite atoms": "0.52*atom:0 + 0.48*atom:0.5",
    "four atoms": "0.3*atom:0 + 0.3*atom:0.25 + 0.2*atom:0.5 + 0.2*atom:0.75",
    "nearly uniform": "0.9*uniform + 0.1*atom:0.3",
    "1 % across": "0.99*normal:0.1,0.02 + 0.01*atom:0.35",
    "3 % opposite": "0.97*atom:0.1 + 0.03*atom:0.6",
    "10 % across": "0.9*atom:0.1 + 0.1*atom:0.35",
    "skewed": "0.7*uniform:0.2,0.22 + 0.2*uniform:0.2,0.3 + 0.1*uniform:0.2,0.7",
}

ESTIMATES = ("mean", "variance", "difference", "direction", "length")

_FINE = 1 << 16


class Case(NamedTuple):
    """A name, a task, the law of its codes, the population and its exact truth."""

    name: str
    task: Task
    law: FloatArray
    population: Population
    mean: float
    variance: float
    moment: complex


class Wanted(NamedTuple):
    """The number of reports and of surveys, and the target of the intervals."""

    reports: int
    repeats: int
    target: str


class Cell(NamedTuple):
    """Results of many surveys of one population."""

    name: str
    coverage: float
    width: float
    rough: float


def _population(of: object, domain: Domain) -> Population:
    if isinstance(of, str):
        return as_population(of, domain)
    edges = np.linspace(0.0, 1.0, 2001)
    masses = np.diff(of.cdf(edges))  # type: ignore[attr-defined]
    return Histogram(edges, masses / masses.sum())


def _case(name: str, domain: Domain, epsilon: float) -> Case:
    known: dict[str, object] = dict(CIRCLES if isinstance(domain, Circle) else INTERVALS)
    of = known.get(name, name)
    task, population = Task("study", domain, epsilon=epsilon), _population(of, domain)
    law = code_law(task.mechanism, population)
    if isinstance(domain, Circle):
        return Case(name, task, law, population, 0.0, 0.0, population.trigonometric_moment())
    below = population.integrated_cdf(np.linspace(0.0, 1.0, _FINE + 1))
    inner = float(below.sum() - (below[0] + below[-1]) / 2) / _FINE
    centre = population.mean()
    return Case(
        name, task, law, population, centre, 1.0 - 2.0 * float(below[-1]) + 2.0 * inner - centre**2, 0j
    )


def _surveys(
    case: Case, n: int, repeats: int, target: str
) -> Iterator[tuple[Survey, tuple[float, float, complex]]]:
    """Yield surveys for the target, and mean, variance and moment."""
    mechanism = case.task.mechanism
    for number in range(repeats):
        generator = np.random.default_rng(
            [n, round(1e6 * case.task.epsilon), number, crc32(case.name.encode())]
        )
        if target == "population":
            counts = multinomial(np.int64(n), case.law, generator).astype(np.float64)
            yield Survey(mechanism, counts), (case.mean, case.variance, case.moment)
            continue
        values = case.population.draw(n, generator)
        counts = simulate_counts(mechanism, values, n, generator, fixed=True).astype(np.float64)
        moment = complex(np.exp(2j * np.pi * values).mean())
        yield Survey(mechanism, counts, target="users"), (float(values.mean()), float(values.var()), moment)


def _found(estimate: str, case: Case, other: Case, wanted: Wanted) -> Iterator[tuple[Value, bool]]:
    mechanism, (n, repeats, target) = case.task.mechanism, wanted
    for survey, (centre, variance, moment) in _surveys(case, n, repeats, target):
        if estimate == "mean":
            value = mean(survey)
            yield value, value.contains(centre)
        elif estimate == "variance":
            value = spread(survey).variance
            yield value, value.contains(variance)
        elif estimate == "difference":
            generator = np.random.default_rng([n, int(survey.counts @ np.arange(survey.counts.size))])
            against = multinomial(np.int64(n), other.law, generator).astype(np.float64)
            value = mean_difference(Survey(mechanism, survey.counts), Survey(other.task.mechanism, against))
            yield value, value.contains(other.mean - centre)
        elif estimate == "direction":
            value = direction(survey)
            whole = value.low is not None and value.high is not None and value.high - value.low >= 1.0
            angle = math.atan2(moment.imag, moment.real) / (2 * math.pi)
            yield value, value.contains(angle, period=1.0) if abs(moment) > 1e-9 else whole
        else:
            value = resultant_length(survey)
            # Rounding to nodes shrinks it by up to (pi/K)^2 / 2, which is not corrected.
            slack = (math.pi / mechanism.kernel.nodes) ** 2 / 2
            assert value.low is not None
            assert value.high is not None
            yield value, value.low - 1e-12 <= abs(moment) <= value.high + slack


def study(estimate: str, epsilon: float, wanted: Wanted, names: list[str]) -> list[Cell]:
    """Return the coverage of one estimate on every population, or on the given ones."""
    circular = estimate in {"direction", "length"}
    domain: Domain = TURN if circular else UNIT
    other = _case("one value", domain, epsilon)
    cells = []
    for name in names or (CIRCLES if circular else INTERVALS):
        case = _case(name, domain, epsilon)
        found = list(_found(estimate, case, other, wanted))
        widths = [
            value.high - value.low for value, _ in found if value.high is not None and value.low is not None
        ]
        cells.append(
            Cell(
                name,
                float(np.mean([covers for _, covers in found])),
                float(np.median(widths)),
                float(np.mean(["rough" in value.note for value, _ in found])),
            )
        )
    return cells


def students_width(name: str, epsilon: float, wanted: Wanted) -> float:
    """Return the median width of Student's interval for the mean, from the surveys that `study` makes."""
    case = _case(name, UNIT, epsilon)
    values = case.task.mechanism.code_units()
    n = wanted.reports
    variances = []
    for survey, _ in _surveys(case, n, wanted.repeats, wanted.target):
        centre = survey.counts @ values / n
        variances.append(survey.counts @ (values - centre) ** 2 / (n - 1))
    return float(2.0 * student.ppf(0.975, n - 1) * np.sqrt(np.median(variances) / n))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.25, 1, 2, 4, 8, 12])
    parser.add_argument("--reports", type=int, nargs="+", default=[30, 100, 300, 1000, 10_000])
    parser.add_argument("--estimates", nargs="+", choices=ESTIMATES, default=list(ESTIMATES))
    parser.add_argument("--populations", nargs="+", default=[], help="names, or lines of the grammar")
    parser.add_argument("--target", choices=["population", "users"], default="population")
    parser.add_argument("--all", action="store_true", help="print every population")
    options = parser.parse_args()
    print(f"{'estimate':<11}{'epsilon':>8}{'n':>8}{'coverage':>10}{'width':>8}{'rough':>7}  least")
    for estimate in options.estimates:
        if options.target == "users" and estimate == "difference":
            continue
        for epsilon in options.epsilons:
            for n in options.reports:
                wanted = Wanted(n, options.repeats, options.target)
                cells = study(estimate, epsilon, wanted, options.populations)
                worst = sorted(cells, key=lambda cell: cell.coverage)[: None if options.all else 3]
                least = ", ".join(f"{cell.name} {cell.coverage:.3f}" for cell in worst)
                every = np.array([cell[1:] for cell in cells])
                coverage, width = every[:, 0].mean(), 1e3 * float(np.median(every[:, 1]))
                rough = every[:, 2].mean()
                print(
                    f"{estimate:<11}{epsilon:>8g}{n:>8}{coverage:>10.3f}{width:>8.3g}{rough:>7.2f}  {least}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
