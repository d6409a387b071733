"""A real server: what was sent can be read, followed and edited."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("fastapi")

import httpx
from journal_builder import JournalBuilder

from seamark.reading.codec import unpack
from seamark.server import reads

RUN = {"project": "team/x", "run": "run0000000000000"}
AT = "runs/team/x/run0000000000000"


@pytest.fixture
def client(team) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {team.token}"}
    with httpx.Client(base_url=f"{team.url}/api/v1/", headers=headers, timeout=60) as made:
        yield made


def send(client, journal, offset: int = 0) -> dict[str, str]:
    """Send what is new of a journal; return the header of a read that sees it."""
    answer = client.put(
        f"{AT}/journals/{journal.file}", params={"offset": offset}, content=journal.data[offset:]
    )
    assert answer.status_code == 200, answer.text
    return {"Seamark-Position": f"{AT.removeprefix('runs/')}={answer.json()['position']}"}


def read(client, verb: str, position: dict[str, str], /, **question):
    """Return what can be read once that much is folded, be the machine ever so slow."""
    headers = {"Accept": "application/msgpack", **position}
    while True:
        answer = client.post(f"read/{verb}", json=question, headers=headers)
        if answer.status_code == 404 or "seamark-behind" in answer.headers:
            continue
        assert answer.status_code == 200, answer.text
        return unpack(answer.content, reads.verbs()[verb].envelope).answer


def test_sent_run_is_read_followed_edited_and_purged(client) -> None:
    """A read that names its position sees the batch; changes name the run; edits come back."""
    journal = JournalBuilder(run="run0000000000000", project="team/x")
    journal.op("state", state="running").assign(lr=0.5)
    position = send(client, journal)
    assert read(client, "attribute", position, **RUN, path="lr").value == 0.5
    cursor = read(client, "changes", {}).cursor
    before = journal.offset
    for step in range(100):
        journal.row({"loss": 1 / (step + 1)}, float(step))
    position = send(client, journal, before)
    (part,) = read(client, "points", position, **RUN, paths=["loss"])
    assert part.points.value.tolist() == [1 / (step + 1) for step in range(100)]
    changed = read(client, "changes", position, cursor=cursor)
    assert [(one.project, one.run) for one in changed.runs] == [("team/x", "run0000000000000")]
    refs = [["team/x", "run0000000000000"]]
    assert len(read(client, "curves", {}, refs=refs, paths=["loss"]).curves) == 1
    edit = {"refs": refs, "name": "best", "add_tags": ["a"]}
    told = client.patch("runs", json=edit).json()["runs"][0]
    assert told["ok"] is True
    position = {"Seamark-Position": f"team/x/run0000000000000={told['position']}"}
    columns = ["sys/name", "sys/tags", "sys/state"]
    table = read(client, "table", position, columns=columns).table
    (row,) = table.rows
    assert (row["sys/name"], row["sys/tags"]) == ("best", ["a"])
    cursor = read(client, "changes", position).cursor
    assert client.delete(AT).status_code == 200
    while not (gone := read(client, "changes", {}, cursor=cursor).runs):
        pass
    assert gone[0].gone is True
