"""Tasks: questions to devices, in bytes that client and server can agree on.

A name is imported on first use, because most apps need no group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.lazy import lazy_names

if TYPE_CHECKING:
    from arcwise.tasks.caps import DAY, Caps, Charge, micro_epsilon
    from arcwise.tasks.central import CentralStatement
    from arcwise.tasks.group import Group
    from arcwise.tasks.task import Task

__all__ = ["DAY", "Caps", "CentralStatement", "Charge", "Group", "Task", "micro_epsilon"]

if not TYPE_CHECKING:  # with `__getattr__`, a type checker would accept any name
    __getattr__ = lazy_names(
        __name__,
        {
            "caps": ("DAY", "Caps", "Charge", "micro_epsilon"),
            "central": ("CentralStatement",),
            "group": ("Group",),
            "task": ("Task",),
        },
    )
