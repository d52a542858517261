"""CPU and memory of central certificates of random kernels, numbers of reports and releases.

``python -m benchmarks.speed.certificates`` prints the slowest of 200; ``--seed`` selects others. Windows of
up to 65,536 codes, tables of all sizes, local epsilons of 0.02 to 19, up to 10^12 reports and 10^6 releases.
"""

from __future__ import annotations

import argparse
import heapq
import resource
import time
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.progress import track

from arcwise.analysis import central
from arcwise.domains import Circle, Interval
from arcwise.kernels import TableKernel
from arcwise.kernels.rounding import nearest_rows
from arcwise.mechanisms import OptimalCircular, OptimalPiecewise

if TYPE_CHECKING:
    from arcwise.kernels import Kernel

SIZES = {"small": ((2, 5), (2, 9)), "table": ((5, 70), (10, 300)), "wide": ((2, 3), (2_000, 65_537))}
"""Ranges of nodes and of codes of tables."""


def random_table(generator: np.random.Generator, nodes: int, codes: int, epsilon: float) -> TableKernel:
    """Return a table with weights at most e^epsilon apart before each row is scaled to a sum of 1."""
    weights = np.exp(generator.uniform(0, epsilon, (nodes, codes)))
    return TableKernel(tuple(map(tuple, nearest_rows(weights / weights.sum(axis=1, keepdims=True)))))


def random_kernel(generator: np.random.Generator, epsilon: float) -> Kernel:
    """Return a window or a table of some size."""
    kind = str(generator.choice(["circle", "interval", *SIZES]))
    if kind == "circle":
        return OptimalCircular(Circle(360), epsilon).kernel
    if kind == "interval":
        return OptimalPiecewise(Interval(0, 1), epsilon).kernel
    nodes, codes = (int(generator.integers(*most)) for most in SIZES[kind])
    return random_table(generator, nodes, codes, epsilon)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.certificates", description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    generator = np.random.default_rng(given.seed)
    taken: list[tuple[float, str]] = []
    for _ in track(range(given.cases), "certificates", console=Console(stderr=True), transient=True):
        epsilon = float(np.exp(generator.uniform(np.log(0.02), np.log(19))))
        kernel = random_kernel(generator, epsilon)
        n, releases = int(10 ** generator.uniform(0, 12)), int(10 ** generator.uniform(0, 6))
        delta = float(10 ** generator.uniform(-15, -1))
        begun = time.process_time()
        central(kernel, n, delta=delta, releases=releases)
        what = f"{type(kernel).__name__} of {kernel.nodes} x {kernel.codes}, local epsilon {epsilon:.3g}"
        what += f", {n:,} reports, {releases:,} releases, delta {delta:.1e}"
        taken.append((time.process_time() - begun, what))
    for seconds, what in heapq.nlargest(5, taken):
        print(f"{seconds:.2f} s of CPU: {what}")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB at most")


if __name__ == "__main__":
    main()
