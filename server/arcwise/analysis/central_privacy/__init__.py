"""Central privacy: what the counts of n reports reveal to somebody who sees no single report."""

__all__: list[str] = []
