"""A state is known wherever states are listed, and groups consist of states."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from seamark.reading.states import (
    ACTIVE_STATES,
    ALIASES,
    CRASHED,
    GOOD_STATES,
    GROUPS,
    RECORDED_STATES,
    RESUMABLE_STATES,
    SETTABLE_STATES,
    STATES,
)

ROOT = Path(__file__).parents[2]
STATIC = "src/seamark/page/static"
IN_CODE = "`{}`"
OF_ALL = {
    "src/seamark/cli/_screen.py": '    "{}": "',
    "src/seamark/registry/project.py": '``"{}"``',
    f"{STATIC}/js/components.js": r'\n  {}: \["',
    f"{STATIC}/app.css": r"\.state\.{}\b",
    "docs/howto/states.md": IN_CODE,
    "docs/howto/reading-runs.md": IN_CODE,
    "docs/explanation/opening.md": r"\b{}\b",
}
LISTS = [
    *((STATES, path, pattern) for path, pattern in OF_ALL.items()),
    (RECORDED_STATES, "docs/reference/journal.md", IN_CODE),
    (RECORDED_STATES[1:], "src/seamark/reading/rank_text.py", '    "{}",'),
    (SETTABLE_STATES, "src/seamark/run/run.py", '``"{}"``'),
]

pytestmark = pytest.mark.once


@pytest.mark.parametrize(("states", "path", "pattern"), LISTS)
def test_state_is_known_wherever_states_are_listed(states, path, pattern):
    text = (ROOT / path).read_text("utf-8")
    assert [one for one in states if not re.search(pattern.format(one), text)] == []


def test_groups_and_aliases_consist_of_states():
    known = {*ACTIVE_STATES, *GOOD_STATES, *RESUMABLE_STATES, *ALIASES.values()}
    known = known.union(SETTABLE_STATES, *GROUPS.values())
    assert known == set(STATES)
    assert set(STATES) - set(RECORDED_STATES) == {CRASHED}
    assert set(GROUPS).isdisjoint(STATES)
    assert set(ALIASES).isdisjoint({*STATES, *GROUPS})
