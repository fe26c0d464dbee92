"""Comparison of all calibrators under shift: ``python -m benchmarks.shift --data FOLDER OUT``."""
