"""The command line; each verb parses its arguments, calls the library and prints the result."""

from domaincal.cli.main import main

__all__ = ["main"]
