"""Errors of predicted accuracies: ``python -m benchmarks.accuracy OUT --data FOLDER``."""
