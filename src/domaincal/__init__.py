"""domaincal: classifier confidence that means what it says, in every domain and in new ones.

The names below are loaded at first use (``__init__.pyi`` lists them), so that importing domaincal
stays fast. Everything else is one level down, in ``domaincal.metrics``, ``domaincal.datasets``,
``domaincal.shift``, ``domaincal.vision``, ``domaincal.experiments``, ``domaincal.plots`` and
``domaincal.errors``.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
