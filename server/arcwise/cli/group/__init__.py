"""`arcwise group`: make, show and verify groups of tasks that share a budget."""

from arcwise.cli.group.command import group

__all__ = ["group"]
