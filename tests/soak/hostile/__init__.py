"""A server among clients that mean it harm: ``python -m tests.soak.hostile``."""
