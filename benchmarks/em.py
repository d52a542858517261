"""One EM iteration with prefix sums beside one with the dense matrix, at growing numbers of codes.

Run ``python benchmarks/em.py``. Best of several repeats, the two taking turns; the dense step is two
matrix-vector products, and both are checked against each other first.
"""

from __future__ import annotations

import time

import numpy as np

from arcwise.kernels import WindowKernel
from arcwise.mechanisms import half_window
from arcwise.server.estimators.em import EMSteps

__all__ = ["run"]

CODES = (256, 1024, 4096)
REPEATS = 7
SECONDS = 0.1


def step_seconds(kernel: WindowKernel) -> tuple[float, float]:
    """Return the least seconds of one step: with prefix sums, and dense."""
    matrix = kernel.matrix()
    rng = np.random.default_rng(1)
    counts = rng.multinomial(1_000_000, matrix.mean(axis=0))
    fast = EMSteps(kernel, counts)
    weights = counts / counts.sum()
    f = np.full(kernel.nodes, 1 / kernel.nodes)

    def dense() -> None:
        nonlocal f
        f *= matrix @ (weights / (f @ matrix))
        f /= f.sum()

    for _ in range(5):
        fast.step()
        dense()
    np.testing.assert_allclose(fast.probabilities[0], f, rtol=1e-9)

    best = [float("inf"), float("inf")]
    for _ in range(REPEATS):
        for which, step in enumerate((fast.step, dense)):
            count, start = 0, time.perf_counter()
            while (spent := time.perf_counter() - start) < SECONDS:
                step()
                count += 1
            best[which] = min(best[which], spent / count)
    return best[0], best[1]


def run() -> None:
    """Print microseconds per iteration and their ratio."""
    print("EM, one iteration, a circle at epsilon 1 (K codes, K nodes):")
    for codes in CODES:
        kernel = WindowKernel.fit(
            nodes=codes, window=round(2 * half_window(1.0) * codes), epsilon=1.0, circular=True
        )
        fast, dense = step_seconds(kernel)
        print(
            f"  K = {codes:5d}   prefix sums {1e6 * fast:7.1f} us   dense {1e6 * dense:9.1f} us   "
            f"dense / prefix sums = {dense / fast:.1f}"
        )


if __name__ == "__main__":
    run()
