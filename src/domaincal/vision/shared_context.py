"""Settings of other packages that belong to the whole process, changed for the time of a call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any


class SharedContext:
    """A context that the first thread enters and the last thread leaves.

    If each thread changed and restored a setting of the process, overlapping threads would restore
    the changed value.

    Examples
    --------
    >>> from contextlib import contextmanager
    >>> @contextmanager
    ... def loud():
    ...     print("changed")
    ...     yield
    ...     print("restored")
    >>> shared = SharedContext(loud)
    >>> with shared.entered(), shared.entered():
    ...     print("in two threads")
    changed
    in two threads
    restored
    """

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._n_inside = 0
        self._context: AbstractContextManager[Any]

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Enter the context, unless another thread has."""
        with self._lock:
            if self._n_inside == 0:
                self._context = self._make()
                self._context.__enter__()
            self._n_inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._n_inside -= 1
                if self._n_inside == 0:
                    self._context.__exit__(None, None, None)
