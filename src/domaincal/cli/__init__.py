"""The command line; each verb parses its arguments, calls the library and prints the result."""

from __future__ import annotations

from domaincal.cli.main import main

__all__ = ["main"]
