"""How much a workspace may keep: said when it is full, and once by who sends."""

from __future__ import annotations

import hashlib
import logging
from itertools import pairwise

from asking import ask
from click.testing import CliRunner
from command import app
from folding import a_journal
from recording import QUIET
from served import served

import seamark
from seamark.cli.server import size_of
from seamark.remote import shipper as shippers


def put(here, project, run, name, data, offset=0):
    path = f"runs/{project}/{run}/journals/{name}?offset={offset}"
    return ask(here.url, "PUT", path, here.token, data)


def test_full_workspace_takes_no_more_and_others_go_on(tmp_path):
    made = a_journal("one", "lab/a", "run1")
    for step in range(40):
        made.row({"loss": float(step)}, step)
    content = b"x" * 500
    digest = hashlib.sha256(content).hexdigest()
    with served(tmp_path, quota=made.offset + 700) as here:
        for start, end in pairwise([0, *made.ends]):
            assert put(here, "lab/a", "run1", made.file, made.data[start:end], start).status == 200
        blob = f"runs/lab/b/run2/blobs/{digest}?offset=0&size={len(content)}"
        assert ask(here.url, "PUT", blob, here.token, content).status == 200
        other = a_journal("two", "lab/c", "run3").assign(long="x" * 300)
        full = put(here, "lab/c", "run3", other.file, other.data)
        assert (full.status, full.json()["error"]) == (403, "quota")
        assert full.json()["allowed"] == made.offset + 700
        assert "ask an admin for more" in full.json()["hint"]
        larger = ask(here.url, "PUT", blob.replace("lab/b", "lab/c"), here.token, content)
        assert (larger.status, larger.json()["error"]) == (403, "quota")
        assert put(here, "lab/a", "run1", made.file, made.data).status == 200
        there = a_journal("two", "lab2/c", "run3").assign(long="x" * 300)
        assert put(here, "lab2/c", "run3", there.file, there.data).status == 200
        # There is room again at once for what an owner purges, as soon as it is counted anew.
        assert ask(here.url, "DELETE", "runs/lab/a/run1", here.token).status == 200
        here.server.intake._quota._counted.clear()
        assert put(here, "lab/c", "run3", other.file, other.data).status == 200


def test_training_is_told_once_of_a_full_workspace_and_loses_nothing(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    with served(tmp_path / "server", quota=400) as here:
        run = seamark.init_run(
            "lab/a", root=tmp_path / "root", remote=here.url, api_token=here.token, **QUIET
        )
        for step in range(100):
            run.log_metrics({"loss": float(step)}, step=step)
        run.stop()
        shippers._shippers.clear()
    said = [one.getMessage() for one in caplog.records if "quota" in one.getMessage()]
    assert len(said) == 1, said
    assert "seamark sync" in said[0]
    with served(tmp_path / "server", quota=1 << 30) as here:
        token = here.server.accounts.create_token("admin", by="admin").secret
        words = ["sync", "--root", str(tmp_path / "root"), "--to", here.url]
        done = CliRunner(env={"SEAMARK_API_TOKEN": token}).invoke(app, words, prog_name="seamark")
        assert done.exit_code == 0, done.output
        known = here.server.intake.known("lab/a", run.id)[0]
    known = {name: size for name, size in known.items() if not name.startswith("arrival-")}
    local = {each.path.name: each.path.stat().st_size for each in run.folder.journals()}
    assert known == local


def test_sizes_have_units_of_ten_or_two():
    sizes = {"1000": 1000, "500GB": 500 * 10**9, "1.5 TiB": 3 << 39, "10k": 10_000, None: None}
    assert {text: size_of(text) for text in sizes} == sizes
    for text in ("", "0", "-5", "GB", "5 PB", "1e9", "a lot", "9" * 30):
        done = CliRunner().invoke(app, ["server", "--quota", text], prog_name="seamark")
        assert (done.exit_code, "--quota" in done.output) == (2, True), text
