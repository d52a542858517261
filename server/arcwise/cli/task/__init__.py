"""`arcwise task`: make, show and verify task files."""

from arcwise.cli.task.command import task

__all__ = ["task"]
