"""Distributions of noise for several attributes together: boxes, and Laplace noise on each attribute."""

__all__: list[str] = []
