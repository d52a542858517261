"""Every speed in one run: ``make bench``, or ``python benchmarks/run.py``. A minute or two.

The studies of accuracy and coverage beside this file are longer and are run by themselves.
"""

from __future__ import annotations

import em
import ingest
import sampling

if __name__ == "__main__":
    for benchmark in (sampling, em, ingest):
        benchmark.run()
        print()
