"""Estimates for readers: computed in a process of their own, kept in memory, sent as JSON, CSV or msgpack."""

__all__: list[str] = []
