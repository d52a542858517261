"""Randomising many values against diffprivlib, OpenDP and a float sampler in numpy, in turns.

Each library has a virtual environment of its own, created in a folder and filled from the package index.
Every program runs in a process of its own and reports the best of its repeats. All of them randomise numbers
in [0, 1] at epsilon 1, each number separately, as devices do:

- arcwise: `randomize_many` of the default task, exact integers, 16 bytes of secure randomness a report.
- numpy: the same density in floats with PCG64. Not private: which floats come out depends on the value.
- OpenDP: Laplace noise on a vector of floats (`make_laplace`), secure randomness, exact to its granularity.
- diffprivlib: `LaplaceTruncated(...).randomise`, a call a value, secure randomness; it takes no arrays.

The rivals' noise is the one that they offer; it is not arcwise's mechanism, and its errors are larger.

    python -m benchmarks.speed.randomize_rivals [--folder FOLDER] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.speed.tables import Table, print_table

if TYPE_CHECKING:
    from benchmarks.speed.tables import Show

__all__ = ["run"]

ROUNDS = 3

_BEST = """
import json, time
def best(call, count, repeats=5):
    least = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    print(json.dumps(count / least))
"""
_ARCWISE = (
    _BEST
    + """
import numpy as np
from arcwise.domains import Interval
from arcwise.tasks import Task
from benchmarks.speed.sampling import float_sampler
mechanism = Task("a", Interval(0, 1), 1.0).mechanism
generator = np.random.Generator(np.random.PCG64(1))
values = generator.random(1_000_000)
"""
)
PROGRAMS = {
    "numpy floats (not private)": (
        "",
        _ARCWISE + "best(lambda: float_sampler(values, generator), len(values))",
    ),
    "arcwise, randomize_many": ("", _ARCWISE + "best(lambda: mechanism.randomize_many(values), len(values))"),
    "arcwise, a call a value": (
        "",
        _ARCWISE
        + "some = values[:20_000].tolist()\nbest(lambda: [mechanism.randomize(x) for x in some], len(some))",
    ),
    "OpenDP, a vector": (
        "opendp",
        _BEST
        + """
import random
import opendp.prelude as dp
dp.enable_features("contrib")
space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
noise = dp.m.make_laplace(*space, scale=1.0)
values = [random.random() for _ in range(100_000)]
best(lambda: noise(values), len(values))
""",
    ),
    "diffprivlib, a call a value": (
        "diffprivlib",
        _BEST
        + """
import random
from diffprivlib.mechanisms import LaplaceTruncated
noise = LaplaceTruncated(epsilon=1.0, sensitivity=1.0, lower=0.0, upper=1.0)
values = [random.random() for _ in range(5_000)]
best(lambda: [noise.randomise(x) for x in values], len(values))
""",
    ),
}
"""The package to install (none for this environment), and the code that prints values a second."""

BESIDES = {"diffprivlib": ["scikit-learn<1.6"]}
"""Requirement that a package does not declare: diffprivlib 0.6.6 cannot import newer versions."""


def interpreter(package: str, folder: Path) -> str:
    """Return the interpreter of an environment with a package, which is created if needed."""
    if not package:
        return sys.executable
    place = folder / package
    python = place / "bin" / "python"
    if not python.exists():
        venv.create(place, with_pip=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", package, *BESIDES.get(package, [])], check=True
        )
    return str(python)


def version(package: str, python: str) -> str:
    """Return a package's name and its installed version."""
    code = f"from importlib.metadata import version; print({package!r}, version({package!r}))"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def run(folder: Path | None = None, rounds: int = ROUNDS, *, show: Show = print_table) -> None:
    """Show values a second of each."""
    with tempfile.TemporaryDirectory() as name:
        place = folder or Path(name)
        pythons = {package: interpreter(package, place) for package, _ in PROGRAMS.values()}
        rates: dict[str, list[float]] = {label: [] for label in PROGRAMS}
        for _ in range(rounds):
            for label, (package, code) in PROGRAMS.items():
                done = subprocess.run(
                    [pythons[package], "-c", code], check=True, capture_output=True, text=True
                )
                rates[label].append(json.loads(done.stdout))
        versions = {package: version(package or "numpy", python) for package, python in pythons.items()}
    medians = {label: statistics.median(each) for label, each in rates.items()}
    plain = next(iter(medians.values()))
    show(
        Table(
            "randomize-rivals",
            "python -m benchmarks.speed.randomize_rivals",
            [("", ""), ("with", ""), ("values/s", ",.0f"), ("beside numpy floats", ".3f")],
            [[label, versions[PROGRAMS[label][0]], rate, rate / plain] for label, rate in medians.items()],
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--folder", type=Path, help="folder of the environments; a temporary one unless given"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    run(given.folder, given.rounds)


if __name__ == "__main__":
    main()
