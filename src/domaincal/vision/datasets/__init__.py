"""Data sets of images with labels and domains, one per file."""
