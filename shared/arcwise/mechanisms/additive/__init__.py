"""Additive noise as local mechanisms on an integer grid.

Reports are nodes plus noise, rounded to the grid; noise beyond the codes is clamped into the end codes. The
distributions themselves are in `arcwise.noise`. Only constructors import `arcwise.noise`, so a device that
samples from a task's table never loads it.
"""

__all__: list[str] = []
