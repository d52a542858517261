"""The embedded store: one SQLite file."""

__all__: list[str] = []
