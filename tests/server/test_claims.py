"""Claims through a server: a transaction, on whichever of its workers."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from recording import QUIET
from served import served

import seamark
from seamark.journal.reader import SETTLE_NS
from seamark.journal.reservations import claimant
from seamark.remote.http.catalog import RemoteCatalog
from seamark.remote.protocol import RemoteError
from seamark.run.claims import Served, first_free


@pytest.fixture
def where(team):
    return {"remote": team.url, "api_token": team.token}


def begin(count, project, **where):
    ids = []
    for number in range(count):
        with seamark.init_run(project=project, **QUIET, **where) as run:
            run["todo"], run["priority"] = True, number
        ids.append(run.id)
    return ids


def test_claim_lapses_90_s_after_its_claimant_was_heard(tmp_path):
    clock = [time.time_ns()]
    with served(tmp_path / "server") as here:
        claims = here.server.claims
        claims._now_ns = lambda: clock[0]
        claims._position = lambda *_: 1
        facts, others = claimant(), {**claimant(), "pid": 1}
        ref = ("t", "a")
        assert claims.take([ref], "run", facts).number == 1
        assert claims.take([ref], "run", others).ref is None
        clock[0] += SETTLE_NS - 1
        assert claims.take([ref], "run", others).ref is None
        clock[0] += 2
        assert claims.take([ref, ("t", "b")], "run", others).number == 2
        assert not claims.holds(ref, "run", 1, facts["key"])
        assert not claims.release(ref, "run", 1, facts["key"])
        assert claims.holds(ref, "run", 2, others["key"])
        assert not claims.release(ref, "run", 2, facts["key"])
        assert claims.release(ref, "run", 2, others["key"])
        assert claims.take([ref], "run", facts).number == 3


def test_run_or_group_is_claimed_by_one_of_two_machines(where, tmp_path):
    """As on a folder, though they have none in common; what a claimant sent is seen."""
    first, second = begin(2, "claims/a", root=tmp_path / "maker", groups="folds", **where)
    one, two = (
        seamark.init_project("claims/a", root=tmp_path / name, **where) for name in ("one", "two")
    )
    run, other = one.claim("todo = true", **QUIET), two.claim("todo = true", **QUIET)
    assert (run.id, other.id) == (first, second)
    run["todo"] = False
    run.stop()
    assert two.claim("todo = true", **QUIET) is None  # it was claimed, asked again and given back
    assert other.release()
    assert not other.release()
    again = one.claim("todo = true", sort_by="priority", ascending=False, **QUIET)
    assert again.id == second
    group = one.claim_group("runs > 0", set={"seed": 2})
    assert group.name == "folds"
    assert two.claim_group() is None
    assert group.release()
    assert two.claim_group("metadata/seed = 2")["seed"].fetch() == 2
    for each in (again, other, one, two):
        each.stop()


def test_threads_that_ask_at_once_get_each_run_once_and_strangers_none(team, where, tmp_path):
    ids = begin(6, "claims/c", root=tmp_path / "maker", **where)
    refs = [("claims/c", one) for one in ids]

    def taken(_):
        with RemoteCatalog.open(team.url, team.token) as catalog:
            found = []
            while (one := catalog.take_claim(refs, claimant(), groups=False)) is not None:
                found.append(one[0][1])
            return found

    with RemoteCatalog.open(team.url, team.token) as catalog:
        hold = first_free(Served(catalog), refs, lambda ref: ref == refs[1])
        assert hold.ref == refs[1]  # the first was given back
        assert hold.release()
        with ThreadPoolExecutor(4) as pool:
            found = [run for some in pool.map(taken, range(4)) for run in some]
        assert sorted(found) == sorted(ids)
        for nothing in ([("claims/c", "gone")], []):
            assert catalog.take_claim(nothing, claimant(), groups=False) is None
        assert not catalog.holds_claim(refs[0], 1, "0" * 16, groups=False)
        with pytest.raises(seamark.errors.SeamarkError, match="key"):
            catalog.take_claim(refs, {**claimant(), "key": "x"}, groups=False)
    with RemoteCatalog.open(team.url, "smk_nobody") as stranger, pytest.raises(RemoteError):
        stranger.take_claim(refs, claimant(), groups=False)
