"""Shared by tests and benchmarks: strategies of Hypothesis, servers, databases, recorders of requests."""
