"""Data sets: here, the synthetic one with known temperatures."""

from domaincal.datasets.synthetic import make_multi_domain

__all__ = ["make_multi_domain"]
