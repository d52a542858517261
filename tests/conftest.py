"""Settings for every test: the same examples in every run, and linear algebra on one core."""

from __future__ import annotations

import os

# Before numpy is imported. Threads on small matrices wait for one another, ten times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None, database=None, print_blob=False)
settings.load_profile("ci")
