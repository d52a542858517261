"""Noise for several attributes together: shells of boxes and other bodies, independent noise, grids."""

__all__: list[str] = []
