"""The planner against simulated surveys: predicted over simulated error, and whether plans are reached.

    python -m benchmarks.studies.planner [--repeats 4000] [--surveys 100]
        [--parts means directions reach distributions]

means: standard errors, predicted over simulated, of surveys of 10,000 reports, for every mechanism that
`arcwise plan` compares, four epsilons and six populations; the last is the worst of all, half at each end.

directions: the same for root mean square errors, with three populations.

reach: the planned number of reports for 1 % of the range, or 2 degrees, and the error simulated with it, over
the requested one; and the same for a planned epsilon.

distributions: the same with the Wasserstein-1 distance: the average of new surveys over the requested error.

Surveys are drawn from the law of the codes, with fixed seeds. A standard deviation from r surveys is known to
1/sqrt(2 r) of itself: 1.1 % with 4,000. Exits with 1 if a ratio of means is not from 0.93 to 1.07, or if an
error exceeds its plan by more than four standard errors of the simulation.
"""

from __future__ import annotations

import argparse
import math
import sys
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.estimators.direction import direction
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.estimators.unbiasing import mean_numbers
from arcwise.analysis.planning import plan
from arcwise.analysis.planning.direction import DirectionCurve
from arcwise.analysis.planning.distribution import survey_error
from arcwise.analysis.planning.mean import MeanCurve
from arcwise.analysis.planning.mechanisms import families
from arcwise.analysis.simulate import Atoms, code_law, multinomial, named_population
from arcwise.domains import Circle, Interval
from arcwise.mechanisms.circular import CircularMechanism

if TYPE_CHECKING:
    from arcwise.analysis.simulate import Population
    from arcwise.domains import Domain
    from arcwise.mechanisms import Mechanism
    from arcwise.typing import FloatArray


EPSILONS = (0.5, 1.0, 2.0, 4.0)
LINE, TURN = Interval(0, 1), Circle(1)
BETWEEN = (0.93, 1.07)
REPORTS = 10_000
BLOCK = 500
"""Surveys per block."""


@cache
def populations(kind: str) -> dict[str, Population]:
    if kind == "circle":
        half = math.acos(0.3) / (2 * math.pi)
        named = {name: named_population(name, circular=True) for name in ("von-mises", "two-directions")}
        return {**named, "two groups, R = 0.3": Atoms([half, 1 - half])}
    names = ("uniform", "beta25", "arcsine", "two-bumps", "atoms")
    named = {name: named_population(name, circular=False) for name in names}
    return {**named, "half at each end": Atoms([0.0, 1.0])}


@cache
def mechanisms(domain: Domain, goal: str, epsilon: float) -> dict[str, Mechanism]:
    """Return the mechanisms that `arcwise plan` compares, by label."""
    members = families(domain, goal, None, compare=True)
    return {member.label: member.make(epsilon, None) for member in members}


def estimates(mechanism: Mechanism, population: Population, n: int, repeats: int, seed: int) -> FloatArray:
    """Return the mean, or the direction in turns, that each of many simulated surveys estimates."""
    codes = code_law(mechanism, population)
    generator = np.random.default_rng(seed)
    parts = []
    for start in range(0, repeats, BLOCK):
        size = min(BLOCK, repeats - start)
        counts = multinomial(np.full(size, n), np.broadcast_to(codes, (size, codes.size)), generator)
        if isinstance(mechanism, CircularMechanism):
            found = [direction(Survey(mechanism, row.astype(np.float64))).value for row in counts]
            parts.append(np.array(found, dtype=np.float64))
        else:
            parts.append(counts @ mean_numbers(mechanism, n).values / n)
    return np.concatenate(parts)


def simulated_error(mechanism: Mechanism, population: Population, n: int, repeats: int, seed: int) -> float:
    found = estimates(mechanism, population, n, repeats, seed)
    if isinstance(mechanism, CircularMechanism):
        away = found - float(np.angle(population.trigonometric_moment())) / (2 * math.pi)
        away = (away + 0.5) % 1.0 - 0.5
    else:
        away = found - population.mean()
    return float(np.sqrt((away**2).mean()))


def ratios(domain: Domain, goal: str, repeats: int) -> bool:
    """Print predicted over simulated errors; return whether all are within the bounds."""
    kind = "circle" if isinstance(domain, Circle) else "interval"
    print(f"{goal}: error predicted over simulated, {REPORTS:,} reports, {repeats:,} surveys each")
    names = list(populations(kind))
    print(f"{'epsilon':>7}  {'mechanism':<34}" + "".join(f"{name:>20}" for name in names))
    found = []
    for epsilon in EPSILONS:
        for place, (label, mechanism) in enumerate(mechanisms(domain, goal, epsilon).items()):
            cells = []
            for number, population in enumerate(populations(kind).values()):
                curve = (
                    DirectionCurve(mechanism, population, 0.5)
                    if isinstance(mechanism, CircularMechanism)
                    else MeanCurve(mechanism, population, "population")
                )
                if math.isinf(curve.error(REPORTS)):
                    cells.append(math.nan)  # this few reports give a range of means, not a mean
                    continue
                seed = 1000 * place + 10 * number + int(10 * epsilon)
                error = simulated_error(mechanism, population, REPORTS, repeats, seed)
                cells.append(curve.error(REPORTS) / error)
            found += [cell for cell in cells if not math.isnan(cell)]
            print(f"{epsilon:>7g}  {label:<34}" + "".join(f"{cell:>20.3f}" for cell in cells), flush=True)
    print(f"smallest {min(found):.3f}, largest {max(found):.3f}, of {len(found)}\n", flush=True)
    return BETWEEN[0] <= min(found) and max(found) <= BETWEEN[1]


def reach(repeats: int) -> bool:
    """Print the errors of surveys with the planned number of reports, or the planned epsilon."""
    print(f"reach: simulated error over the one asked for, {repeats:,} surveys each")
    noise = 4.0 / math.sqrt(2.0 * repeats)
    good = True
    cases: list[tuple[Domain, str, float | str, tuple[str, ...]]] = [
        (LINE, "mean", "1%", ("beta25", "atoms", "half at each end")),
        (TURN, "direction", 2.0 / 360.0, ("von-mises", "two-directions", "two groups, R = 0.3")),
    ]
    for domain, goal, error, names in cases:
        laws = populations("circle" if isinstance(domain, Circle) else "interval")
        for name in names:
            for epsilon in EPSILONS:
                made = plan(domain, goal=goal, epsilon=epsilon, error=error, population=laws[name])
                for row in made.rows:
                    if row.relative > 3 and not row.chosen:
                        continue
                    asked = made.asked or math.nan
                    mechanism = mechanisms(domain, goal, epsilon)[row.label]
                    ratio = simulated_error(mechanism, laws[name], row.reports, repeats, 7) / asked
                    good &= ratio <= 1.0 + noise
                    if row.chosen:
                        print(
                            f"  {goal:<10} {name:<20} epsilon {epsilon:<5g} "
                            f"{row.reports:>9,} reports {ratio:.3f}",
                            flush=True,
                        )
            made = plan(domain, goal=goal, reports=20_000, error=error, population=laws[name], compare=False)
            (member,) = families(domain, goal, None, compare=False)
            mechanism = member.make(made.epsilon, made.reports)
            ratio = simulated_error(mechanism, laws[name], 20_000, repeats, 8) / (made.asked or math.nan)
            good &= ratio <= 1.0 + noise
            print(f"  {goal:<10} {name:<20} epsilon {made.epsilon:<5g} found for 20,000 reports {ratio:.3f}")
    print("every mechanism that needs at most 3 times the reports: " + ("reached\n" if good else "MISSED\n"))
    return good


def distributions(surveys: int) -> bool:
    """Print the average distance of new surveys of the planned size, over the requested error."""
    print(f"distributions: average Wasserstein-1 distance over the one asked for, {surveys} new surveys each")
    good = True
    for domain, errors in ((LINE, ("2%", "1%")), (TURN, ("2%", "1%"))):
        for epsilon in EPSILONS:
            for error in errors:
                made = plan(domain, goal="distribution", epsilon=epsilon, error=error, compare=False)
                (member,) = families(domain, "distribution", None, compare=False)
                mechanism = member.make(epsilon, made.reports)
                cells = []
                for name in made.populations:
                    law = named_population(name, circular=isinstance(domain, Circle))
                    found = [
                        survey_error(mechanism, law, made.reports, np.random.default_rng([77, k]))
                        for k in range(surveys)
                    ]
                    asked = made.asked or math.nan
                    ratio = float(np.mean(found)) / asked
                    good &= ratio <= 1.0 + 4.0 * float(np.std(found)) / math.sqrt(surveys) / asked
                    cells.append(f"{name} {ratio:.3f}")
                print(
                    f"  {domain!s:<18} epsilon {epsilon:<4g} error {error:<5} {made.reports:>9,} reports  "
                    + "  ".join(cells),
                    flush=True,
                )
    print("reached\n" if good else "MISSED\n")
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=4000)
    parser.add_argument("--surveys", type=int, default=100)
    parts = ("means", "directions", "reach", "distributions")
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    arguments = parser.parse_args()
    good = True
    if "means" in arguments.parts:
        good &= ratios(LINE, "mean", arguments.repeats)
    if "directions" in arguments.parts:
        good &= ratios(TURN, "direction", arguments.repeats)
    if "reach" in arguments.parts:
        good &= reach(arguments.repeats)
    if "distributions" in arguments.parts:
        good &= distributions(arguments.surveys)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
