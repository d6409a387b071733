"""Runs that are the same experiment: hashes, revisions, and what is done about another one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from recording import QUIET

import seamark
from seamark import errors
from seamark.journal.reservations import REVISIONS, take_revision

PARAMS = {"lr": 0.1, "layers": [1, 2], "name": "a", "on": True, "none": None, "n": 3}


def begin(project="t", **given):
    run = seamark.init_run(project=project, **{**QUIET, **given})
    run.stop()
    return run


def facts(run):
    with seamark.init_run(project=run.project, with_id=run.id, mode="read-only") as opened:
        names = ("content_hash", "start_hash", "revision")
        return {
            one: opened[f"sys/{one}"].fetch() if f"sys/{one}" in opened else None for one in names
        }


class TestHash:
    def test_integers_of_more_digits_than_python_writes(self):
        """A run with one is listed, told from another one, and a revision, like any other."""
        runs = [begin(params={"n": 10**5000 + add}) for add in (0, 0, 1)]
        found = [facts(run) for run in runs]
        assert [one["revision"] for one in found] == [1, 2, 1]
        assert found[0]["content_hash"] == found[1]["content_hash"] != found[2]["content_hash"]
        with seamark.init_project("t", mode="read-only") as project:
            assert set(project.fetch_runs_table()["sys/id"]) == {run.id for run in runs}

    def test_what_counts(self):
        """Parameters with their types, adapters' included, and nothing else; null without any."""
        one = facts(begin(params=PARAMS))
        assert one["content_hash"] == one["start_hash"]
        assert len(one["content_hash"]) == 32
        assert (
            facts(begin(params=dict(reversed(PARAMS.items())), name="x"))["content_hash"]
            == (one["content_hash"])
        )
        others = [
            {**PARAMS, "lr": 0.2},
            {**PARAMS, "n": 3.0},
            {**PARAMS, "more": 1},
            {**PARAMS, "none": "None"},
        ]
        hashes = {facts(begin(params=each))["content_hash"] for each in others}
        assert len(hashes | {one["content_hash"]}) == 5
        assert facts(begin()) == dict.fromkeys(one)
        with seamark.init_run(project="t", **QUIET) as run:
            run["training/hyperparams/lr"] = 1
        found = facts(run)
        assert found["content_hash"]
        assert found["revision"] is None

    def test_secrets_count_as_they_are_shown(self):
        """Two runs that differ in a token are the same."""
        hashes = [facts(begin(params={"api_key": key}))["content_hash"] for key in ("sk-1", "sk-2")]
        assert hashes[0] == hashes[1]

    def test_it_follows_what_is_recorded(self):
        """A later change alters the hash, never the revision; so does a delete."""
        run = seamark.init_run(project="t", params=PARAMS, **QUIET)
        before = facts(run)
        run["parameters/lr"] = 0.5
        changed = facts(run)
        assert changed["content_hash"] != before["content_hash"]
        assert changed["start_hash"] == before["start_hash"]
        run["parameters/lr"] = 0.1
        assert facts(run) == before
        run["source_code/version"] = "abc"
        assert facts(run)["content_hash"] not in (None, before["content_hash"])
        del run["parameters"]
        assert facts(run) == {**before, "content_hash": None}
        run.stop()
        with pytest.raises(errors.PathError, match="sys/content_hash"):
            seamark.init_run(project="t", **QUIET)["sys/content_hash"] = "x"

    def test_any_order_gives_the_same(self, tmp_path):
        """Folded from scratch, in one go or after each record, as the index has it."""
        run = seamark.init_run(project="t", params=PARAMS, **QUIET)
        for step in range(4):
            run[f"parameters/p{step}"] = float("nan") if step % 2 else 2**70
            facts(run)
        run.stop()
        told = facts(run)
        with seamark.init_project("t") as project:
            project.session.recorded.index.rebuild()
        assert facts(run) == told
        with seamark.init_project("t") as project:
            table = project.fetch_runs_table(query=f'sys/content_hash = "{told["content_hash"]}"')
            assert [row["sys/id"] for row in table] == [run.id]

    @pytest.mark.once
    def test_the_code_counts(self, captured):
        """Of a script: the version of what was executed when the run began."""
        script = (
            "import seamark, sys\n"
            "run = seamark.init_run(project='t', params={'a': 1}, on_duplicate='reuse')\n"
            "print(run.id)\nrun.stop()\n"
        )

        def ran(text):
            Path("train.py").write_text(text)
            done = subprocess.run(
                [sys.executable, "train.py"], check=True, capture_output=True, text=True
            )
            return done.stdout.strip()

        first = ran(script)
        assert ran(script) == first
        assert ran(script + "# other\n") != first

    @pytest.mark.once
    @pytest.mark.parametrize("given", ["params={'a': 1}", "run['parameters/a'] = 1"])
    def test_the_code_counts_from_the_first_read_on(self, captured, given):
        """Of a run that is given parameters, or says them later; not once a thread has looked."""
        at_start, later = (given, "") if given.startswith("params") else ("", given)
        script = (
            "import sys, threading, seamark\n"
            "from seamark.capture.code.code import Code\n"
            "wait, find = threading.Event(), Code.__init__\n"
            "Code.__init__ = lambda *given: (wait.wait(), find(*given))[1]\n"
            f"run = seamark.init_run(project='t', {at_start})\n"
            f"{later}\n"
            "with seamark.init_project('t') as project:\n"
            "    (row,) = project.fetch_runs_table()\n"
            "    first = row['sys/content_hash']\n"
            "    print(project.find_run(content_hash=first).id == run.id, first)\n"
            "wait.set()\n"
            "run.stop()\n"
            "print(run['sys/content_hash'].fetch(), run['source_code/version'].fetch())\n"
        )
        Path("train.py").write_text(script)
        done = subprocess.run(
            [sys.executable, "train.py"], check=True, capture_output=True, text=True
        )
        was_found, first, last, version = done.stdout.split()
        assert (was_found, first) == ("True", last)
        assert len(version) == 16

    def test_a_version_that_is_given_counts(self, captured):
        """In the place of the version of what was executed, and whether or not that is recorded."""
        versions = [{"code_version": "1"}, {"code_version": "2"}]
        found = [facts(begin(params=PARAMS, **given)) for given in versions]
        assert [one["revision"] for one in found] == [1, 1]
        assert all(one["start_hash"] == one["content_hash"] for one in found)
        again = facts(begin(params=PARAMS, code_version="1"))
        assert again == {**found[0], "revision": 2}


class TestOnDuplicate:
    def test_new(self):
        """Revisions count up, of each hash and in each project by itself."""
        runs = [begin(params=PARAMS) for _ in range(3)]
        assert [facts(run)["revision"] for run in runs] == [1, 2, 3]
        assert facts(begin(params={"lr": 1}))["revision"] == 1
        assert facts(begin("t/below", params=PARAMS))["revision"] == 1

    def test_reuse_and_error(self):
        """The newest goes on, in the same project; with ``"error"`` it is named."""
        first, second = begin(params=PARAMS), begin(params=PARAMS)
        again = begin(params=PARAMS, on_duplicate="reuse")
        assert again.id == second.id
        assert facts(again)["revision"] == 2
        with pytest.raises(errors.DuplicateRunError, match=second.id):
            begin(params=PARAMS, on_duplicate="error")
        assert begin(params={"lr": 7}, on_duplicate="error").id not in (first.id, second.id)
        assert begin("t/below", params=PARAMS, on_duplicate="reuse").id != second.id
        assert begin(params={"lr": 8}, on_duplicate="reuse").id != second.id

    def test_what_was_thrown_away_is_no_duplicate(self):
        """A run in the trash, and a purged one, whose number is not given again."""
        from click.testing import CliRunner

        from seamark.cli import app

        first, second = begin(params=PARAMS), begin(params=PARAMS)
        assert CliRunner().invoke(app, ["trash", second.id]).exit_code == 0
        assert begin(params=PARAMS, on_duplicate="reuse").id == first.id
        for run in (first, second):
            CliRunner().invoke(app, ["trash", run.id])
            assert CliRunner().invoke(app, ["purge", run.id, "--yes"]).exit_code == 0
        third = begin(params=PARAMS, on_duplicate="error")
        assert facts(third)["revision"] == 3

    def test_a_folder_without_numbers(self):
        """Merged or moved, it is known by what the runs recorded; a renamed run stays the same."""
        import shutil

        run = begin(params=PARAMS)
        with seamark.init_run(project="t", with_id=run.id, **QUIET) as opened:
            opened["sys/name"] = "other"
        shutil.rmtree(Path(".seamark/t") / REVISIONS)
        assert begin(params=PARAMS, on_duplicate="reuse").id == run.id

    def test_mistakes(self):
        """Each is said at once, and nothing is made."""
        for given, told in (
            ({"on_duplicate": "old", "params": PARAMS}, "on_duplicate: expected one of 'new'"),
            ({"on_duplicate": "reuse"}, "on_duplicate='reuse': expected params="),
            ({"on_duplicate": "error", "params": {}}, "expected params="),
            ({"on_duplicate": "reuse", "params": PARAMS, "with_id": "a"}, "expected no with_id"),
            (
                {"on_duplicate": "reuse", "params": PARAMS, "custom_run_id": "a"},
                "expected no custom_run_id",
            ),
        ):
            with pytest.raises(errors.ArgumentError, match=told):
                begin(**given)
        assert not Path(".seamark").exists()

    def test_from_a_file(self):
        """The parameters of a ``config_path`` count as those given."""
        Path("run.yaml").write_text("params: {lr: 0.1}\n")
        run = begin(config_path="run.yaml")
        assert begin(params={"lr": 0.1}, on_duplicate="reuse").id == run.id
        assert begin(config_path="run.yaml", on_duplicate="reuse").id == run.id

    @pytest.mark.once
    def test_processes_at_once(self):
        """Revisions are given once, and whoever comes later goes on with the newest run."""
        script = (
            "import seamark\n"
            "input()\n"
            "run = seamark.init_run(project='t', params={'a': 1}, on_duplicate='reuse',"
            " capture=dict(script=False, git=False, packages=False, host=False))\n"
            "print(run.id)\nrun.stop()\n"
        )
        some = [
            subprocess.Popen(
                [sys.executable, "-c", script],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(3)
        ]
        for process in some:
            process.stdin.write("\n")
            process.stdin.flush()
        ids = {process.communicate(timeout=120)[0].strip() for process in some}
        table = seamark.init_project("t", mode="read-only").fetch_runs_table(
            columns=["sys/revision"], sort_by="sys/creation_time", ascending=True
        )
        assert set(table["sys/id"]) == ids
        # Of those that began at once, the newest need not have asked last for its revision.
        assert sorted(table["sys/revision"]) == list(range(1, len(ids) + 1))
        assert begin(params={"a": 1}, on_duplicate="reuse").id == table["sys/id"][-1]


class TestFindRun:
    def test_by_hash_and_revision(self):
        """The newest, or the one asked for, opened for reading; None if there is none."""
        first, second = begin(params=PARAMS), begin(params=PARAMS)
        text = facts(first)["content_hash"]
        with seamark.init_project("t") as project:
            assert project.find_run(content_hash=text).id == second.id
            found = project.find_run(content_hash=text, revision=1)
            assert found.id == first.id
            assert found.mode == "read-only"
            assert project.find_run(content_hash=text, revision=3) is None
            assert project.find_run(content_hash="0" * 32) is None
            with pytest.raises(errors.ArgumentError, match="content_hash: expected 32"):
                project.find_run(content_hash='" OR 1')
            with pytest.raises(errors.ArgumentError, match="revision: expected a number"):
                project.find_run(content_hash=text, revision=0)
        with seamark.init_project("t/below") as project:
            assert project.find_run(content_hash=text) is None


class TestStrangers:
    def test_what_lies_in_the_folder(self):
        """Links, folders, huge and odd files give no run, and their numbers are passed over."""
        first = begin(params=PARAMS)
        text = facts(first)["start_hash"]
        folder = Path(".seamark/t") / REVISIONS
        (folder / f"{text}.1").unlink()
        (folder / f"{text}.1").symlink_to("/etc/passwd")
        (folder / f"{text}.2").mkdir()
        old = time.time() - 1000
        for number, told in enumerate(
            (b"{" * (1 << 20), b'{"run": "../../x"}', b'{"run": 3, "t": "x"}', b'{"run": "gone"}'),
            3,
        ):
            (folder / f"{text}.{number}").write_bytes(told)
            os.utime(folder / f"{text}.{number}", (old, old))
        (folder / "x").write_text("")
        assert begin(params=PARAMS, on_duplicate="reuse").id == first.id
        assert facts(begin(params=PARAMS))["revision"] == 7

    def test_a_link_in_the_place_of_the_folder(self, tmp_path):
        """Is not followed: the run is recorded all the same, without a revision."""
        Path(".seamark/t").mkdir(parents=True)
        Path(".seamark/t", REVISIONS).symlink_to(tmp_path)
        run = begin(params=PARAMS)
        assert facts(run)["revision"] is None
        assert begin(params=PARAMS, on_duplicate="reuse").id == run.id  # it is known all the same
        assert not list(tmp_path.glob("*.1"))

    def test_a_number_without_a_run(self):
        """A process that took a number and died made no run; the number is not given again."""
        run = begin(params=PARAMS)
        text = facts(run)["start_hash"]
        assert take_revision(Path(".seamark/t").absolute(), text, "0123456789abcdef") == 2
        assert begin(params=PARAMS, on_duplicate="reuse").id == run.id
        assert facts(begin(params=PARAMS))["revision"] == 3
