"""The journals of a run that are being sent, while other threads ask about them."""

from __future__ import annotations

import os

from seamark.journal.folder import RunFolder
from seamark.remote.shipment import Shipment


class Writing:
    """A writer of some journals."""

    def __init__(self) -> None:
        self.writers: tuple[str, ...] = ()


def test_a_new_journal_may_appear_while_journals_are_counted(tmp_path):
    folder = RunFolder(tmp_path, "p", "run1")
    folder.journal_dir.mkdir(parents=True)
    shipment, writing = Shipment(folder), Writing()
    shipment.add(writing, writing)

    def begin(number):
        writer = f"host-{os.getpid()}-{number:08x}"
        (folder.journal_dir / f"{writer}.{number:032x}").write_bytes(b"x" * 10)
        writing.writers = (*writing.writers, writer)
        assert shipment.look(number)

    for number in range(3):
        begin(number)
    seen = 0
    for tail in shipment.tails.values():
        seen += tail.left
        begin(100 + seen)
    assert seen == 30
    assert shipment.left == 60
