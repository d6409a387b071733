"""What a process records is sent while it records, whatever becomes of the way or of the remote."""

from __future__ import annotations

import itertools
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from keeper_server import keeping
from proxy import Trouble, proxied
from server_waits import until
from urllib3 import Timeout

import seamark
from seamark.errors import ArgumentError
from seamark.journal.reader import JournalReader
from seamark.remote import shipper as shippers
from seamark.remote.http.connection import Connection
from seamark.remote.protocol import Busy, Unreachable
from seamark.remote.shipper import Shipper

sys.path.insert(0, str(Path(__file__).parent))
from conftest import kept_like


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """Pauses are short; how long they are by default is tested with a clock that a test moves."""
    for name, seconds in {
        "LEAST_WAIT_S": 0.05,
        "_FIRST_BACK_OFF_S": 0.01,
        "_MOST_BACK_OFF_S": 0.1,
        "_AWAITED_BACK_OFF_S": 0.05,
    }.items():
        monkeypatch.setattr(shippers, name, seconds)


def record(run, count=200, start=0):
    for step in range(start, start + count):
        run.log_metrics({"train/loss": 1 / (step + 1), "train/acc": float(step)}, step=step)


def lines(caplog):
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


# --------------------------------------------------------------------- as it should be


def test_it_is_sent_while_the_training_goes_on(begin, keeper):
    run = begin(remote=keeper.url)
    record(run)
    until(lambda: kept_like(run, keeper))
    record(run, start=200)
    assert shippers.flush(keeper.url, 60)
    assert kept_like(run, keeper)
    position = sum(map(len, keeper.journals["p", run.id].values()))
    assert shippers.positions(keeper.url) == {("p", run.id): position}
    run.stop()
    assert shippers.flush(keeper.url, 60)
    until(lambda: not any(keeper.url in each.name for each in threading.enumerate()))
    (size,) = [journal.path.stat().st_size for journal in run.folder.journals()]
    assert size > position
    assert shippers.positions(keeper.url) == {("p", run.id): size}  # for who reads it then


def test_a_run_at_rest_is_sent_and_goes_on_in_its_next_journal(begin, keeper):
    """Lightning has a run rest after each stage."""
    run = begin(remote=keeper.url)
    record(run)
    run.session.rest()
    until(lambda: kept_like(run, keeper))
    record(run, start=200)
    run.session.rest()
    until(lambda: kept_like(run, keeper))
    assert len(keeper.journals["p", run.id]) == 2


def test_many_runs_of_a_process_share_one_thread(begin, keeper):
    runs = [begin(remote=keeper.url) for _ in range(6)]
    for run in runs:
        record(run, 5)
    names = [each.name for each in threading.enumerate()]
    assert sum(keeper.url in name for name in names) == 1
    for run in runs:
        run.stop()
    assert all(kept_like(run, keeper) for run in runs)


def test_another_root_gets_the_same_files(begin, tmp_path):
    run = begin(remote=(tmp_path / "there").as_uri())
    record(run)
    run.stop()
    there = tmp_path / "there" / "p" / run.id / "journal"
    assert {each.name: each.read_bytes() for each in there.iterdir()} == {
        each.path.name: each.path.read_bytes() for each in run.folder.journals()
    }
    found = seamark.init_run("p", with_id=run.id, root=tmp_path / "there", mode="read-only")
    assert len(found["train/loss"].fetch_points()) == 200


def test_all_of_a_run_that_began_without_a_remote_is_sent(begin, tmp_path):
    """What a closed and a killed process recorded, files too; `transfers` says to where."""
    there = (tmp_path / "there").as_uri()
    first = begin(name="early", params={"lr": 0.5})
    record(first)
    first["note"].upload(seamark.types.File.from_content("early"))
    first.stop()
    script = (
        "import os, sys, seamark; from recording import QUIET\n"
        "run = seamark.init_run('p', with_id=sys.argv[1], root=sys.argv[2], **QUIET)\n"
        "run['killed'] = 1; run.wait(); os.kill(os.getpid(), 9)\n"
    )
    command = [sys.executable, "-c", script, first.id, str(first.root)]
    support = str(Path(__file__).parents[1] / "support")
    env = {**os.environ, "PYTHONPATH": support}
    assert subprocess.run(command, env=env, check=False).returncode == -signal.SIGKILL
    later = begin(with_id=first.id, remote=there, owner=True)
    later["later"] = 1
    later["train/loss"].append(0.5)
    later.stop()
    found = seamark.init_run("p", with_id="early", root=tmp_path / "there", mode="read-only")
    assert found["parameters/lr"].fetch() == 0.5
    assert (found["killed"].fetch(), found["later"].fetch()) == (1, 1)
    assert len(found["train/loss"].fetch_points()) == 201
    assert found["note"].fetch_bytes() == b"early"
    (transfer,) = found.transfers
    assert (transfer["to"], transfer["name"]) == (there, None)
    assert (
        found.transfers
        == seamark.init_run("p", with_id=first.id, root=first.root, mode="read-only").transfers
    )


def test_the_environment_names_remotes(begin, keeper, tmp_path, monkeypatch):
    monkeypatch.setenv("SEAMARK_REMOTE", f"{keeper.url}, {(tmp_path / 'there').as_uri()}")
    run = begin()
    run.stop()
    assert kept_like(run, keeper)
    assert (tmp_path / "there" / "p" / run.id / "journal").is_dir()
    away = begin(mode="offline")
    away.stop()
    assert ("p", away.id) not in keeper.journals
    assert (run.checkpoints, away.checkpoints) == ("keep", "reference")
    monkeypatch.setenv("SEAMARK_REMOTE", "htps://lab")
    with pytest.raises(ArgumentError, match=r"SEAMARK_REMOTE.*did you mean https"):
        begin()


def test_the_token_is_shown_and_recorded_nowhere(begin, keeper):
    run = begin(remote=keeper.url, api_token="sekrit-0123456789")
    run["note"] = "my token is sekrit-0123456789"
    run.stop()
    assert keeper.tokens == {"Bearer sekrit-0123456789"}
    assert all(b"sekrit" not in bytes(data) for data in keeper.journals["p", run.id].values())


# --------------------------------------------------------------------- what goes wrong


def test_an_outage_costs_two_lines_and_no_byte(begin, keeper, caplog):
    with proxied(keeper.address) as proxy:
        proxy.go_down()
        run = begin(remote=proxy.url)
        record(run)
        until(lambda: any(proxy.url in line for line in lines(caplog)))
        record(run, start=200)
        proxy.come_back()
        until(lambda: kept_like(run, keeper))
        run.stop()
    assert kept_like(run, keeper)
    told = [line for line in lines(caplog) if proxy.url in line]
    assert len(told) == 2
    assert "is back" in told[1]


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(Trouble(after_sent=700), id="cut"),
        pytest.param(Trouble(after_sent=700, reset=True), id="reset", marks=pytest.mark.thorough),
        pytest.param(Trouble(after_answered=0), id="no-answer", marks=pytest.mark.thorough),
        pytest.param(Trouble(after_answered=60, reset=True), id="half-answer"),
        pytest.param(
            Trouble(after_answered=0, silent=True), id="half-open", marks=pytest.mark.thorough
        ),
        pytest.param(Trouble(bytes_per_s=100_000), id="slow", marks=pytest.mark.thorough),
    ],
)
def test_cut_connections_lose_nothing_and_double_nothing(begin, keeper, trouble, monkeypatch):
    if trouble.silent:
        limit = Timeout(connect=5, read=1)
        monkeypatch.setattr(Connection, "_timeout", lambda *_: limit)
    cut = 10**9 if trouble.bytes_per_s else 3
    with proxied(keeper.address, lambda number: trouble if number < cut else None) as proxy:
        run = begin(remote=proxy.url)
        run["noise"] = os.urandom(150_000).hex() if trouble.bytes_per_s else "little"
        record(run, 500)
        run.stop()
        assert proxy.count > 3 or trouble.bytes_per_s
        assert kept_like(run, keeper)


@pytest.mark.parametrize(
    "status",
    [500, 429, *(pytest.param(each, marks=pytest.mark.thorough) for each in (502, 503, 504))],
)
def test_a_server_that_fails_is_asked_again(begin, keeper, status):
    left = iter(range(3))
    headers = {"Retry-After": "0.05"}
    keeper.meddle = lambda *_: (
        (status, {"error": "x"}, headers) if next(left, None) is not None else None
    )
    run = begin(remote=keeper.url)
    record(run)
    run.stop()
    assert kept_like(run, keeper)


class Seconds:
    """A clock of seconds that stands still until a test moves it."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds(monkeypatch):
    """A clock for shippers whose thread does nothing: a test takes its turns, one after another."""
    monkeypatch.undo()  # the pauses are those of the product
    monkeypatch.setattr(Shipper, "_start", lambda _: None)
    monkeypatch.setattr(shippers._chance, "uniform", lambda _, most: most)
    return Seconds()


class Failing:
    """A remote that fails at every question, and notes when it was asked."""

    def __init__(self, clock: Seconds, error: Exception) -> None:
        self.clock, self.error = clock, error
        self.asked: list[float] = []

    def journals(self, run: Any) -> Any:
        self.asked.append(self.clock.now)
        raise self.error

    def close(self) -> None:
        """Do nothing."""

    def pauses(self) -> list[float]:
        """Return how long it was left alone after each question."""
        return [later - sooner for sooner, later in itertools.pairwise(self.asked)]


def sent_by(clock, remote, run):
    """Return what sends a run to a remote."""
    shipper = Shipper("failing://x", open_=lambda *_: remote, clock=clock)
    shipper.add(run.folder, run.session.recorder.writer)
    return shipper


def test_a_remote_that_fails_is_left_alone_longer_each_time(seconds, begin):
    run = begin()
    run["x"] = 1
    remote = Failing(seconds, Unreachable("away"))
    shipper = sent_by(seconds, remote, run)
    for _ in range(4 * 250):
        shipper._turn()
        seconds.now += 0.25
    assert remote.pauses() == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    shipper._turns.append(queue.SimpleQueue())
    remote.asked.clear()
    for _ in range(4 * 120):
        shipper._turn()
        seconds.now += 0.25
    assert remote.pauses()[1:] == [3] * (len(remote.pauses()) - 1)
    assert len(remote.asked) > 10


def test_who_begins_to_wait_has_a_remote_asked_that_was_to_be_left_alone(
    seconds, begin, monkeypatch
):
    run = begin()
    run["x"] = 1
    monkeypatch.setattr(shippers.time, "sleep", lambda _: setattr(seconds, "now", seconds.now + 1))
    for error, asks in ((Unreachable("away"), True), (Busy("busy", 300), False)):
        remote = Failing(seconds, error)
        shipper = sent_by(seconds, remote, run)
        for _ in range(8):
            shipper._turn()
            seconds.now += 40
        seconds.now = remote.asked[-1] + 1
        count = len(remote.asked)
        assert not shipper.wait(5)
        assert (len(remote.asked) > count) == asks


def test_retry_after_is_kept_to(seconds, begin, keeper):
    left = iter([(429, {"error": "busy"}, {"Retry-After": "200"})])
    keeper.meddle = lambda *_: next(left, None)
    run = begin()
    record(run)
    shipper = Shipper(keeper.url, clock=seconds)
    shipper.add(run.folder, run.session.recorder.writer)
    for _ in range(200):
        shipper._turn()
        assert len(keeper.asked) == 1
        seconds.now += 1
    seconds.now += 20  # up to a tenth more, so that not all who were sent away come at once
    while shipper._turn():
        pass
    assert kept_like(run, keeper)


def test_one_remote_that_is_down_holds_up_no_other(begin, keeper, caplog, capsys):
    down = "http://127.0.0.1:9"
    run = begin(remote=[down, keeper.url])
    record(run)
    until(lambda: kept_like(run, keeper))
    run["note"] = "x" * 100_000
    began = time.monotonic()
    run.stop(seconds=1)
    assert time.monotonic() - began < shippers.EXIT_S / 2
    until(lambda: kept_like(run, keeper))
    told = f"`seamark sync {run.id} --to {down}` sends the rest"
    assert [told in line for line in lines(caplog) if "seamark sync" in line] == [True]
    run = begin(remote=down)
    run.stop(seconds=0)
    assert "sent to" not in capsys.readouterr().err.splitlines()[-1]


def test_a_missing_token_is_told_once(begin, keeper, caplog):
    keeper.meddle = lambda *_: (401, {"error": "token", "hint": "this server needs a token"}, {})
    run = begin(remote=keeper.url)
    record(run)
    until(lambda: any("seamark login" in line for line in lines(caplog)))
    began = time.monotonic()
    run.stop()
    assert time.monotonic() - began < 30
    assert sum("needs a token" in line for line in lines(caplog)) == 1


def test_a_purged_run_stops_with_one_line(begin, keeper, caplog):
    gone = begin(remote=keeper.url)
    other = begin(remote=keeper.url)
    keeper.meddle = lambda _, path, __: (
        (410, {"error": "purged", "hint": "purged by an owner"}, {}) if gone.id in path else None
    )
    for run in (gone, other):
        record(run)
        run.stop()
    assert kept_like(other, keeper)
    told = [line for line in lines(caplog) if keeper.url in line]  # others may have left shippers
    assert [gone.id in line for line in told] == [True]


def send_again(shipper, run, journal):
    """Send one journal of a run that has ended."""

    class Written:
        writers = (journal.name.rpartition(".")[0],)

    written = Written()
    shipper.add(run.folder, written)
    shipper.finish(run.folder, written)
    assert shipper.wait(60)


def test_a_journal_of_a_cloned_machine_is_set_aside(begin, keeper, caplog):
    run = begin(remote=keeper.url, mode="offline")
    record(run)
    run.stop()
    first = next(iter(run.folder.journals())).path
    cloned = bytearray(first.read_bytes())
    cloned[-1] ^= 1
    shipper = Shipper(keeper.url)

    keeper.journals["p", run.id] = {first.name: cloned + bytes(64)}
    send_again(shipper, run, first)
    assert any("cloned machine" in line for line in lines(caplog))
    assert keeper.journals["p", run.id] == {first.name: cloned + bytes(64)}


def test_a_server_that_was_restored_gets_what_it_lost(begin, keeper):
    run = begin(remote=keeper.url)
    record(run)
    until(lambda: kept_like(run, keeper))
    name, data = next(iter(keeper.journals["p", run.id].items()))
    with JournalReader(run.folder.journal_dir / name) as reader:
        cut = [frame.end for frame in reader.frames()][3]
    with keeper.lock:
        del data[cut:]
    record(run, start=200)
    run.stop()
    assert kept_like(run, keeper)


def test_a_frame_that_a_proxy_finds_too_long_is_sent_in_smaller_parts(begin, keeper):
    answer = keeper.answer

    def limited(method, path, query, body, headers):
        if len(body) > 200_000:
            return 413, {}, {}
        return answer(method, path, query, body, headers)

    keeper.answer = limited
    run = begin(remote=keeper.url)
    for number in range(40):
        run[f"noise/{number}"] = os.urandom(20_000).hex()
    run.stop()
    assert kept_like(run, keeper)


def test_damage_in_the_middle_is_declared_and_passed_over(begin, keeper):
    run = begin(mode="offline")
    record(run)
    run.stop()
    path = next(iter(run.folder.journals())).path
    data = bytearray(path.read_bytes())
    with JournalReader(path) as reader:
        bad = list(reader.frames())[20]
    data[bad.offset + 30] ^= 0xFF
    path.write_bytes(data)
    send_again(Shipper(keeper.url), run, path)
    kept = keeper.journals["p", run.id][path.name]
    assert keeper.gaps == [(path.name, bad.offset, bad.end - bad.offset)]
    assert kept[: bad.offset] == data[: bad.offset]
    assert kept[bad.end :] == data[bad.end :]


def test_a_remote_of_somebody_else_that_fails_ends_no_training(begin, keeper, caplog):
    class Broken:
        def journals(self, run: Any) -> Any:
            raise ZeroDivisionError("in a plugin")  # noqa: EM101, TRY003

        def close(self) -> None:
            raise ZeroDivisionError

    shipper = Shipper("broken://x", open_=lambda *_: Broken())
    run = begin()
    shipper.add(run.folder, run.session.recorder.writer)
    record(run)
    assert not shipper.wait_at_end(0.1)
    until(lambda: any("in a plugin" in line for line in lines(caplog)))


# --------------------------------------------------------------------- processes

SCRIPT = """
import os, sys, time
sys.path.insert(0, {support!r})
import seamark
from recording import QUIET
run = seamark.init_run("p", root={root!r}, remote={url!r}, custom_run_id="x", **QUIET)
print(run.id, flush=True)
"""


def script(tmp_path, url, more):
    support = str(Path(__file__).parents[1] / "support")
    text = SCRIPT.format(support=support, root=str(tmp_path / "root"), url=url) + more
    (tmp_path / "train.py").write_text(text)
    return [sys.executable, str(tmp_path / "train.py")]


def test_what_was_sent_before_a_kill_is_a_prefix(keeper, tmp_path):
    """SIGKILL leaves nothing at the remote that is not on disk."""
    more = "for n in range(10**9): run.log_metrics({'a': n}, step=n)\n"
    with subprocess.Popen(script(tmp_path, keeper.url, more), stdout=subprocess.PIPE) as process:
        run = process.stdout.readline().decode().strip()
        until(lambda: sum(map(len, keeper.journals.get(("p", run), {}).values())) > 100_000)
        process.send_signal(signal.SIGKILL)
        process.wait()
    for name, kept in keeper.journals["p", run].items():
        data = (tmp_path / "root" / "p" / run / "journal" / name).read_bytes()
        assert data.startswith(bytes(kept))


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.thorough)])
def test_each_process_ships_what_it_writes(keeper, tmp_path, method):
    more = f"""
import multiprocessing, threading
def child(run):
    own = [t.name for t in threading.enumerate() if "shipper" in t.name]
    assert not own or {method!r} == "spawn", own  # there the script has begun a run of its own
    run["child"] = os.getpid()
    for n in range(50): run.log_metrics({{"child/a": n}}, step=n)
    run.stop()
if __name__ == "__main__":
    run["parent"] = 1
    context = multiprocessing.get_context({method!r})
    process = context.Process(target=child, args=(run,))
    process.start(); process.join()
    assert process.exitcode == 0
    run.stop()
"""
    done = subprocess.run(
        script(tmp_path, keeper.url, more), capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    run = done.stdout.split()[0]
    folder = tmp_path / "root" / "p" / run / "journal"
    local = {each.name: each.read_bytes() for each in folder.iterdir()}
    # What a process wrote as it ended may be sent behind it.
    until(lambda: {name: bytes(data) for name, data in keeper.journals["p", run].items()} == local)
    assert len(local) >= 2


def test_one_object_of_a_run_that_ends_ends_no_other(begin, keeper, monkeypatch):
    leave, looks = Shipper._stop_if_idle, [False]

    def look(self):
        left = leave(self)
        if self.uri == keeper.url:  # and not one of another test
            looks.append(left)
        return left

    monkeypatch.setattr(Shipper, "_stop_if_idle", look)
    first = begin(remote=keeper.url, custom_run_id="x")
    second = begin(remote=keeper.url, custom_run_id="x")
    first["a"], second["b"] = 1, 1
    first.stop()
    before = len(looks)
    until(lambda: looks[-1] or len(looks) > before + 3)  # nothing is left to be sent
    assert not any(looks)
    second["b"] = 2
    second.stop()
    assert first.id == second.id
    assert kept_like(second, keeper)
    until(lambda: not any(keeper.url in each.name for each in threading.enumerate()))


def test_an_exit_without_stop_sends_the_rest(keeper, tmp_path):
    more = "run.log_metrics({'a': 1.0}, step=1)\nrun.session.rest()\n"
    done = subprocess.run(
        script(tmp_path, keeper.url, more), capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    run = done.stdout.split()[0]
    folder = tmp_path / "root" / "p" / run / "journal"
    local = {each.name: each.read_bytes() for each in folder.iterdir()}
    assert {name: bytes(data) for name, data in keeper.journals["p", run].items()} == local


def test_the_exception_of_a_training_is_told_before_anything_is_waited_for(tmp_path):
    """Whatever becomes of what is sent: one line may follow."""
    with keeping() as (keeper, address):
        keeper.meddle = lambda *_: (401, {"error": "token", "hint": "no"}, {})
        url = f"http://127.0.0.1:{address[1]}"
        more = "with run:\n    raise OSError('of the training')\n"
        done = subprocess.run(
            script(tmp_path, url, more), capture_output=True, text=True, timeout=200, check=False
        )
    assert done.returncode == 1
    told = done.stderr.rstrip().splitlines()
    assert len(told) - told.index("OSError: of the training") <= 2


# Says when what waits for a remote begins to do so. By then the thread that sends has failed once:
# Python forgets that Ctrl-C ends it where a thread imports meanwhile, and exits with status 1.
SAY_WHEN = """
import time
from seamark.remote.shipper import Shipper
wait = Shipper.wait
def waiting(shipper, *given):
    while not shipper._failures:
        time.sleep(0.01)
    print("now", flush=True)
    return wait(shipper, *given)
Shipper.wait = waiting
"""
SLOW_END = """
run.log_metrics({'a': 1.0}, step=1)
others = [seamark.init_run("p", root=run.root, remote=%r, **QUIET) for _ in range(3)]
"""


def journals(root):
    return list((root / "p").glob("*/journal/*"))


def interrupted(command):
    """Press Ctrl-C while a process waits; return what it said, its status, and how long it took."""
    root = Path(command[-1]).parent / "root"
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        until(lambda: "now" in process.stdout.readline())
        # What waits has closed its runs first.
        assert all(b'"state":"completed"' in each.read_bytes() for each in journals(root))
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        said = process.communicate(timeout=100)[1]
    return said, process.returncode, time.monotonic() - began


def test_ctrl_c_ends_the_wait_of_stop_and_nothing_waits_again(tmp_path):
    nowhere = "http://127.0.0.1:9"
    said, status, seconds = interrupted(script(tmp_path, nowhere, SAY_WHEN + "run.stop()\n"))
    assert status == -signal.SIGINT
    assert seconds < shippers.EXIT_S / 2
    assert said.count("seamark sync") == 1
    assert said.rstrip().endswith("KeyboardInterrupt")


def test_ctrl_c_at_the_end_of_the_process_leaves_no_run_open(tmp_path):
    nowhere = "http://127.0.0.1:9"
    said, _, seconds = interrupted(script(tmp_path, nowhere, SAY_WHEN + SLOW_END % nowhere))
    assert seconds < shippers.EXIT_S / 2
    assert said.count("seamark sync") == 1
    assert "not all of 4 runs" in said
    assert "Traceback" not in said
    found = journals(tmp_path / "root")
    assert len(found) == 4
    assert all(b'"state":"completed"' in each.read_bytes() for each in found)


def test_an_exception_is_not_held_up_by_what_is_left(begin):
    """It leaves the with-block at once; the end of the process waits."""
    run, began = begin(remote="http://127.0.0.1:9"), time.monotonic()
    with pytest.raises(OSError, match="of the training"), run:
        raise OSError(5, "of the training")
    assert time.monotonic() - began < shippers.EXIT_S / 2


# --------------------------------------------------------------------- what people read


def test_the_lines_for_people_say_where_a_run_is_sent(begin, keeper, capsys, monkeypatch):
    begin(remote=keeper.url).stop()
    first, last = [line for line in capsys.readouterr().err.splitlines() if "see it" in line]
    assert f", sending to {keeper.url} (see it with" in first
    assert f", sent to {keeper.url} (see it with" in last

    def told(**given):
        begin(**given).stop()
        return capsys.readouterr().err

    monkeypatch.setenv("SEAMARK_REMOTE", keeper.url)
    assert "--root" in told()  # else the command asks there
