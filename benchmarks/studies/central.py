"""How much the counts of n reports reveal: the certificate, a witness, and the bound of any mechanism.

``python -m benchmarks.studies.central`` uses the default mechanism of an interval at 128 nodes. By local
epsilon and number of reports it prints the central epsilon of the certificate, how far this is above the
witness, and the bound of the standard clone (Feldman, McMillan and Talwar, 2021), which is proved for any
mechanism. Exits with 1 if the certificate is more than 1 % above the witness and should not be: from 1,000
reports on, for windows that leave room for a third one (N - 1 >= 2 W), up to a central epsilon of 2.
"""

from __future__ import annotations

import argparse
import math
import sys
import time

import numpy as np
from scipy.optimize import brentq

from arcwise.analysis import central, central_witness
from arcwise.analysis.central_privacy.inversion import log_positive_part
from arcwise.domains import Interval
from arcwise.mechanisms import OptimalPiecewise

LOCAL = [0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]
NODES = 128


def standard_clone(local: float, n: int, delta: float) -> float:
    """Return the central epsilon of the standard clone.

    Each other device draws 0 or 1 with a total probability of e^-local; device 1 sends its bit with odds of
    e^local to 1.
    """
    share = math.exp(-local)
    odds = math.exp(local) / (1 + math.exp(local))

    def excess(epsilon: float) -> float:
        e = math.exp(epsilon)
        values = np.array([odds - e * (1 - odds), 1 - odds - e * odds]) * 2 / share
        found = log_positive_part(values, np.full(2, share / 2), n)
        return max(found - math.log(n * delta), -1e6)

    return local if excess(local * (1 - 1e-9)) > 0 else float(brentq(excess, 0, local, xtol=1e-9))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--delta", type=float, default=1e-8)
    delta = parser.parse_args().delta
    failed = False
    print(f"central epsilon at delta = {delta:g}, {NODES} nodes\n")
    print(f"{'n':>9} {'local':>6} {'certificate':>12} {'above witness':>14} {'standard clone':>15} {'ms':>6}")
    for n in (10**2, 10**3, 10**4, 10**5, 10**6, 10**7):
        for local in LOCAL:
            kernel = OptimalPiecewise(Interval(0, 1), local, nodes=NODES).kernel
            started = time.perf_counter()
            found = central(kernel, n, delta=delta).epsilon
            took = 1000 * (time.perf_counter() - started)
            below = central_witness(kernel, n, delta=delta)
            gap = found / below - 1 if below else math.inf
            room = kernel.nodes - 1 >= 2 * kernel.window
            wide = room and n >= 1000 and found <= 2 and gap > 0.01
            failed |= wide
            print(
                f"{n:>9,} {local:>6} {found:>12.5g} {gap:>13.2%}{'!' if wide else ' '} "
                f"{standard_clone(local, n, delta):>15.5g} {took:>6.0f}",
                flush=True,
            )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
