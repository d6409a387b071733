"""Hash of a run's parameters and code, stored as the attribute ``sys/content_hash``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.store.fold.registers import NEVER, AtomState
from seamark.values.content import CONTENT, VERSION, content_hash, is_parameter

if TYPE_CHECKING:
    from seamark.store.fold.run_state import RunState

__all__ = ["derive_content"]


def derive_content(run: RunState) -> None:
    """Bring ``sys/content_hash`` up to date, if anything changed that it is made of.

    Whatever a journal says there is written over: the same records give the same hash everywhere.
    """
    if run.dirty.isdisjoint((CONTENT, VERSION)) and not any(map(is_parameter, run.dirty)):
        return
    run.need_all()
    found, key = {}, NEVER
    for path in run.attributes:
        if path != VERSION and not is_parameter(path):
            continue
        shown = run.surviving(path)
        if shown and isinstance(shown[0], AtomState):
            found[path] = (shown[0].type, shown[0].value)
            key = max(key, shown[0].key)
    text = content_hash(found)
    if text is None and CONTENT not in run.attributes:
        return
    state = run.family(CONTENT, "atom")
    if isinstance(state, AtomState):  # as it is for every atom
        state.key = key  # without anything to hash it shows nothing, as if it had never been there
        state.type, state.value = ("null", None) if text is None else ("string", text)
