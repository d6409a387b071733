"""Why a run crashed, and what of it is missing, as people and programs see it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from journal_builder import JournalBuilder
from journals import headers, journal_files

from seamark import init_run
from seamark.process.liveness import memory_groups, process_facts


def long_ago():
    """Return a time before this host was started."""
    lines = Path("/proc/stat").read_text().splitlines()
    booted = next(int(line.split()[1]) for line in lines if line.startswith("btime"))
    return (booted - 7200) * 10**9


def crashed(root, name, **header):
    """Write a run whose process recorded last ten minutes ago."""
    facts = {**process_facts(), **header}
    journal = JournalBuilder(name, t=time.time_ns() - 600 * 10**9, **facts)
    journal.op("state", state="running").row({"loss": 1.0}, step=0).save(root / "p" / name)
    return name


def test_killed_process_is_a_crash_with_its_reason(cli, root, training):
    run = training.do("begin", 0, "p", {})
    assert "sys/crash_reason" not in json.loads(cli("show", run, "--json").stdout)["attributes"]
    training.kill()
    (header,) = headers(root / "p" / run)
    noted, here = header["cgroup"], memory_groups()  # with these, lack of memory is found out
    assert [group[:2] for group in noted] == [group[:2] for group in here]
    (row,) = cli("ls").stdout.splitlines()[1:]
    assert "crashed: process gone" in row
    shown = cli("show", run).stdout
    for text in ("\n! crashed: its process ended without reporting why", "last sign of life "):
        assert text in shown
    assert f"pid {training.pid} on " in shown
    with init_run("p", with_id=run, mode="read-only") as reader:
        assert reader["sys/crash_reason"].fetch() == "process gone"
        assert reader["sys/state"].fetch() == "crashed"
    (listed,) = json.loads(cli("ls", "--json", "-c", "sys/state,sys/crash_reason").stdout)
    assert (listed["sys/state"], listed["sys/crash_reason"]) == ("crashed", "process gone")
    told = json.loads(cli("show", run, "--json").stdout)["attributes"]["sys/crash_reason"]
    assert told["value"] == "process gone"


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("out of memory", "the kernel killed its process {who}"),
        ("likely out of memory", "its process {who} has ended, and since its start the kernel "),
    ],
)
def test_lack_of_memory_is_said_with_its_process(cli, root, monkeypatch, reason, said):
    crashed(root, "greedy", pid=2**22 + 1, start=1)
    found = "seamark.process.liveness.Evidence._reason_in_log"
    monkeypatch.setattr(found, lambda *_: reason)
    assert f"crashed: {reason}" in cli("ls").stdout
    who = f"(pid {2**22 + 1} on {process_facts()['host']})"
    assert f"\n! crashed: {reason}: {said.format(who=who)}" in cli("show", "greedy").stdout


def test_rebooted_hosts_other_hosts_and_silent_processes_are_told_apart(cli, root):
    here = process_facts()
    journal = JournalBuilder("rebooted", t=long_ago(), **{**here, "boot": "another"})
    journal.op("state", state="running").save(root / "p" / "rebooted")
    crashed(root, "elsewhere", host="node17", boot="another", pid=4211)
    crashed(root, "silent")
    for rank, facts in enumerate(({}, {"boot": "another"}, {"host": "node17"})):
        header = {**here, **facts, "rank": rank, "ranks": "all", "world_size": 3}
        journal = JournalBuilder(f"rank{rank}", t=long_ago(), owner=not rank, **header)
        journal.op("state", state="running").row({"loss": 1.0}, step=0).save(root / "p" / "ranks")
    rows = {line.split()[0]: line for line in cli("ls").stdout.splitlines()}
    assert "crashed: host rebooted" in rows["rebooted"]
    assert "crashed: heartbeat lost" in rows["elsewhere"]
    for run, text in (
        ("rebooted", f"\n! crashed: host rebooted: {here['host']} has restarted; "),
        ("elsewhere", "\n! crashed: heartbeat lost; "),
        (
            "elsewhere",
            "(pid 4211 on node17) is alive cannot be checked from here; last sign of life",
        ),
        ("silent", "heartbeat lost; its process is still alive"),
        ("ranks", f"! rank 1 is gone, host rebooted (pid {os.getpid()} on {here['host']}): last "),
        ("ranks", "! rank 2 is lost: no heartbeat for "),
    ):
        assert text in cli("show", run).stdout, run
    ranks = json.loads(cli("show", "ranks", "--json").stdout)["ranks"]
    told = [(one["state"], one["why"]) for one in ranks[1:]]
    assert told == [("lost", "host rebooted"), ("lost", "")]


def test_crash_reasons_are_never_assigned(start):
    with start("p") as run, pytest.raises(ValueError, match="sys/crash_reason"):
        run["sys/crash_reason"] = "bad luck"


def damage(root, run):
    (journal,) = journal_files(root / "default" / run)
    data = bytearray(journal.read_bytes())
    data[len(data) // 2] ^= 1
    journal.write_bytes(data)


def test_section_health_lists_what_is_missing(cli, start, record, root):
    sound = record()
    assert "Health" not in cli("show", sound).stdout
    assert json.loads(cli("show", sound, "--json").stdout)["health"] == []
    run = start()
    for step in range(20):
        run.log_metrics({"loss": 1.0, "bad": "text"}, step=step)
    run["monitoring/w/stdout_left_out"] = 2_000_000
    run["monitoring/w/stderr_left_out"] = "many"
    run.stop()
    damage(root, run.id)
    lines = cli("show", run.id).stdout.splitlines()
    text = "\n".join(lines[lines.index("Health") : lines.index("Series (1)")])
    assert "! lost while recording: 20 values that are not numbers\n  log_metrics accepts" in text
    assert "! left out: 2.0 MB of stdout, above the limit for output\n  to keep more" in text
    assert "! damaged: " in text
    assert "stderr" not in text
    told = json.loads(cli("show", run.id, "--json").stdout)["health"]
    assert [one["kind"] for one in told] == ["dropped", "output", "gaps"]
    assert (told[0]["what"], told[1]["what"]) == ({"value": 20}, {"stdout": 2_000_000})
    assert "health" not in json.loads(cli("show", run.id, "loss", "--json").stdout)


def test_table_marks_runs_with_losses(cli, start, record, root):
    record(name="well")
    assert "LOST" not in cli("ls").stdout
    damage(root, record(name="torn"))
    with start(name="lossy") as run:
        run.log_metrics({"loss": 1.0, "bad": "text", "worse": object()}, step=0)
    rows = {line.split()[1]: line for line in cli("ls").stdout.splitlines()}
    assert rows["NAME"].endswith("LOST")
    assert rows["torn"].endswith("⚠ 1 gap")
    assert rows["lossy"].endswith("⚠ 2 lost")
    assert "⚠" not in rows["well"]
    assert "! 1 gap" in cli("ls", PYTHONIOENCODING="ascii").stdout
    listed = json.loads(cli("ls", "--json").stdout)
    assert not any("lost" in key.lower() for row in listed for key in row)
