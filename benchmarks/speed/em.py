"""EM and the certified maximum against dense EM: an E-step, agreement over 1,000 steps, and an equal gap.

    python -m benchmarks.speed.em [--nodes 256 1024 4096] [--certified 1024] [--seconds 0.1]

Everything is measured in one run, the two sides taking turns. An E-step maps nodes to codes and the residuals
back; the dense one is two products with the matrix. It is measured twice: on one thread, and with as many as
the linear algebra uses (on small or busy machines, more threads can be slower). An iteration is an E-step and
the rest of the update. "Certified" is the largest likelihood for this number of nodes, proved to 0.01 nats;
dense EM, on one thread, runs until it proves the same. Making the matrix is not included in its times.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from arcwise.analysis.likelihood.em import EMSteps
from arcwise.analysis.likelihood.linear_maps import rows_of
from arcwise.analysis.likelihood.maximum import Model
from arcwise.analysis.simulate import multinomial
from benchmarks.studies.truths import case

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from arcwise.typing import FloatArray


__all__ = ["run"]

NODES = (256, 1024, 4096)
CERTIFIED = 1024
REPEATS = 7
SECONDS = 0.1
GAP = 0.01
PLACES: tuple[tuple[bool, str, float], ...] = (
    (False, "beta25", 0.5),
    (False, "beta25", 1.0),
    (False, "beta25", 4.0),
    (True, "von-mises", 1.0),
)


class Dense:
    """EM with the matrix, as in textbooks."""

    def __init__(self, matrix: FloatArray, counts: FloatArray) -> None:
        self.matrix, self.weights, self.total = matrix, counts / counts.sum(), float(counts.sum())
        self.f = np.full(len(matrix), 1 / len(matrix))
        self.iterations = 0

    def gradient(self) -> FloatArray:
        value: FloatArray = self.matrix @ (self.weights / (self.f @ self.matrix))
        return value

    def step(self) -> None:
        self.f *= self.gradient()
        self.f /= self.f.sum()
        self.iterations += 1


def least_seconds(calls: Sequence[Callable[[], object]], seconds: float) -> list[float]:
    """Return the least seconds of one call of each, taking turns."""
    best = [float("inf")] * len(calls)
    for _ in range(REPEATS):
        for which, call in enumerate(calls):
            count, start = 0, time.perf_counter()
            while (spent := time.perf_counter() - start) < seconds:
                call()
                count += 1
            best[which] = min(best[which], spent / count)
    return best


def steps(nodes: int, *, circular: bool, population: str, epsilon: float, seconds: float) -> str:
    """Return the line of one kernel: its E-step and iteration, and the dense ones."""
    mechanism, law, _ = case(population, epsilon, circular=circular, nodes=nodes)
    kernel = mechanism.kernel
    counts = multinomial(np.int64(100_000), law, np.random.default_rng(1)).astype(np.float64)
    fast, dense, rows = EMSteps(kernel, counts), Dense(kernel.matrix(), counts), rows_of(kernel, 1)
    rows.nodes[:] = rows.scale / kernel.nodes
    weights = rows.scale * dense.weights

    def e_step() -> None:
        rows.forward()
        np.divide(weights, rows.codes[0], out=rows.residual[0])
        rows.backward()

    e_step()
    np.testing.assert_allclose(rows.gradient[0], dense.gradient(), rtol=1e-10)
    with threadpool_limits(limits=1, user_api="blas"):
        ours, theirs, whole, their_whole = least_seconds(
            (e_step, dense.gradient, fast.step, dense.step), seconds
        )
    (threaded,) = least_seconds((dense.gradient,), seconds)
    return (
        f"  {kernel.nodes:5d} {kernel.codes:5d} {epsilon:7g} {'circle' if circular else 'interval':<8} "
        f"{1e6 * ours:8.1f} {1e6 * theirs:9.1f} {theirs / ours:7.1f} {threaded / ours:8.1f} "
        f"{1e6 * whole:10.1f} {1e6 * their_whole:9.1f} {their_whole / whole:7.1f}"
    )


def agreement() -> float:
    """Return the largest difference of a probability after 1,000 steps at 128 nodes, over all places."""
    largest = 0.0
    for circular, population, epsilon in PLACES:
        mechanism, law, _ = case(population, epsilon, circular=circular)
        counts = multinomial(np.int64(100_000), law, np.random.default_rng(1)).astype(np.float64)
        fast, dense = EMSteps(mechanism.kernel, counts), Dense(mechanism.kernel.matrix(), counts)
        for _ in range(1000):
            fast.step()
            dense.step()
        largest = max(largest, float(np.abs(fast.probabilities[0] - dense.f).max()))
    return largest


def certified(nodes: int, *, circular: bool, population: str, epsilon: float) -> str:
    """Return the line of one data set: CPU seconds to the same proved gap."""
    mechanism, law, _ = case(population, epsilon, circular=circular, nodes=nodes)
    kernel = mechanism.kernel
    counts = multinomial(np.int64(10_000), law, np.random.default_rng(1)).astype(np.float64)
    with threadpool_limits(limits=1, user_api="blas"):
        start = time.process_time()
        ours = Model(kernel).fit(counts)
        spent = time.process_time() - start
        assert ours.gap <= GAP
        dense = Dense(kernel.matrix(), counts)
        start = time.process_time()
        while dense.total * (float(dense.gradient().max()) - 1.0) > GAP:
            for _ in range(256):  # so that the test of the gap costs almost nothing
                dense.step()
        theirs = time.process_time() - start
    # Both are within their gaps of the same maximum.
    best = float(counts @ np.log(dense.f @ dense.matrix))
    assert abs(best - float(counts @ np.log(ours.nodes @ dense.matrix))) <= 2 * GAP
    return (
        f"  {kernel.nodes:5d} {kernel.codes:5d} {epsilon:7g} {'circle' if circular else 'interval':<8} "
        f"{1e3 * spent:8.1f} ms {theirs:8.1f} s {dense.iterations:9,} steps {theirs / spent:9.0f}"
    )


def run(nodes: Sequence[int] = NODES, certify: Sequence[int] = (), seconds: float = SECONDS) -> None:
    """Print microseconds, ratios, agreement and, on request, the certified maximum."""
    print(f"EM with prefix sums; largest difference from dense EM after 1,000 steps: {agreement():.1e}")
    print("                                E-step     dense   ratio  threads  iteration     dense   ratio")
    print("  nodes codes epsilon domain        us        us                          us        us")
    for many in nodes:
        for circular, population, epsilon in PLACES:
            line = steps(many, circular=circular, population=population, epsilon=epsilon, seconds=seconds)
            print(line, flush=True)
    if certify:
        print(
            f"the largest likelihood of 10,000 reports, certified to {GAP:g} nats: CPU time; dense EM; ratio"
        )
    for many in certify:
        for circular, population, epsilon in PLACES[1:]:
            print(certified(many, circular=circular, population=population, epsilon=epsilon), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="*", default=NODES)
    parser.add_argument("--certified", type=int, nargs="*", default=[CERTIFIED], help="0.5 to 2 minutes each")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="seconds of each measurement")
    arguments = parser.parse_args()
    run(arguments.nodes, arguments.certified, arguments.seconds)


if __name__ == "__main__":
    main()
