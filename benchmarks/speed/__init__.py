"""Speeds as ratios, side by side in one run: ``python -m benchmarks.speed.run`` for all."""
