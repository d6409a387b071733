"""Waiting for entries of queues."""

from __future__ import annotations

import queue
import threading

from seamark.process.queues import wait_for_entry


def test_a_timeout_that_has_passed_does_not_block():
    """Python 3.10 would block forever in one of some hundred calls."""

    def wait():
        for _ in range(10_000):
            for timeout_s in (0.0, -1.0):
                assert not wait_for_entry(queue.SimpleQueue(), timeout_s)

    threads = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_an_entry_is_removed_and_reported():
    entries = queue.SimpleQueue()
    entries.put(None)
    assert wait_for_entry(entries, 0.0)
    assert not wait_for_entry(entries, 0.001)
    threading.Timer(0.01, entries.put, [None]).start()
    assert wait_for_entry(entries, 60.0)
    assert entries.empty()
