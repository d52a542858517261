"""Speeds as ratios, compared in one run: ``python -m benchmarks.speed.run`` runs all."""
