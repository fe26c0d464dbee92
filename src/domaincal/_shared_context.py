"""Settings that belong to the whole process, changed for the time of a call."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any


class SharedContext:
    """A context that the first thread enters and the last thread leaves.

    If each thread changed and restored a setting of the process, overlapping threads would restore
    the changed value. A forked child has none of the other threads: it leaves the context.

    Examples
    --------
    >>> from contextlib import contextmanager
    >>> @SharedContext
    ... @contextmanager
    ... def loud():
    ...     print("changed")
    ...     yield
    ...     print("restored")
    >>> with loud.entered(), loud.entered():
    ...     print("in two threads")
    changed
    in two threads
    restored
    """

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._n_inside = 0
        self._context: AbstractContextManager[Any] | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._restart)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Enter the context, unless another thread has."""
        with self._lock:
            if self._context is None:
                context = self._make()
                context.__enter__()
                self._context = context
            self._n_inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._n_inside = max(0, self._n_inside - 1)  # 0 in a child that was forked inside
                if self._n_inside == 0:
                    self._leave()

    def _leave(self) -> None:
        context, self._context = self._context, None
        if context is not None:
            context.__exit__(None, None, None)

    def _restart(self) -> None:
        """Leave the context in a forked child; a thread of the parent may have held the lock."""
        self._lock = threading.Lock()
        self._n_inside = 0
        self._leave()
