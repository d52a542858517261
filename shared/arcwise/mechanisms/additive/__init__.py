"""Additive noise as local mechanisms on an integer grid.

Reports are nodes plus noise, rounded to the grid, with what lies beyond the codes clamped into the end codes.
The distributions themselves are in `arcwise.noise`; only constructors import them, so a device that samples
from a task's table never does.
"""

__all__: list[str] = []
