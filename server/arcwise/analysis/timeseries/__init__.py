"""Estimates over time: epochs, points, and the test whether anything changes."""

__all__: list[str] = []
