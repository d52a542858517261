"""Benchmarks: speeds that are compared in one run, and studies of the quality of estimates."""
