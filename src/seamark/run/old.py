"""``init`` of the clients 0.9 to 0.16, which is `init_run` now."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from seamark.run.run import init_run

if TYPE_CHECKING:
    from seamark.run.run import Run

__all__ = ["init"]


def init(
    project: str | None = None,
    api_token: str | None = None,
    run: str | None = None,
    custom_run_id: str | None = None,
    mode: str | None = None,
    name: str | None = None,
    description: str | None = None,
    tags: str | Iterable[str] | None = None,
    source_files: str | Iterable[str] | None = None,
    **others: Any,
) -> Run:
    """Start a run, or open one that exists: ``neptune.init`` of the clients 0.9 to 0.16.

    Args:
        project: As in `seamark.init_run`, and so are all that are not named here.
        api_token: See there.
        run: ``with_id``.
        custom_run_id: See there.
        mode: See there.
        name: See there.
        description: See there.
        tags: See there.
        source_files: See there.
        **others: See there.

    Raises:
        SeamarkError: As `seamark.init_run`.

    .. deprecated:: 0.1
       Write ``init_run(project=..., with_id=...)``.
    """
    msg = "neptune.init() is that of old clients: write init_run(project=..., with_id=...)"
    warnings.warn(msg, DeprecationWarning, stacklevel=2)
    return init_run(
        project=project,
        api_token=api_token,
        with_id=run,
        custom_run_id=custom_run_id,
        mode=mode,  # type: ignore[arg-type]  # a word that `init_run` checks
        name=name,
        description=description,
        tags=tags,
        source_files=source_files,
        **others,
    )
