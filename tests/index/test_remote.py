from __future__ import annotations

import seamark
from seamark.index.remote import RootRemote
from seamark.remote.protocol import RunKey


def test_names_of_models_and_runs_do_not_compete(tmp_path):
    """As on a server: only the names of the same place count."""
    with seamark.init_run(name="net", project="team/p", root=tmp_path):
        pass
    remote = RootRemote(tmp_path)
    model = RunKey("team/p/.models", "NET")
    assert remote.arrive(model, "net", "error", make_project=True).outcome == "go"
    other = RunKey("team/p", "other")
    assert remote.arrive(other, "net", "error", make_project=True).outcome == "taken"
