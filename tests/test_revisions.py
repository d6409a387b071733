"""Runs that are the same experiment: hashes, revisions, and what is done about another one."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from at_once import at_once
from command import output_of
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
        paths = ("sys/content_hash", "sys/start_hash", "sys/revision")
        return tuple(opened[path].fetch() if path in opened else None for path in paths)


def content_hash(**given):
    return facts(begin(**given))[0]


def test_a_hash_depends_on_parameters_and_their_types_alone():
    one, start, _ = facts(begin(params=PARAMS))
    assert (start, len(one)) == (one, 32)
    assert content_hash(params=dict(reversed(PARAMS.items())), name="x") == one
    others = [
        {**PARAMS, "lr": 0.2},
        {**PARAMS, "n": 3.0},
        {**PARAMS, "more": 1},
        {**PARAMS, "none": "None"},
    ]
    assert len({one, *(content_hash(params=each) for each in others)}) == 5
    assert facts(begin()) == (None, None, None)
    with seamark.init_run(project="t", **QUIET) as run:
        run["training/hyperparams/lr"] = 1
    found, _, revision = facts(run)
    assert found
    assert revision is None
    keys = [content_hash(params={"api_key": key}) for key in ("sk-1", "sk-2")]
    assert keys[0] == keys[1]  # secrets count as they are shown


def test_integers_of_more_digits_than_python_writes_are_told_apart():
    runs = [begin(params={"n": 10**5000 + add}) for add in (0, 0, 1)]
    hashes, _, revisions = zip(*[facts(run) for run in runs], strict=True)
    assert revisions == (1, 2, 1)
    assert hashes[0] == hashes[1] != hashes[2]
    with seamark.init_project("t", mode="read-only") as project:
        assert set(project.fetch_runs_table()["sys/id"]) == {run.id for run in runs}


def test_a_later_change_or_delete_alters_the_hash_and_never_the_revision():
    run = seamark.init_run(project="t", params=PARAMS, **QUIET)
    before = facts(run)
    run["parameters/lr"] = 0.5
    changed = facts(run)
    assert changed[0] != before[0]
    assert changed[1:] == before[1:]
    run["parameters/lr"] = 0.1
    assert facts(run) == before
    run["source_code/version"] = "abc"
    assert facts(run)[0] not in (None, before[0])
    del run["parameters"]
    assert facts(run) == (None, *before[1:])
    run.stop()
    with pytest.raises(errors.PathError, match="sys/content_hash"):
        seamark.init_run(project="t", **QUIET)["sys/content_hash"] = "x"


def test_a_hash_is_the_same_whether_it_is_folded_at_once_or_record_by_record():
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
        table = project.fetch_runs_table(query=f'sys/content_hash = "{told[0]}"')
        assert table["sys/id"] == [run.id]


def test_a_version_that_is_given_counts_in_the_place_of_the_code(captured):
    found = [facts(begin(params=PARAMS, code_version=version)) for version in ("1", "2", "1")]
    assert all(content == start for content, start, _ in found)
    assert [revision for _, _, revision in found] == [1, 1, 2]
    assert found[0][0] == found[2][0] != found[1][0]


def test_revisions_count_up_for_each_hash_and_project():
    runs = [begin(params=PARAMS) for _ in range(3)]
    runs += [begin(params={"lr": 1}), begin("t/below", params=PARAMS)]
    assert [facts(run)[2] for run in runs] == [1, 2, 3, 1, 1]


def test_reuse_goes_on_with_the_newest_duplicate_and_error_names_it():
    first, second = begin(params=PARAMS), begin(params=PARAMS)
    again = begin(params=PARAMS, on_duplicate="reuse")
    assert (again.id, facts(again)[2]) == (second.id, 2)
    with pytest.raises(errors.DuplicateRunError, match=second.id):
        begin(params=PARAMS, on_duplicate="error")
    assert begin(params={"lr": 7}, on_duplicate="error").id not in (first.id, second.id)
    assert begin("t/below", params=PARAMS, on_duplicate="reuse").id != second.id
    assert begin(params={"lr": 8}, on_duplicate="reuse").id != second.id


def test_a_run_in_the_trash_or_purged_is_no_duplicate():
    first, second = begin(params=PARAMS), begin(params=PARAMS)
    output_of("trash", second.id)
    assert begin(params=PARAMS, on_duplicate="reuse").id == first.id
    output_of("trash", first.id)
    for run in (first, second):
        output_of("purge", run.id, "--yes")
    third = begin(params=PARAMS, on_duplicate="error")
    assert facts(third)[2] == 3  # no number is given again


def test_a_wrong_on_duplicate_is_refused_and_nothing_is_made():
    for given, told in (
        ({"on_duplicate": "old", "params": PARAMS}, "on_duplicate: expected one of 'new'"),
        ({"on_duplicate": "reuse"}, "on_duplicate='reuse': expected params="),
        ({"on_duplicate": "error", "params": {}}, "expected params="),
        ({"on_duplicate": "reuse", "params": PARAMS, "with_id": "a"}, "expected no with_id"),
        ({"on_duplicate": "reuse", "params": PARAMS, "custom_run_id": "a"}, "no custom_run_id"),
    ):
        with pytest.raises(errors.ArgumentError, match=told):
            begin(**given)
    assert not Path(".seamark").exists()


@pytest.mark.once
def test_processes_at_once_get_revisions_of_their_own():
    """Whoever comes later goes on with the newest run."""
    script = (
        "import seamark\n"
        "print('ready', flush=True)\ninput()\n"
        "run = seamark.init_run(project='t', params={'a': 1}, on_duplicate='reuse',"
        " capture=dict(script=False, git=False, packages=False, host=False))\n"
        "print(run.id)\nrun.stop()\n"
    )
    ids = {line for (line,) in at_once(script, (), (), ())}
    table = seamark.init_project("t", mode="read-only").fetch_runs_table(
        columns=["sys/revision"], sort_by="sys/creation_time", ascending=True
    )
    assert set(table["sys/id"]) == ids
    # Of those that began at once, the newest need not have asked last for its revision.
    assert sorted(table["sys/revision"]) == list(range(1, len(ids) + 1))
    assert begin(params={"a": 1}, on_duplicate="reuse").id == table["sys/id"][-1]


def test_a_run_is_found_by_hash_and_revision():
    first, second = begin(params=PARAMS), begin(params=PARAMS)
    text = facts(first)[0]
    with seamark.init_project("t") as project:
        assert project.find_run(content_hash=text).id == second.id
        found = project.find_run(content_hash=text, revision=1)
        assert (found.id, found.mode) == (first.id, "read-only")
        assert project.find_run(content_hash=text, revision=3) is None
        assert project.find_run(content_hash="0" * 32) is None
        with pytest.raises(errors.ArgumentError, match="content_hash: expected 32"):
            project.find_run(content_hash='" OR 1')
        with pytest.raises(errors.ArgumentError, match="revision: expected a number"):
            project.find_run(content_hash=text, revision=0)
    with seamark.init_project("t/below") as project:
        assert project.find_run(content_hash=text) is None


def test_odd_files_among_the_numbers_give_no_run_and_are_passed_over():
    first = begin(params=PARAMS)
    text = facts(first)[1]
    folder = Path(".seamark/t") / REVISIONS
    (folder / f"{text}.1").unlink()
    (folder / f"{text}.1").symlink_to("/etc/passwd")
    (folder / f"{text}.2").mkdir()
    old = time.time() - 1000
    odd = (b"{" * (1 << 20), b'{"run": "../../x"}', b'{"run": 3, "t": "x"}', b'{"run": "gone"}')
    for number, told in enumerate(odd, 3):
        (folder / f"{text}.{number}").write_bytes(told)
        os.utime(folder / f"{text}.{number}", (old, old))
    (folder / "x").write_text("")
    assert begin(params=PARAMS, on_duplicate="reuse").id == first.id
    newest = begin(params=PARAMS)
    assert facts(newest)[2] == 7
    # A process that took a number and died made no run; the number is not given again.
    assert take_revision(Path(".seamark/t").absolute(), text, "0123456789abcdef") == 8
    assert begin(params=PARAMS, on_duplicate="reuse").id == newest.id
    assert facts(begin(params=PARAMS))[2] == 9


def test_a_link_in_the_place_of_the_folder_of_numbers_is_not_followed(tmp_path):
    Path(".seamark/t").mkdir(parents=True)
    Path(".seamark/t", REVISIONS).symlink_to(tmp_path)
    run = begin(params=PARAMS)
    assert facts(run)[2] is None
    assert begin(params=PARAMS, on_duplicate="reuse").id == run.id  # it is known all the same
    assert not list(tmp_path.glob("*.1"))
