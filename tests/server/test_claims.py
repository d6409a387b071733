"""Claims through a server: a transaction, on whichever of its workers."""

from __future__ import annotations

import time

import pytest
from recording import QUIET

import seamark
from seamark.journal.reader import SETTLE_NS
from seamark.journal.reservations import claimant
from seamark.remote.http.catalog import RemoteCatalog
from seamark.remote.protocol import RemoteError
from seamark.run.claims import Served, first_free

pytest.importorskip("fastapi")


def begin(count, project, **where):
    ids = []
    for number in range(count):
        with seamark.init_run(project=project, **QUIET, **where) as run:
            run["todo"], run["priority"] = True, number
        ids.append(run.id)
    return ids


def test_one_worker_gets_a_run(team, tmp_path):
    """As on a folder, of machines that have none in common; what a claimant sent is seen."""
    where = {"remote": team.url, "api_token": team.token}
    first, second = begin(2, "claims/a", root=tmp_path / "maker", **where)
    one = seamark.init_project("claims/a", root=tmp_path / "one", **where)
    two = seamark.init_project("claims/a", root=tmp_path / "two", **where)
    run = one.claim("todo = true", set={"worker": 1}, **QUIET)
    other = two.claim("todo = true", **QUIET)
    assert (run.id, other.id) == (first, second)
    assert two.claim("todo = true", **QUIET) is None
    assert run["sys/claimed_by"].fetch()
    assert run["sys/state"].fetch() == "running"
    run["todo"] = False
    run.stop()
    assert two.claim("todo = true", **QUIET) is None  # it was claimed, asked again and given back
    assert other.release()
    assert not other.release()
    again = one.claim("todo = true", sort_by="priority", ascending=False, **QUIET)
    assert again.id == second
    for each in (again, other, one, two):
        each.stop()


def test_a_group(team, tmp_path):
    where = {"remote": team.url, "api_token": team.token}
    begin(1, "claims/b", root=tmp_path / "maker", groups="folds", **where)
    with (
        seamark.init_project("claims/b", root=tmp_path / "one", **where) as one,
        seamark.init_project("claims/b", root=tmp_path / "two", **where) as two,
    ):
        group = one.claim_group("runs > 0", set={"seed": 2})
        assert group.name == "folds"
        assert two.claim_group() is None
        assert group.release()
        again = two.claim_group("metadata/seed = 2")
        assert again["seed"].fetch() == 2


def test_it_lapses(tmp_path):
    """When nothing was heard of the claimant for 90 s; who wakes up late is told."""
    from served import served

    clock = [time.time_ns()]
    with served(tmp_path / "server") as here:
        claims = here.server.claims
        claims._now_ns = lambda: clock[0]
        claims._position = lambda *_: 1
        facts, others = claimant(), {**claimant(), "pid": 1}
        ref = ("t", "a")
        assert claims.take([ref], "run", facts).number == 1
        assert claims.take([ref], "run", others) is None
        clock[0] += SETTLE_NS - 1
        assert claims.take([ref], "run", others) is None
        clock[0] += 2
        assert claims.take([ref, ("t", "b")], "run", others).number == 2
        assert not claims.holds(ref, "run", 1, facts["key"])
        assert not claims.release(ref, "run", 1, facts["key"])
        assert claims.holds(ref, "run", 2, others["key"])
        assert not claims.release(ref, "run", 2, facts["key"])
        assert claims.release(ref, "run", 2, others["key"])
        assert claims.take([ref], "run", facts).number == 3


def test_many_at_once(team, tmp_path):
    """Threads that ask for the same runs get each once, whoever answers them."""
    from concurrent.futures import ThreadPoolExecutor

    where = {"remote": team.url, "api_token": team.token}
    ids = begin(6, "claims/c", root=tmp_path / "maker", **where)
    refs = [("claims/c", one) for one in ids]
    with RemoteCatalog.open(team.url, team.token) as catalog:
        hold = first_free(Served(catalog), refs, lambda ref: ref == refs[1])
        assert hold.ref == refs[1]  # the first was given back
        assert hold.release()

    def taken(_):
        with RemoteCatalog.open(team.url, team.token) as catalog:
            found = []
            while (one := catalog.take_claim(refs, claimant(), groups=False)) is not None:
                found.append(one[0][1])
            return found

    with ThreadPoolExecutor(4) as pool:
        found = [run for some in pool.map(taken, range(4)) for run in some]
    assert sorted(found) == sorted(ids)


def test_who_may(team, tmp_path):
    """A viewer claims nothing; what is no run, or no claim of theirs, changes nothing."""
    where = {"remote": team.url, "api_token": team.token}
    (only,) = begin(1, "claims/d", root=tmp_path / "maker", **where)
    with RemoteCatalog.open(team.url, team.token) as catalog:
        assert catalog.take_claim([("claims/d", "gone")], claimant(), groups=False) is None
        assert catalog.take_claim([], claimant(), groups=False) is None
        assert catalog.take_claim([("claims/d", only)], claimant(), groups=False)[1] == 1
        assert not catalog.holds_claim(("claims/d", only), 1, "0" * 16, groups=False)
        with pytest.raises(seamark.errors.SeamarkError, match="key"):
            catalog.take_claim([("claims/d", only)], {**claimant(), "key": "x"}, groups=False)
    with (
        RemoteCatalog.open(team.url, "smk_nobody") as catalog,
        pytest.raises(RemoteError),
    ):
        catalog.take_claim([("claims/d", only)], claimant(), groups=False)
