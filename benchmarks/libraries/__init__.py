"""One file for each library: functions from a problem's arrays to the number it finds.

``TEMPERATURE``, ``MULTI_DOMAIN``, ``ABLATION`` and ``BINNING`` name the entries of a library for
each kind of problem. What an entry's ``prepare`` does (conversions that the library asks for) is
not timed.
"""
