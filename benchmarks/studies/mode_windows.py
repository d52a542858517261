"""The mode's interval with windows of other widths: mean length, and how often it contains the true mode.

    python -m benchmarks.studies.mode_windows [--repeats 10] [--windows 4 8 16]
        [--epsilon 1 4] [--reports 10000]

On [0, 1], 128 nodes; lengths are shares of the range. "holds" is the share of intervals that contain the
place of the highest density (for "atom", 0). `arcwise.analysis.estimators.mode` has 8 windows side by side.
"""

from __future__ import annotations

import argparse

import numpy as np

from arcwise.analysis.estimators import mode as module
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.simulate import simulate_counts
from arcwise.domains import Interval
from arcwise.mechanisms import OptimalPiecewise

POPULATIONS = {
    "beta(2, 5)": ("beta:2,5", 0.2),
    "beta(2, 2)": ("beta:2,2", 0.5),
    "falling": ("beta:1,3", 0.0),
    "atom": ("0.1*atom:0 + rest*uniform", 0.0),
    "two": ("0.6*beta:20,60 + 0.4*beta:60,20", 19 / 78),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--windows", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--reports", type=int, nargs="+", default=[10_000, 100_000])
    chosen = parser.parse_args()
    heads = "".join(f"{f'1/{width}':>8}  holds" for width in chosen.windows)
    print(f"{'epsilon':>7} {'reports':>8}  {'population':<12}{heads}")
    for epsilon in chosen.epsilon:
        mechanism = OptimalPiecewise(Interval(0, 1), epsilon)
        for reports in chosen.reports:
            for name, (population, truth) in POPULATIONS.items():
                found = study(mechanism, population, truth, reports, chosen.windows, chosen.repeats)
                cells = "".join(f"{length:>8.3f}  {held:>5.2f}" for length, held in found)
                print(f"{epsilon:>7g} {reports:>8}  {name:<12}{cells}", flush=True)


def study(  # noqa: PLR0917
    mechanism: OptimalPiecewise, population: str, truth: float, reports: int, windows: list[int], repeats: int
) -> list[tuple[float, float]]:
    """Return mean length and share that contains the truth, for each number of windows side by side."""
    lengths = np.zeros((repeats, len(windows)))
    held = np.zeros((repeats, len(windows)))
    kept = module._WINDOWS
    for repeat in range(repeats):
        generator = np.random.default_rng([repeat, reports])
        counts = simulate_counts(mechanism, population, reports, generator).astype(np.float64)
        survey = Survey(mechanism, counts)
        for i, width in enumerate(windows):
            module._WINDOWS = width
            value = module.mode(survey)
            module._WINDOWS = kept
            assert value.low is not None and value.high is not None  # noqa: PT018
            lengths[repeat, i], held[repeat, i] = value.high - value.low, value.contains(truth)
    return list(zip(lengths.mean(axis=0).tolist(), held.mean(axis=0).tolist(), strict=True))


if __name__ == "__main__":
    main()
