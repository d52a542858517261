"""Distributions that make the reports likely: EM, averages of its iterates, certified maxima."""

__all__: list[str] = []
