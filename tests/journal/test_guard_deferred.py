"""What a signal handler gave to write counts as written only when it is."""

from __future__ import annotations

from seamark.journal.losses import Guard


def test_what_is_being_written_is_still_deferred():
    seen = []
    guard = Guard(lambda: None, seen.append)
    guard.run(lambda: guard.run(lambda: seen.append(len(guard.deferred))))
    assert (seen, len(guard.deferred)) == ([1], 0)


def test_what_cannot_be_written_is_not_tried_again():
    failed = []
    guard = Guard(lambda: None, failed.append)
    guard.run(lambda: guard.run(lambda: 1 / 0))
    assert (len(failed), len(guard.deferred)) == (1, 0)
