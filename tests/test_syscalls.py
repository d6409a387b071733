"""What a call of log_metrics asks of the kernel: one write, and nothing that waits for the disk."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

import seamark

CALLS = 1_000
SCRIPT = f"""
import os
import seamark

run = seamark.init_run()
metrics = {{f"train/metric_{{number}}": 0.5 for number in range(10)}}
os.write(1, b"begin")
for step in range({CALLS}):
    run.log_metrics(metrics, step)
os.write(1, b"end")
run.stop()
"""
WRITES = "write|pwrite64|writev|pwritev|pwritev2|sendto|sendmsg"
SYNCS = "fsync|fdatasync|sync|syncfs|sync_file_range|msync"
TRACED = f"trace=/^({WRITES}|{SYNCS}|open|openat|creat)$"
# Random digits within the name of a journal, which may begin like this, do not end it.
DATABASE = re.compile(r"\.db(-\w+|\.lock)?[\">]|sqlite")
LINE = re.compile(r"^(?P<thread>\d+) +(?P<call>\w+)\((?P<arguments>.*)")


def traced(folder):
    strace = shutil.which("strace")
    probe = [strace or "", "-o", os.devnull, "true"]
    if not strace or subprocess.run(probe, check=False, capture_output=True).returncode:
        # `.ci/run` names at its end what was not there.
        pytest.skip("this needs a strace that may trace (Debian: apt-get install strace)")
    log = folder / "trace"
    command = [strace, "-f", "-y", "-s", "16", "-e", TRACED, "-o", str(log)]
    subprocess.run([*command, sys.executable, "-c", SCRIPT], check=True, cwd=folder, timeout=240)
    found = map(LINE.match, log.read_text().splitlines())
    return [(line["thread"], line["call"], line["arguments"]) for line in found if line]


def test_each_call_is_one_write_to_one_journal_without_sync_and_no_database_is_opened(tmp_path):
    calls = traced(tmp_path)
    [begin] = [at for at, call in enumerate(calls) if '"begin' in call[2]]
    [end] = [at for at, call in enumerate(calls) if '"end' in call[2]]
    thread = calls[begin][0]
    logging = [call for call in calls[begin + 1 : end] if call[0] == thread]
    kinds = Counter(call for _, call, _ in logging)
    assert kinds == {"write": CALLS}
    (file,) = {re.search(r"<(.*?)>", arguments)[1] for _, _, arguments in logging}
    assert Path(file).parent.name == "journal"
    synced = {each for each, call, _ in calls if re.fullmatch(SYNCS, call)}
    assert thread not in synced
    assert synced, "the sync thread should have forced the journal to disk"
    opened = [arguments for _, call, arguments in calls if call.startswith("open")]
    assert any("/journal/" in name for name in opened)
    assert not [name for name in opened if DATABASE.search(name)]


def test_each_call_is_one_write_by_the_count_of_the_kernel():
    """Also where there is no strace."""
    account = Path(f"/proc/self/task/{threading.get_native_id()}/io")
    if not account.exists():
        pytest.skip("this kernel does not count system calls of threads")

    def writes():
        return int(re.search(r"syscw: (\d+)", account.read_text())[1])

    with seamark.init_run() as run:
        before = writes()
        for step in range(CALLS):
            run.log_metrics({"loss": 1.0, "accuracy": 0.5}, step)
        assert writes() - before == CALLS
