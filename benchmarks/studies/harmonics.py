"""Epsilons at which a harmonic of the circle vanishes: estimates there, and a tenth to either side.

    python -m benchmarks.studies.harmonics [--repeats 200] [--reports 100000] [--seed 1]

rho_k, the factor by which a device's randomness shrinks the k-th trigonometric moment, is zero for k = 3 at
epsilon = 2 ln 2 and for k = 4 at 2 ln 3, and for multiples of k: the reports contain no information on these
harmonics. On a grid of K codes with a window W it is zero where k W/K is whole: at 2 ln 2 on 120 codes,
nearly on 128; at 2 ln 3 on 128. Two populations have all their energy in them, 1 + cos(k theta) and k equal
peaks; one has half of it, and one has none. Warnings are errors, and each estimate must be finite.

"error" is the Wasserstein-1 distance in degrees from the estimated distribution to the population; "blind" is
the distance from the population without its multiples of k. Consider an estimate that has lost these
harmonics, and otherwise errs as for von Mises(2), a population without them. By the triangle inequality it
errs by at most the sum of the two. It exits with 1 if an estimate fails, or if the error at the epsilon
itself exceeds this sum and both neighbouring errors by more than 3 standard errors. It also does so if
direction or resultant length cover less than 0.93 (pooled; without a direction, the whole circle must be
shown).
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis import estimate
from arcwise.analysis.estimators.wasserstein import wasserstein
from arcwise.analysis.grid import first_cell
from arcwise.analysis.simulate import Mixture, Population, VonMises, code_law, multinomial, node_law
from arcwise.domains import Circle
from arcwise.mechanisms import OptimalCircular
from arcwise.tasks import Task

if TYPE_CHECKING:
    from arcwise.typing import FloatArray, IntArray


__all__ = ["PLACES", "Found", "Wave", "peaks", "survey"]

PLACES = ((2 * math.log(2), 3, 120), (2 * math.log(2), 3, 128), (2 * math.log(3), 4, 128))
"""Epsilon, the harmonic that vanishes there, and the codes of the grid."""

BESIDE = 0.1
LEAST = 0.93


class Wave(Population):
    """The density ``1 + height cos(2 pi k (x - turn))`` on the circle of circumference 1."""

    def __init__(self, k: int, *, height: float = 1.0, turn: float = 0.03) -> None:
        self.k, self.height, self.turn = k, height, turn

    def cdf(self, x: FloatArray) -> FloatArray:
        w = 2 * np.pi * self.k
        return np.asarray(x + self.height / w * (np.sin(w * (x - self.turn)) + np.sin(w * self.turn)))

    def integrated_cdf(self, x: FloatArray) -> FloatArray:
        w = 2 * np.pi * self.k
        waves = (np.cos(w * self.turn) - np.cos(w * (x - self.turn))) / w + x * np.sin(w * self.turn)
        return np.asarray(x**2 / 2 + self.height / w * waves)

    def draw(self, n: int, generator: np.random.Generator) -> FloatArray:
        return self.quantiles(generator.random(n))

    def trigonometric_moment(self) -> complex:
        turned = complex(np.exp(2j * np.pi * self.turn))
        return self.height / 2 * turned if self.k == 1 else 0j


def peaks(k: int) -> Population:
    """Return k equal von Mises peaks of concentration 60, which have only harmonics at multiples of k."""
    return Mixture([1 / k] * k, tuple(VonMises(0.03 + i / k, 60.0) for i in range(k)))


def populations(k: int) -> dict[str, Population]:
    """Return the populations for the harmonic k; the first has little energy in it."""
    return {
        "von Mises(2)": VonMises(0.1, 2.0),
        f"1 + cos({k} theta)": Wave(k),
        f"{k} peaks": peaks(k),
        "half von Mises(2)": Mixture([0.5, 0.5], (VonMises(0.1, 2.0), Wave(k))),
    }


class Found(NamedTuple):
    """Results of one survey: the distance in degrees, and which intervals cover."""

    error: float
    direction: bool
    length: bool


def survey(task: Task, population: Population, counts: IntArray, values: FloatArray) -> Found:
    """Estimate everything with warnings as errors, and compare with the population.

    Raises
    ------
    ArithmeticError
        If an estimate is not finite.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(all="warn", under="ignore"):
            result = estimate(task, counts)
    assert result.distribution is not None
    assert result.direction is not None
    assert result.resultant_length is not None
    probabilities = np.array(result.distribution.probabilities)
    if not (np.isfinite(probabilities).all() and probabilities.min() >= 0):
        raise ArithmeticError("a probability is not finite")
    mechanism = task.mechanism
    nodes = np.roll(probabilities, first_cell(mechanism))  # bins start with this cell, nodes with node 0
    moment = population.trigonometric_moment()
    heading = result.direction
    assert heading.low is not None
    assert heading.high is not None
    if abs(moment) < 1e-9:
        direction = heading.high - heading.low >= 360.0
    else:
        direction = heading.contains(math.degrees(np.angle(moment)), period=360.0)
    error = 360.0 * wasserstein(mechanism, nodes, values)
    return Found(error, direction, result.resultant_length.contains(abs(moment)))


def blind(mechanism: OptimalCircular, population: Population, k: int, values: FloatArray) -> float:
    """Return the distance in degrees of the population without its multiples of k."""
    waves = np.fft.rfft(node_law(mechanism, population))
    waves[k::k] = 0.0
    return 360.0 * wasserstein(mechanism, np.fft.irfft(waves, mechanism.kernel.nodes), values)


def surveys(
    population: Population, epsilon: float, codes: int, *, repeats: int, reports: int, seed: int
) -> FloatArray:
    """Return the results of `repeats` surveys, shape (repeats, 3)."""
    task = Task("a", Circle(360), epsilon, mechanism=OptimalCircular(Circle(360), epsilon, nodes=codes))
    law = code_law(task.mechanism, population)
    values = population.quantiles((np.arange(10_000) + 0.5) / 10_000)
    generator = np.random.default_rng(seed)
    drawn = multinomial(np.full(repeats, reports), np.broadcast_to(law, (repeats, codes)), generator)
    return np.array([survey(task, population, counts, values) for counts in drawn], np.float64)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--reports", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    missed: list[str] = []
    covered = []
    print(f"n = {arguments.reports:,}, {arguments.repeats} surveys each; errors in degrees")
    for epsilon, k, codes in PLACES:
        beside = [epsilon - BESIDE, epsilon, epsilon + BESIDE]
        mechanisms = [OptimalCircular(Circle(360), each, nodes=codes) for each in beside]
        print(f"{codes} codes; rho_1, rho_{k}, rho_{2 * k}:")
        for each, mechanism in zip(beside, mechanisms, strict=True):
            factors = ", ".join(f"{mechanism.attenuation(order):9.6f}" for order in (1, k, 2 * k))
            print(f"  epsilon {each:.4f}: {factors}   window {mechanism.kernel.window}")
        print(f"  {'error':<18} {'blind':>8}  " + "  ".join(f"{each:14.4f}" for each in beside))
        rest = 0.0
        for name, population in populations(k).items():
            values = population.quantiles((np.arange(10_000) + 0.5) / 10_000)
            without = blind(mechanisms[1], population, k, values)
            found = [
                surveys(
                    population,
                    each,
                    codes,
                    repeats=arguments.repeats,
                    reports=arguments.reports,
                    seed=arguments.seed,
                )
                for each in beside
            ]
            covered += [
                (f"{name}, epsilon {each:.4f}", f[:, 1:]) for each, f in zip(beside, found, strict=True)
            ]
            means = [float(f[:, 0].mean()) for f in found]
            errors = [float(f[:, 0].std()) / math.sqrt(len(f)) for f in found]
            cells = "  ".join(
                f"{mean:6.2f} +- {error:4.2f}" for mean, error in zip(means, errors, strict=True)
            )
            print(f"  {name:<18} {without:8.2f}  {cells}", flush=True)
            rest = rest or means[1]  # of the first population
            allowed = (means[0], means[2], without + rest)
            if means[1] - 3 * math.hypot(*errors) > max(allowed):
                missed.append(f"{name} at epsilon {epsilon:.4f} on {codes} codes: {means[1]:.2f} degrees")
    for column, what in enumerate(("direction (or the whole circle)", "resultant length")):
        rates = [float(f[:, column].mean()) for _, f in covered]
        print(f"coverage of {what}: pooled {np.mean(rates):.3f}, lowest {min(rates):.3f}")
        if np.mean(rates) < LEAST:
            missed.append(f"{what}: coverage {np.mean(rates):.3f}")
    for line in missed:
        print(f"MISSED: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
