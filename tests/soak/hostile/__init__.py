"""A server among hostile clients: ``python -m tests.soak.hostile``."""
