"""Estimates over time: epochs, points, and the test for a change."""

__all__: list[str] = []
