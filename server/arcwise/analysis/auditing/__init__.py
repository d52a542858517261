"""Audits: a lower confidence bound on the epsilon of any callable mechanism, from its outputs alone."""

__all__: list[str] = []
