"""Values that each thread keeps for itself, in objects that are sent to other processes."""

from __future__ import annotations

import threading
from typing import Any


class ThreadValues(threading.local):
    """Attributes of each thread; a copy in another process starts without any.

    Examples
    --------
    >>> import pickle
    >>> values = ThreadValues()
    >>> values.file = "open"
    >>> hasattr(pickle.loads(pickle.dumps(values)), "file")
    False
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return ThreadValues, ()
