"""Run a command on a machine whose cores are all busy with something else.

``python -m tests.support.busy COMMAND ARGUMENT ...`` exits with the command's status. One process for each
core counts meanwhile; these processes always end with this one.
"""

from __future__ import annotations

import os
import subprocess
import sys

COUNT = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    sum(range(1_000_000))"


def main(command: list[str]) -> int:
    """Return the exit status of the command."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    busy = [subprocess.Popen([sys.executable, "-c", COUNT, str(os.getpid())]) for _ in range(cores)]
    try:
        return subprocess.run(command, check=False).returncode
    finally:
        for process in busy:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
