"""Every speed in one run: ``make bench``, or ``python benchmarks/run.py``. Five minutes.

The studies of accuracy and coverage beside this file are longer and are run by themselves.
"""

from __future__ import annotations

import em
import estimates
import imports
import ingest
import loops
import report
import sampling

if __name__ == "__main__":
    for benchmark in (sampling, loops, em, estimates, ingest, imports, report):
        benchmark.run()
        print()
