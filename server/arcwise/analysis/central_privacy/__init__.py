"""Central privacy: the information that counts of n reports reveal to a reader who sees no single report."""

__all__: list[str] = []
