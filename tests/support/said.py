"""What a server said to those who send to it, written down at once, so that it can be held to it.

A server that loses what it had acknowledged would not be noticed by what is there in the end:
whoever sends asks first what is known, and would send it again. So every answer is noted, in one
file for all processes, and what was known at any later moment is compared with it.
"""

from __future__ import annotations

import json
import os
import secrets

from seamark.remote.http.sender import HttpRemote


class Said:
    """A file of answers, in the order in which they came.

    Each line is written by one call, so that a killed process leaves none that is cut.
    """

    def __init__(self, path):
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, *words):
        os.write(self._fd, json.dumps(words).encode() + b"\n")

    def close(self):
        os.close(self._fd)

    def judge(self):
        """Return how many batches were acknowledged, and every answer that took one back."""
        count, lost = 0, []
        most = {}
        asked = {}
        for line in self.path.read_text().splitlines():
            what, run, *rest = json.loads(line)
            of_run = most.setdefault(run, {})
            if what == "kept":
                journal, offset = rest
                of_run[journal] = max(of_run.get(journal, 0), offset)
                count += 1
            elif what == "asks":
                asked[rest[0]] = dict(of_run)
            else:
                known = rest[1]
                lost += [
                    f"{run} {journal}: {offset} acknowledged, {known.get(journal)} known later"
                    for journal, offset in asked.pop(rest[0]).items()
                    if known.get(journal, 0) < offset
                ]
        return count, lost


class Heard(HttpRemote):
    """A server as a remote, all of whose answers are noted."""

    def __init__(self, connection, said):
        super().__init__(connection)
        self._said = said

    def journals(self, run):
        """See `HttpRemote.journals`; what was acknowledged before this is asked must be there."""
        number = secrets.token_hex(8)
        self._said.note("asks", _name(run), number)
        known = super().journals(run)
        self._said.note("knows", _name(run), number, dict(known))
        return known

    def send(self, run, journal, offset, data):
        return self._noted(run, journal, super().send(run, journal, offset, data))

    def send_gap(self, run, journal, offset, length):
        return self._noted(run, journal, super().send_gap(run, journal, offset, length))

    def _noted(self, run, journal, sent):
        self._said.note("kept", _name(run), journal, sent.offset)
        return sent


def hear_all(path):
    """Have every remote that this process opens from now on noted in a file."""
    import seamark.remote.http.sender as module

    said = Said(path)
    module.HttpRemote = lambda connection: Heard(connection, said)


def _name(run):
    return f"{run.project}/{run.run}"
