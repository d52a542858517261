"""`arcwise randomize`: reports of a column of values, from file to file."""

from arcwise.cli.randomize.command import randomize

__all__ = ["randomize"]
