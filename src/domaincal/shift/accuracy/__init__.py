"""Accuracy of unlabelled rows, domain by domain, with intervals from left-out domains."""
