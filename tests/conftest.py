"""Settings for every test: the same examples in every run, and linear algebra on one core."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Before numpy is imported. Threads on small matrices wait for one another, ten times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Studies of which tests make a small part. At the end, so that no installed package is hidden.
sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None, database=None, print_blob=False)
settings.load_profile("ci")
