"""Audits of mechanisms that keep their claims, and of some that do not.

``python -m benchmarks.studies.audit`` audits every mechanism of the registry, every kind of task and other
correct mechanisms: none may be above its claim. The level is for the whole family: the probability of one
false alarm or more, over all of them, is at most ``--alarms``. Then it audits mechanisms that are wrong on
purpose: each must be above its claim. Exits with 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from arcwise.analysis import audit
from tests.support.audited import WRONG, right

if TYPE_CHECKING:
    from arcwise.analysis import Audit

_WHOLE = 1.0
"""Epsilon of the registry's mechanisms."""
_SLOW = 10
"""A function of one value is called this many times less often than a function of arrays."""


def one(name: str, *, samples: int, level: float, seed: int) -> tuple[Audit, float]:
    """Return the audit of a mechanism by name, and the seconds that it took."""
    case = WRONG[name] if name in WRONG else right(_WHOLE)[name]()
    single = case.domain is not None and not case.vectorised
    started = time.perf_counter()
    found = audit(
        case.mechanism,
        case.domain,
        case.epsilon,
        samples=samples // _SLOW if single or name.startswith("group") else samples,
        level=level,
        vectorised=case.vectorised,
        seed=seed,
    )
    return found, time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--samples", type=float, default=4e6, help="calls of each mechanism")
    parser.add_argument("--alarms", type=float, default=0.01, help="largest probability of any false alarm")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    names = list(right(_WHOLE))
    level = 1.0 - arguments.alarms / len(names)
    run = partial(one, samples=int(arguments.samples), level=level, seed=arguments.seed)
    print(f"{'mechanism':<32} {'calls':>9} {'claim':>6} {'at least':>8} {'seconds':>7}")
    failed = []
    with ProcessPoolExecutor(arguments.jobs) as pool:
        everything = [*names, *WRONG]
        for name, (found, seconds) in zip(everything, pool.map(run, everything), strict=True):
            words = f"{found.calls:>9,} {found.claim:>6g} {found.epsilon:>8.4f} {seconds:>7.1f}"
            leak = ", support leak" if found.support_leaks else ""
            verdict = f"ABOVE THE CLAIM{leak}" if found.above else ""
            print(f"{name:<32} {words}  {verdict}".rstrip(), flush=True)
            if found.above != (name in WRONG):
                failed.append(name)
    print(
        f"{len(names)} correct mechanisms at level {level:.6g} each: one false alarm or more with a "
        f"probability of at most {arguments.alarms:g}"
    )
    print(f"unexpected results: {', '.join(failed) or 'none'}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
