"""Tasks: what is asked of devices, in bytes that two sides can agree on."""

from arcwise.tasks.caps import DAY, Caps, Charge, micro_epsilon
from arcwise.tasks.group import Group
from arcwise.tasks.task import Task

__all__ = ["DAY", "Caps", "Charge", "Group", "Task", "micro_epsilon"]
