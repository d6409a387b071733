"""What a process keeps in memory does not grow with what strangers send."""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from typing import Any

from asking import ask
from folding import a_journal
from neptune_client import Client
from served import served

from seamark.neptune.server import log
from seamark.server import quota
from seamark.server.accounts import logins
from seamark.server.accounts.tables import new_token
from seamark.server.blobs import blobs
from seamark.server.folding.main import FoldWorker
from seamark.server.kept import intake
from seamark.store import schema

FEW = 3
"""What the tests lower the bounds to, so that a round fills them."""
RUNS = 5
"""Of one round: more than any bound, and more than a table may differ by from moment to moment."""


def held(*roots):
    """Return how much every table has that objects of Seamark's lead to, by its place."""
    found: dict[str, int] = {}
    seen: set[int] = set()
    todo: list[tuple[str, Any]] = [(type(root).__name__, root) for root in roots]
    while todo:
        place, one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, (dict, list, set, frozenset, tuple, deque)):
            found[place] = found.get(place, 0) + len(one)
            if place.endswith("._compiled"):
                continue  # statements, which are constants: some are used for the first time late
            inner = [*one.keys(), *one.values()] if isinstance(one, dict) else one
            todo += [(f"{place}[]", each) for each in inner]
        elif type(one).__module__.startswith("seamark."):
            names = [*getattr(one, "__dict__", ())]
            names += [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
            todo += [(f"{place}.{name}", getattr(one, name, None)) for name in names]
    return found


def test_no_table_of_a_worker_grows_with_what_it_is_sent(tmp_path, monkeypatch):
    """Paths, runs, projects, logins, wrong tokens, digests and queries: all are ever new ones."""
    monkeypatch.setattr(schema, "MOST_BYTES", FEW * 500)
    monkeypatch.setattr(logins, "_MAX_ENTRIES", FEW)
    monkeypatch.setattr(blobs, "_MAX_HASHES", FEW)
    monkeypatch.setattr(quota, "_MAX_WORKSPACES", FEW)
    monkeypatch.setattr(intake, "_MAX_REMEMBERED", FEW)
    monkeypatch.setattr(log, "_MAX_RUNS", FEW)
    monkeypatch.setattr(log, "_COUNT_EVERY", FEW)
    monkeypatch.setattr(log, "_MAX_DELETED", FEW)
    with served(tmp_path, quota=1 << 30) as here:
        url, server, admin = here.url, here.server, here.token
        worker = FoldWorker(server.databases, server.kept, threading.Event())

        def send(number):
            token = server.accounts.create_token("admin", by="admin").secret
            client, point = Client(url, token), {"value": 1.0, "timestampMilliseconds": number}
            writes = ({"logFloats": {"entries": [point]}}, {"assignInt": {"value": 1}})
            paths = [{"path": f"gone{number}"}, {"path": f"path{number}"}]
            for run in (always, client.new_run(f"team/n{number}")):
                assert client.do(run, *map(dict.__or__, paths, writes)) == []
                assert client.do(run, *(path | {"deleteAttribute": {}} for path in paths)) == []
            project, run = f"team/p{number}", f"run{number}"
            journal = a_journal(f"w{number}", project, run, attempt=0)
            journal.assign(**{f"path{number}x{at}": at for at in range(FEW)})
            journal.row({f"loss{number}": 1.0}, 0)
            place = f"runs/{project}/{run}"
            sent = ask(url, "PUT", f"{place}/journals/{journal.file}?offset=0", token, journal.data)
            assert sent.status == 200, sent.body
            content = f"content {number}".encode()
            digest = hashlib.sha256(content).hexdigest()
            part = f"{place}/blobs/{digest}?size={len(content)}&offset="
            assert ask(url, "PUT", f"{part}0", token, content[:4]).status == 200
            if number % 2:
                assert ask(url, "PUT", f"{part}4", token, content[4:]).status == 200
            assert ask(url, "GET", "accounts/me", new_token().secret).status in (401, 429)
            while worker.round():
                pass
            of_run = {"project": project, "run": run}
            asked = {
                "attributes": of_run,
                "attribute": {**of_run, "path": f"path{number}x1"},
                "table": {"query": f"path{number}x0 >= 0", "columns": [f"path{number}*"]},
                "series": {"refs": [[project, run]], "paths": [f"loss{number}*"]},
            }
            for verb, question in asked.items():
                for accept in ({}, {"Accept": "application/msgpack"}):
                    answer = ask(url, "POST", f"read/{verb}", token, question, accept)
                    assert answer.status == 200, answer.body

        always = Client(url, admin).new_run("team/always")
        roots = (server, worker, here.app.state.neptune_logs)
        for number in range(RUNS):
            send(number)
        first = held(*roots)
        for number in range(RUNS, 3 * RUNS):
            send(number)
        last = held(*roots)
        assert ask(url, "POST", "read/projects", admin, {}).status == 200
    grown = {place: (first.get(place, 0), size) for place, size in last.items()}
    assert len(last) > 20  # it was looked into
    assert {place: sizes for place, sizes in grown.items() if sizes[1] - sizes[0] >= RUNS} == {}
