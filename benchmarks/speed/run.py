"""Every speed in one run: ``make bench``, or ``python -m benchmarks.speed.run``. Five minutes.

The studies of accuracy and coverage beside this file are longer and are run by themselves.
"""

from __future__ import annotations

from benchmarks.speed import em, estimates, imports, ingest, loops, report, sampling

if __name__ == "__main__":
    for benchmark in (sampling, loops, em, estimates, ingest, imports, report):
        benchmark.run()
        print()
