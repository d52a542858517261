"""Servers that are killed under load: at length in `tests/soak/kill_server.py`, in short in a test."""
