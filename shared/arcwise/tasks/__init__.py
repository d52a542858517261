"""Tasks: what is asked of devices, in bytes that two sides can agree on."""

from arcwise.tasks.caps import DAY, Caps, micro_epsilon
from arcwise.tasks.task import Task

__all__ = ["DAY", "Caps", "Task", "micro_epsilon"]
