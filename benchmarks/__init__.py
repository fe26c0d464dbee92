"""Speed and memory, as ratios measured in one run on pinned threads: ``make bench``."""
