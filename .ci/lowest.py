"""Write a constraints file for pip that holds every library to the lowest version that pyproject.toml allows.

``python .ci/lowest.py > lowest.txt``. It holds what arcwise needs where it runs, and not the tools of `dev`.
"""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
EXTRAS = ("dependencies", "analysis", "server", "plots", "postgres", "lake", "demo")
REQUIREMENT = re.compile(r'"([\w-]+)(?:\[\w+\])?>=([\d.]+)(;[^"]*)?"')

text = PROJECT.read_text(encoding="utf-8")
for extra in EXTRAS:
    # tomllib is newer than the oldest Python, and this reads a file of our own.
    (requirements,) = re.findall(rf"^{extra} = \[(.*?)\]$", text, re.DOTALL | re.MULTILINE)
    for name, version, marker in REQUIREMENT.findall(requirements):
        print(f"{name}=={version}{marker}")
