"""How far new domains are, and whether that tells anything: ``python -m benchmarks.distance``."""
