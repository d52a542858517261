"""Install the wheel with its extras on every installed Python, and test the core and the client there.

``python .ci/pythons.py [VERSION ...]``; by default the versions in pyproject.toml. Each Python gets its own
environment with the wheel, not the checkout. Interpreters are those of pyenv or on the path.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from wheel import ROOT, environment, packages, run

TESTS = ("tests/core", "tests/client")
INSTALLED = """
import sys, arcwise.client
from pathlib import Path
assert Path(arcwise.client.__file__).is_relative_to(sys.prefix), arcwise.client.__file__
"""


def interpreter(version: str) -> str | None:
    """Return the path of an interpreter of this version, or None."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for found in (*sorted(pyenv.glob(f"{version}.*/bin/python")), shutil.which(f"python{version}")):
        # A program on the path may be pyenv's own shim, which finds no interpreter.
        if found is not None and not subprocess.run((found, "-c", ""), check=False).returncode:
            return str(found)
    return None


def main() -> None:
    """Test each version; exit with 1 if one fails, or no version is installed."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    versions = sys.argv[1:] or re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    failed, tested, absent = [], [], []
    with tempfile.TemporaryDirectory() as name:
        wheel = packages(Path(name))
        for version in versions:
            found = interpreter(version)
            if found is None:
                absent.append(version)
                continue
            started = time.monotonic()
            python = environment(Path(name) / version, found, f"{wheel}[test]")
            run(python, "-c", INSTALLED, cwd=Path(name))
            tests = (python, "-m", "pytest", "-n", "2", "-p", "no:cacheprovider", "-m", "not slow", *TESTS)
            done = subprocess.run(
                tests, cwd=ROOT, check=False, env={**os.environ, "PYTHONPYCACHEPREFIX": name}
            )
            (failed if done.returncode else tested).append(version)
            print(f"Python {version}: {time.monotonic() - started:.0f} s", flush=True)
    print(f"passed on {', '.join(tested) or 'none'}; not installed here: {', '.join(absent) or 'none'}")
    if failed or not tested:
        raise SystemExit(f"failed on {', '.join(failed) or 'all'}")


if __name__ == "__main__":
    main()
