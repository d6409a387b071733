"""Observations of hosts about processes that are gone, in the state of a run."""

from __future__ import annotations

import pytest

from seamark.store.fold.run_state import JournalState, RunState

SILENCE_NS = 45 * 10**9


def test_an_observation_is_not_believed_once_the_process_records_more():
    """Somebody took it for gone who could not see it: the run goes on."""
    state = observed("process gone")
    about, now = state.journals[b"0"], 10**18
    state.apply_observations(SILENCE_NS)
    assert about.heard == now - SILENCE_NS - 1
    assert about.header["ended_how"] == "process gone"
    about.last_offset, about.heard = 96, now + 1  # folded again
    state.apply_observations(SILENCE_NS)
    assert about.heard == now + 1
    assert "ended_how" not in about.header


def test_the_order_of_observations_changes_nothing():
    found = set()
    for order in ([b"0", b"1", b"2"], [b"2", b"1", b"0"], [b"1", b"0", b"2"]):
        state = observed("process gone", "out of memory")
        state.journals = {uid: state.journals[uid] for uid in order}
        state.apply_observations(SILENCE_NS)
        found.add(state.journals[b"0"].header["ended_how"])
    assert found == {"process gone"}


@pytest.mark.parametrize("told", [{"ended_at": "x"}, {"ended_how": ["x"]}, {"ended": 3}])
def test_an_observation_of_a_stranger_may_hold_anything(told):
    state = observed("process gone")
    state.journals[b"1"].take_header({**state.journals[b"1"].header, **told})
    state.apply_observations(SILENCE_NS)


def observed(*reasons):
    """Return a run of one process, of whose end other journals tell."""
    state, place = RunState(), {"host": "h", "boot": "b"}
    for at in range(1 + len(reasons)):
        uid = str(at).encode()
        one = JournalState(f"w-{at}", uid, file=f"w-{at}", last_offset=64, heard=10**18)
        told = {"ended": "w-0", "ended_at": 64, "ended_how": reasons[at - 1]} if at else {}
        one.take_header({**place, "owner": not at, **told})
        state.journals[uid] = one
    return state
