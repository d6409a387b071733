"""What is asked in one moment agrees, whoever records and folds meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import seamark
from seamark.index.index import Index
from seamark.journal.folder import RunFolder

SOURCE = Path(seamark.__file__).parents[1]
TRAINER = """
import itertools, select, sys
from pathlib import Path
from seamark.journal.folder import RunFolder
from seamark.journal.writer import JournalWriter
folder = RunFolder(Path(sys.argv[1]), "p", "r")
writer = JournalWriter(folder, lambda: {"attempt": 0, "positions": None, "owner": True})
for step in itertools.count():
    if step % 20 == 0 and select.select([sys.stdin], [], [], 0)[0]:
        break
    writer.append_row({"a": float(step), "b": 1.0}, step)
    if step % 20 == 0:
        failed = {"state": "failed", "error": {"type": "E", "message": str(step)}}
        writer.append_op({"op": "state", **(failed if step % 40 else {"state": "running"})})
writer.close()
"""
READER = """
import select, sys
from pathlib import Path
from seamark.index.index import Index
with Index.open(Path(sys.argv[1])) as index:
    while not select.select([sys.stdin], [], [], 0)[0]:
        index.refresh("p", "r")
"""


@pytest.mark.once
def test_answers_of_one_moment_agree_next_to_a_writer_and_another_reader(tmp_path: Path) -> None:
    """State, its reason, summaries and points; the next moment shows what came since."""
    folder, environment = RunFolder(tmp_path, "p", "r"), {**os.environ, "PYTHONPATH": str(SOURCE)}
    folder.journal_dir.mkdir(parents=True)

    def start(code: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", code, str(tmp_path)]
        return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE)

    counts = set()
    with start(TRAINER) as trainer, start(READER) as reader, Index.open(tmp_path) as index:
        while len(counts) < 30:
            assert trainer.poll() is None
            index.refresh("p", "r")
            if not index.runs():
                continue
            with index.moment():
                view = index.view("p", "r")
                if (shown := view.attribute("a")) is None:
                    continue
                state, reason = view.state, view.reason
                count = len(view.points("a"))
                counts.add(count)
                assert shown.value.count == count == len(view.points("b"))
                assert view.curve("a", 50).count.sum() == count
                assert [one.value.count for one in view.some(["a", "b"])] == [count] * 2
                assert (state, bool(reason)) == (view.state, state == "failed")
        for process in (trainer, reader):
            process.communicate(b"stop\n", timeout=60)
    assert (trainer.returncode, reader.returncode) == (0, 0)


def test_a_damaged_index_is_made_again_in_the_middle_of_a_moment(builder, folder) -> None:
    """Nothing raises, and later answers of the block are right."""
    journal = builder()
    for step in range(5000):
        journal.row({"m": float(step) ** 0.5}, step)
    journal.close().save(folder)
    with Index.open(folder.root) as index:
        index.refresh()
        with index.store.database.writing() as connection:
            connection.exec_driver_sql("UPDATE chunk SET data = CAST(substr(data, 1, 99) AS BLOB)")
        with index.moment():
            view = index.view(folder.project, folder.run)
            assert view.attribute("m").value.count == 5000
            assert len(view.points("m")) == 5000
            assert len(view.points("m")) == 5000
        assert len(index.view(folder.project, folder.run).points("m")) == 5000
