"""Targets of the fuzzer ``tests/fuzz.py``, and the damage that it does."""
