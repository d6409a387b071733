from __future__ import annotations

import os
import re
import socket

import pytest

from seamark.journal.folder import (
    hashed_run_id,
    iter_runs,
    journal_name,
    mint_run_id,
    purged_ids,
    split_journal_name,
    writer_id,
)
from seamark.paths import check_name
from seamark.process.liveness import host_name

ID = re.compile(r"[a-z0-9]{16}")
UID = bytes(range(16))


def test_minted_ids_are_unique_and_legal():
    drawn = [mint_run_id() for _ in range(1000)]
    assert len(set(drawn)) == 1000
    assert len({one[:4] for one in drawn[:200]}) > 195  # the first characters tell them apart
    assert all(ID.fullmatch(one) and check_name(one) for one in drawn)


def test_hashed_ids_agree_between_processes():
    assert hashed_run_id("team/mnist", "nightly") == "48ktib6gciu1fhsm"
    assert ID.fullmatch(hashed_run_id("a/b", "x"))
    assert len({hashed_run_id(*pair) for pair in [("a", "bc"), ("ab", "c"), ("a", "b")]}) == 3
    assert ID.fullmatch(hashed_run_id("a", "\udc80 any text \x00"))


@pytest.mark.parametrize("name", ["gpu-7", "Ünïcode host", "a" * 200, "..", "", "-x-", "con"])
def test_any_host_name_gives_a_legal_writer_id(name, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: name)
    writer = writer_id(UID)
    assert check_name(writer) == writer
    assert writer.startswith(host_name())
    assert writer.endswith(f"-{os.getpid()}-00010203")


def test_journal_name_carries_writer_and_uid():
    name = journal_name("gpu.lab-12-00010203", UID)
    assert name == "gpu.lab-12-00010203.000102030405060708090a0b0c0d0e0f"
    assert split_journal_name(name) == ("gpu.lab-12-00010203", UID)
    assert split_journal_name("plain") == ("plain", None)
    assert split_journal_name("a.b") == ("a.b", None)


def test_temporaries_are_no_journals(folder):
    assert folder.journals() == []
    folder.journal_dir.mkdir(parents=True)
    for name in ("b.1", ".a.1.Xy12", "a.2"):
        (folder.journal_dir / name).touch()
    assert [one.path.name for one in folder.journals()] == ["a.2", "b.1"]


def test_runs_are_found_below_projects(tmp_path):
    runs = ["p/r2", "p/r1", "p/sub/r3", "q/r4"]
    for name in [*runs, "p/.project", "p/.purged/gone", "p/r1/files/x"]:
        (tmp_path / name / "journal").mkdir(parents=True)
    (tmp_path / "p" / "empty").mkdir()
    found = [(one.project, one.run) for one in iter_runs(tmp_path)]
    assert found == [("p", "r1"), ("p", "r2"), ("p/sub", "r3"), ("q", "r4")]
    assert [one.run for one in iter_runs(tmp_path, "p/sub")] == ["r3"]
    known = iter_runs(tmp_path, "p", known={"p/empty"})  # which need no look inside
    assert [one.run for one in known] == ["empty", "r1", "r2", "r3"]
    assert list(iter_runs(tmp_path / "nowhere")) == []
    assert list(iter_runs(tmp_path, "nowhere")) == []


def test_purged_ids_are_the_marks(folder):
    assert purged_ids(folder.root, folder.project) == set()
    folder.purged_mark.parent.mkdir(parents=True)
    folder.purged_mark.touch()
    assert purged_ids(folder.root, folder.project) == {folder.run}
