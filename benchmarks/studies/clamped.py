"""Tasks with the goal "value": how often ranges of means and quantiles contain the truth, and their width.

    python -m benchmarks.studies.clamped [--repeats 100] [--reports 10000 100000]
        [--epsilon 0.5 1 2 4] [--seed 1]

The clamp placement makes all values within C of an end look alike, so a mean is a range, and so is a quantile
that lies in an end zone. Populations: half at each end; 0.6 at the low end and the rest uniform; all in the
low end zone, spread evenly or at its inner edge; uniform; and around the middle, where no range is needed.
"possible" is the width that an infinite number of reports leaves, which is ``C`` times the mass of the end
zones for a mean. "error" is the sum of the standard errors of its two bounds, and "width" that of the range
shown. It exits with 1 if pooled coverage is below 0.93, or if the average width is above "possible" by more
than 3 errors.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis import estimate
from arcwise.analysis.estimators.mean import average, clamp_units
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.simulate import Atoms, CutNormal, Histogram, Mixture, Population, code_law, multinomial
from arcwise.analysis.simulate.truth import Truth
from arcwise.domains import Interval
from arcwise.kernels import WindowKernel
from arcwise.tasks import Task
from benchmarks.studies.truths import inside

if TYPE_CHECKING:
    from arcwise.analysis import Estimate
    from arcwise.typing import FloatArray


__all__ = ["covers", "errors", "populations", "possible", "zone"]

LEAST = 0.93


def zone(task: Task) -> float:
    """Return C, the length of an end zone on the unit interval."""
    window = task.mechanism.kernel.codes - task.mechanism.kernel.nodes + 1
    return window / (2 * task.mechanism.kernel.codes)


def populations(width: float) -> dict[str, Population]:
    """Return the populations for end zones of this width."""
    return {
        "half at each end": Atoms([0.0, 1.0]),
        "0.6 at the low end": Mixture([0.6, 0.4], (Atoms([0.0]), Histogram([0.0, 1.0], [1.0]))),
        "spread in the low zone": Histogram([0.0, width], [1.0]),
        "at its inner edge": Atoms([width]),
        "uniform": Histogram([0.0, 1.0], [1.0]),
        "around the middle": CutNormal(0.5, 0.02),
    }


def possible(population: Population, width: float) -> float:
    """Return the width of the range of means that the law of the reports leaves."""
    below, above = population.cdf(np.array([width, np.nextafter(1.0 - width, 0.0)]))
    return width * float(below + 1.0 - above)


def errors(task: Task, law: FloatArray, n: int) -> float:
    """Return the sum of the standard errors of the bounds of the mean."""
    kernel = task.mechanism.kernel
    assert isinstance(kernel, WindowKernel)
    survey = Survey(task.mechanism, n * law)
    return sum(average(survey, numbers)[1] for numbers in clamp_units(task.mechanism, kernel))


def covers(result: Estimate, truth: Truth) -> tuple[bool, list[bool]]:
    """Return whether the range of means contains the truth, and the same for each quantile."""
    assert result.mean is not None
    of_quantiles = [inside(value, truth.quantile(float(tau))) for tau, value in result.quantiles.items()]
    return inside(result.mean, truth.mean), of_quantiles


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--reports", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 2.0, 4.0])
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    missed: list[str] = []
    print("widths in thousandths of the range")
    for n in arguments.reports:
        means: list[bool] = []
        quantiles: list[list[bool]] = []
        print(f"n = {n:,}")
        print(f"epsilon  {'population':<24} {'mean':>6} {'width':>7} {'possible':>8} {'error':>6} quantiles")
        for epsilon in arguments.epsilon:
            task = Task("a", Interval(0, 1), epsilon, goal="value")
            for name, population in populations(zone(task)).items():
                truth, law = Truth(population), code_law(task.mechanism, population)
                generator = np.random.default_rng([arguments.seed, n, round(1e6 * epsilon)])
                found, widths = [], []
                for _ in range(arguments.repeats):
                    result = estimate(task, multinomial(np.int64(n), law, generator))
                    found.append(covers(result, truth))
                    assert result.mean is not None
                    assert result.mean.low is not None
                    assert result.mean.high is not None
                    widths.append(result.mean.high - result.mean.low)
                width, least = float(np.mean(widths)), possible(population, zone(task))
                error = errors(task, law, n)
                of_mean, of_quantiles = [each[0] for each in found], [each[1] for each in found]
                print(
                    f"{epsilon:7g}  {name:<24} {np.mean(of_mean):6.3f} {1e3 * width:7.1f} {1e3 * least:8.1f} "
                    f"{1e3 * error:6.1f} {np.mean(of_quantiles):9.3f}",
                    flush=True,
                )
                means += of_mean
                quantiles += of_quantiles
                if width > least + 3 * error:
                    missed.append(f"{name}, epsilon {epsilon:g}, n = {n:,}: width {width:.3f}")
        for what, rates in (("means", means), ("quantiles", quantiles)):
            print(f"  {what}, pooled over {len(rates):,} surveys: {np.mean(rates):.3f}")
            if np.mean(rates) < LEAST:
                missed.append(f"{what}, n = {n:,}: coverage {np.mean(rates):.3f}")
    for each in missed:
        print(f"MISSED: {each}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
