"""Loads of minutes, run by hand: processes that are killed, and a server among hostile clients."""
