"""The way home for code that says ``import neptune``.

``python -m seamark.neptune train.py`` runs a script under which ``neptune`` is Seamark; `install`
does the same within a process, before anything imports it.
"""

from __future__ import annotations

from seamark.neptune.finder import install

__all__ = ["install"]
