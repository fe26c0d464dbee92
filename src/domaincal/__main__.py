"""``python -m domaincal``."""

from __future__ import annotations

from domaincal.cli import main

if __name__ == "__main__":
    main(prog_name="domaincal")
