"""The command line: parse, call one library function, print."""

from domaincal.cli.main import main

__all__ = ["main"]
