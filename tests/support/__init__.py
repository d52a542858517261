"""What tests and benchmarks share: strategies of Hypothesis, servers, databases, recorders of requests."""
