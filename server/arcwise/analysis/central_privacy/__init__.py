"""Central privacy: what counts of n reports reveal to a reader who sees none of these reports."""

__all__: list[str] = []
