"""A ledger and a queue that last as long as their process."""

__all__: list[str] = []
