"""A real server: what was sent can be read, followed and edited."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi")

from asking import ask
from journal_builder import JournalBuilder

from seamark.reading.codec import unpack
from seamark.server import reads

RUN = {"project": "team/x", "run": "run0000000000000"}
NAME = "team/x/run0000000000000"


def test_sent_run_is_read_followed_edited_and_purged(team) -> None:
    def send(journal, offset=0):
        path = f"runs/{NAME}/journals/{journal.file}?offset={offset}"
        return ask(team.url, "PUT", path, team.token, journal.data[offset:]).json()["position"]

    def read(verb, position=0, **question):
        """Return what can be read once that much is folded, be the machine ever so slow."""
        headers = {"Accept": "application/msgpack"}
        headers |= {"Seamark-Position": f"{NAME}={position}"} if position else {}
        while True:
            answer = ask(team.url, "POST", f"read/{verb}", team.token, question, headers)
            if answer.status == 404 or "seamark-behind" in answer.headers:
                continue
            assert answer.status == 200, answer.body
            return unpack(answer.body, reads.verbs()[verb].envelope).answer

    journal = JournalBuilder(**RUN).op("state", state="running").assign(lr=0.5)
    assert read("attribute", send(journal), **RUN, path="lr").value == 0.5
    cursor, before = read("changes").cursor, journal.offset
    values = [1 / (step + 1) for step in range(100)]
    for step, value in enumerate(values):
        journal.row({"loss": value}, float(step))
    position = send(journal, before)
    (part,) = read("points", position, **RUN, paths=["loss"])
    assert part.points.value.tolist() == values
    changed = read("changes", position, cursor=cursor)
    assert [{"project": one.project, "run": one.run} for one in changed.runs] == [RUN]
    refs = [[*RUN.values()]]
    assert len(read("curves", refs=refs, paths=["loss"]).curves) == 1
    edit = {"refs": refs, "name": "best", "add_tags": ["a"]}
    (told,) = ask(team.url, "PATCH", "runs", team.token, edit).json()["runs"]
    assert told["ok"] is True
    columns = ["sys/name", "sys/tags", "sys/state"]
    (row,) = read("table", told["position"], columns=columns).table.rows
    assert (row["sys/name"], row["sys/tags"]) == ("best", ["a"])
    cursor = read("changes", told["position"]).cursor
    assert ask(team.url, "DELETE", f"runs/{NAME}", team.token).status == 200
    while not (gone := read("changes", cursor=cursor).runs):
        pass
    assert gone[0].gone is True
