"""`arcwise quickstart`: a program to begin with, in one file."""

from arcwise.cli.quickstart.command import quickstart

__all__ = ["quickstart"]
