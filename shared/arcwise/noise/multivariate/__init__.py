"""Noise for several attributes together: in shells of boxes or other bodies, independent, or on grids."""

__all__: list[str] = []
