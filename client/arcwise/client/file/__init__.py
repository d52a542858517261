"""A ledger and its queue in one SQLite file, which outlives the process."""

__all__: list[str] = []
