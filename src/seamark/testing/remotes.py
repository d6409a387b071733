"""Contract of remotes, as pytest tests."""

# ruff: noqa: S101 - tests state their promises so

from __future__ import annotations

import hashlib
import io
import secrets
from concurrent.futures import ThreadPoolExecutor

import pytest

from seamark.journal.folder import journal_name, mint_run_id
from seamark.journal.format import Kind, dump_json, file_header, frame_bytes, salt_of
from seamark.remote.protocol import Diverged, Gap, Remote, RemoteError, RunKey, Sent

__all__ = ["Journal", "RemoteContract"]


class Journal:
    """A small complete journal in consecutive batches.

    Attributes:
        run: Its run.
        name: Its file name.
        batches: File header and HEADER frame, followed by further frames.
    """

    def __init__(self, run: RunKey, *, count: int = 3, name: str | None = None) -> None:
        uid = secrets.token_bytes(16) if name is None else bytes.fromhex(name.rpartition(".")[2])
        writer = f"contract-1-{uid.hex()[:8]}"
        self.run = run
        self.name = name or journal_name(writer, uid)
        salt, t = salt_of(uid), 1_700_000_000_000_000_000
        header = {"format": 1, "run": run.run, "project": run.project, "writer": writer}
        self.batches = [
            file_header(uid) + frame_bytes(salt, Kind.HEADER, t, dump_json(header)),
            *(
                frame_bytes(salt, Kind.OP, t + number, dump_json(_op(number)))
                for number in range(1, count)
            ),
        ]

    @property
    def data(self) -> bytes:
        """All of it."""
        return b"".join(self.batches)

    def offset(self, number: int) -> int:
        """Return the offset of a batch in the file, in bytes."""
        return sum(map(len, self.batches[:number]))


def _op(number: int) -> dict[str, object]:
    value = secrets.token_hex(64)
    return {"op": "assign", "atoms": {f"a{number}": {"type": "string", "value": value}}}


class RemoteContract:
    """Tests that every remote must pass; inherit from it and define the fixture ``remote``.

    Example:
        ::

            class TestMine(RemoteContract):
                @pytest.fixture
                def remote(self, tmp_path):
                    return MyRemote(tmp_path)

                def kept(self, remote, run, journal):
                    return remote.read_back(run, journal)
    """

    @pytest.fixture
    def remote(self) -> Remote:
        """Return the tested remote, empty and open; override this."""
        raise NotImplementedError("RemoteContract: override the fixture `remote`")

    @pytest.fixture
    def run(self) -> RunKey:
        """Return a run that may be sent; override it if the run must exist."""
        return RunKey("contract/suite", mint_run_id())

    def stored_journal(self, remote: Remote, run: RunKey, journal: str) -> bytes | None:
        """Return the stored bytes of a journal, None if unknown; override it."""

    def stored_blob(self, remote: Remote, run: RunKey, digest: str) -> bytes | None:
        """Return the stored content of a file, None if unknown; override it."""

    def _expect(self, remote: Remote, journal: Journal, data: bytes) -> None:
        assert remote.journals(journal.run).get(journal.name, 0) == len(data)
        found = self.stored_journal(remote, journal.run, journal.name)
        assert found is None or found == data

    # ---------------------------------------------------------------- journals

    def test_a_run_that_is_not_known_has_no_journals(self, remote: Remote, run: RunKey) -> None:
        """Nothing must be created before the first bytes are sent."""
        try:
            assert dict(remote.journals(run)) == {}
        except RemoteError as error:
            assert type(error).__name__ == "Missing"  # noqa: PT017 - either says the same

    def test_batches_are_stored_whole(self, remote: Remote, run: RunKey) -> None:
        """Each answer contains the stored size, and positions only grow."""
        journal, positions = Journal(run), [0]
        for number, batch in enumerate(journal.batches):
            sent = remote.send(run, journal.name, journal.offset(number), batch)
            assert isinstance(sent, Sent)
            assert sent.offset == journal.offset(number) + len(batch)
            assert sent.position > positions[-1]
            assert sent.wait_s >= 0
            positions.append(sent.position)
        self._expect(remote, journal, journal.data)

    def test_repeated_batches_are_stored_once(self, remote: Remote, run: RunKey) -> None:
        """An answer may be lost: the same batch is then sent again, alone or with more data."""
        journal = Journal(run)
        first = journal.batches[0]
        for _ in range(2):
            assert remote.send(run, journal.name, 0, first).offset == len(first)
        sent = remote.send(run, journal.name, 0, journal.data)
        assert sent.offset == len(journal.data)
        assert remote.send(run, journal.name, 0, first).offset == len(journal.data)
        self._expect(remote, journal, journal.data)

    def test_a_gap_is_refused_with_the_position(self, remote: Remote, run: RunKey) -> None:
        """Batches may come in another order; only the next bytes are accepted."""
        journal = Journal(run)
        with pytest.raises(Gap) as gap:
            remote.send(run, journal.name, journal.offset(1), journal.batches[1])
        assert gap.value.known == 0
        remote.send(run, journal.name, 0, journal.batches[0])
        with pytest.raises(Gap) as gap:
            remote.send(run, journal.name, journal.offset(2), journal.batches[2])
        assert gap.value.known == journal.offset(1)
        self._expect(remote, journal, journal.batches[0])

    def test_other_bytes_are_refused_and_change_nothing(self, remote: Remote, run: RunKey) -> None:
        """A journal of a cloned machine has the same name and says something else."""
        journal = Journal(run)
        remote.send(run, journal.name, 0, journal.data)
        other = Journal(run, name=journal.name)
        assert other.data != journal.data
        with pytest.raises(Diverged) as diverged:
            remote.send(run, journal.name, 0, other.data)
        assert diverged.value.known == len(journal.data)
        self._expect(remote, journal, journal.data)

    def test_a_declared_gap_is_passed_over(self, remote: Remote, run: RunKey) -> None:
        """Bytes that will never form a frame do not block later ones."""
        journal = Journal(run)
        first, lost = journal.batches[:2]
        remote.send(run, journal.name, 0, first)
        for _ in range(2):
            sent = remote.send_gap(run, journal.name, len(first), len(lost))
            assert sent.offset == len(first) + len(lost)
        sent = remote.send(run, journal.name, journal.offset(2), journal.batches[2])
        assert sent.offset == len(journal.data)
        assert remote.journals(run)[journal.name] == len(journal.data)

    def test_journals_of_a_run_are_apart(self, remote: Remote, run: RunKey) -> None:
        """The position counts all of them; each has an offset of its own."""
        journals = [Journal(run, count=count) for count in (1, 2, 3)]
        position = 0
        for journal in journals:
            position = remote.send(run, journal.name, 0, journal.data).position
        assert position == sum(len(journal.data) for journal in journals)
        assert dict(remote.journals(run)) == {
            journal.name: len(journal.data) for journal in journals
        }

    def test_two_that_send_the_same_keep_it_once(self, remote: Remote, run: RunKey) -> None:
        """Two processes may ship one journal at the same time, in pieces of any size."""
        journal = Journal(run, count=12)

        def ship(stride: int) -> None:
            for number in range(0, len(journal.batches), stride):
                data = b"".join(journal.batches[number : number + stride])
                remote.send(run, journal.name, journal.offset(number), data)

        with ThreadPoolExecutor() as pool:
            list(pool.map(ship, (1, 2, 5)))
        self._expect(remote, journal, journal.data)

    # ---------------------------------------------------------------- files

    def test_file_contents_are_stored_once(self, remote: Remote, run: RunKey) -> None:
        """Content that the remote has need not be sent again, and may be; a file may be empty."""
        remote.send(run, (journal := Journal(run)).name, 0, journal.data)
        assert set(remote.missing_blobs(run, [])) == set()
        other = "0" * 64
        for content in (secrets.token_bytes(100_000), b""):
            digest = hashlib.sha256(content).hexdigest()
            assert set(remote.missing_blobs(run, [digest, other])) == {digest, other}
            for _ in range(2):
                remote.put_blob(run, digest, len(content), io.BytesIO(content))
                assert set(remote.missing_blobs(run, [digest, other])) == {other}
            found = self.stored_blob(remote, run, digest)
            assert found is None or found == content

    # ---------------------------------------------------------------- the end

    def test_closing_twice_is_harmless(self, remote: Remote) -> None:
        """Closing twice is allowed."""
        remote.close()
        remote.close()
