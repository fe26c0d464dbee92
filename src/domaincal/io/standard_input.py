"""Standard input as a file that can be read twice."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from domaincal._memory import FREE_MEMORY, MemoryLimit, format_size
from domaincal.errors import FileFormatError

#: Path that stands for standard input.
STDIN = Path("-")
#: Name of standard input in messages.
STDIN_NAME = Path("standard input")
_BLOCK = 1 << 20


@contextmanager
def spooled_input(max_memory: int | None) -> Iterator[tuple[IO[bytes], MemoryLimit]]:
    """Copy standard input to a temporary file; also give the limit of the memory to read it.

    An input without end stops at ``max_memory`` bytes, by default 256 MiB.
    """
    most = FREE_MEMORY if max_memory is None else max_memory
    with tempfile.TemporaryFile() as file:
        size = 0
        while block := sys.stdin.buffer.read(_BLOCK):
            size += len(block)
            if size > most:
                raise FileFormatError(
                    f"{STDIN_NAME} has more than {format_size(most)}; write it to a file, or allow "
                    "more with max_memory=... (--max-memory)."
                )
            file.write(block)
        file.seek(0)
        yield file, MemoryLimit.of(STDIN_NAME, max_memory, size=size)
