"""A share of a core for a process: two cores then suffice for worker, load generator and database.

It uses Linux control groups, version 1 or 2, and needs root.
"""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["cpu_share"]

_ROOT = Path("/sys/fs/cgroup")
_PERIOD_US = 10_000


@contextmanager
def cpu_share(pid: int, share: float) -> Iterator[None]:
    """Limit a process with all its threads to `share` of one core while the block runs.

    Raises
    ------
    OSError
        If this system does not allow it.
    """
    unified = (_ROOT / "cgroup.controllers").exists()
    parent = _ROOT if unified else _ROOT / "cpu"
    group = parent / f"arcwise-{secrets.token_hex(4)}"
    group.mkdir()
    try:
        quota = int(share * _PERIOD_US)
        if unified:
            (group / "cpu.max").write_text(f"{quota} {_PERIOD_US}", encoding="ascii")
        else:
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US), encoding="ascii")
            (group / "cpu.cfs_quota_us").write_text(str(quota), encoding="ascii")
        (group / "cgroup.procs").write_text(str(pid), encoding="ascii")
        yield
    finally:
        for left in (group / "cgroup.procs").read_text("ascii").split():
            (parent / "cgroup.procs").write_text(left, encoding="ascii")
        group.rmdir()
