"""What a process records is sent while it records, whatever happens to network or remote."""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
import time
from typing import Any

import pytest
from proxy import Trouble, proxied
from scripts import run_script, start_script
from server_waits import until
from urllib3 import Timeout

import seamark
from seamark.errors import ArgumentError
from seamark.journal.reader import JournalReader
from seamark.remote import shipper as shippers
from seamark.remote.http import connection
from seamark.remote.shipper import Shipper


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    """Shorten pauses."""
    for name, seconds in {
        "MIN_WAIT_S": 0.05,
        "_FIRST_BACK_OFF_S": 0.01,
        "_MAX_BACK_OFF_S": 0.1,
        "_MAX_AWAITED_BACK_OFF_S": 0.05,
    }.items():
        monkeypatch.setattr(shippers, name, seconds)


def record(run, count=200, start=0):
    for step in range(start, start + count):
        run.log_metrics({"train/loss": 1 / (step + 1), "train/acc": float(step)}, step=step)


def warnings(caplog):
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


def kept_like(run, keeper):
    """Return whether a server keeps exactly the journals that are on disk."""
    kept = keeper.journals.get((run.project, run.id), {})
    local = {each.path.name: each.path.read_bytes() for each in run.folder.journals()}
    return {name: bytes(data) for name, data in kept.items()} == local


def test_data_is_sent_while_the_training_continues(begin, keeper):
    run = begin(remote=keeper.url)
    record(run)
    until(lambda: kept_like(run, keeper))
    record(run, start=200)
    assert shippers.flush(keeper.url, 60)
    assert kept_like(run, keeper)
    position = sum(map(len, keeper.journals["p", run.id].values()))
    assert shippers.positions(keeper.url) == {("p", run.id): position}
    run.session.ending.rest()  # as after each stage of Lightning; it goes on in another journal
    until(lambda: kept_like(run, keeper))
    record(run, start=400)
    run.session.ending.rest()
    run.stop()
    assert shippers.flush(keeper.url, 60)
    until(lambda: not any(keeper.url in each.name for each in threading.enumerate()))
    sizes = [journal.path.stat().st_size for journal in run.folder.journals()]
    assert len(sizes) == len(keeper.journals["p", run.id]) == 2
    assert sum(sizes) > position
    assert shippers.positions(keeper.url) == {("p", run.id): sum(sizes)}  # later reads need it


def test_all_of_a_run_that_began_without_a_remote_is_sent(begin, tmp_path):
    """Also what a stopped and a killed process recorded, and files; `transfers` has the address."""
    there = (tmp_path / "there").as_uri()
    first = begin(name="early", params={"lr": 0.5})
    record(first)
    first["note"].upload(seamark.types.File.from_content("early"))
    first.stop()
    code = (
        "import os, sys, seamark; from recording import QUIET\n"
        "run = seamark.init_run('p', with_id=sys.argv[1], root=sys.argv[2], **QUIET)\n"
        "run['killed'] = 1; run.wait(); os.kill(os.getpid(), 9)\n"
    )
    run_script(code, first.id, str(first.root), status=-signal.SIGKILL)
    later = begin(with_id=first.id, remote=there, owner=True)
    later["later"] = 1
    later["train/loss"].append(0.5)
    later.stop()
    sent = tmp_path / "there" / "p" / first.id / "journal"
    assert {each.name: each.read_bytes() for each in sent.iterdir()} == {
        each.path.name: each.path.read_bytes() for each in first.folder.journals()
    }
    found = seamark.init_run("p", with_id="early", root=tmp_path / "there", mode="read-only")
    values = [found[path].fetch() for path in ("parameters/lr", "killed", "later")]
    assert values == [0.5, 1, 1]
    assert len(found["train/loss"].fetch_points()) == 201
    assert found["note"].fetch_bytes() == b"early"
    (transfer,) = found.transfers
    assert (transfer["to"], transfer["name"]) == (there, None)
    here = seamark.init_run("p", with_id=first.id, root=first.root, mode="read-only")
    assert found.transfers == here.transfers


def test_the_environment_names_remotes(begin, keeper, tmp_path, monkeypatch, capsys):
    """The printed lines name them, and tell the command where to look."""
    begin(remote=keeper.url).stop()
    first, last = [line for line in capsys.readouterr().err.splitlines() if "see it" in line]
    assert f", sending to {keeper.url} (see it with" in first
    assert f", sent to {keeper.url} (see it with" in last
    monkeypatch.setenv("SEAMARK_REMOTE", f"{keeper.url}, {(tmp_path / 'there').as_uri()}")
    run = begin()
    run.stop()
    assert "--root" in capsys.readouterr().err  # else the command asks there
    assert kept_like(run, keeper)
    assert (tmp_path / "there" / "p" / run.id / "journal").is_dir()
    away = begin(mode="offline")
    away.stop()
    assert ("p", away.id) not in keeper.journals
    assert (run.checkpoints, away.checkpoints) == ("keep", "reference")
    monkeypatch.setenv("SEAMARK_REMOTE", "htps://lab")
    with pytest.raises(ArgumentError, match=r"SEAMARK_REMOTE.*did you mean https"):
        begin()


def test_many_runs_share_one_thread_and_their_token_is_not_recorded(begin, keeper):
    runs = [begin(remote=keeper.url, api_token="sekrit-0123456789") for _ in range(6)]
    for run in runs:
        record(run, 5)
        run["note"] = "my token is sekrit-0123456789"
    assert sum(keeper.url in each.name for each in threading.enumerate()) == 1
    for run in runs:
        run.stop()
        assert kept_like(run, keeper)
    assert keeper.tokens == {"Bearer sekrit-0123456789"}
    kept = [bytes(data) for journals in keeper.journals.values() for data in journals.values()]
    assert len(kept) == 6
    assert not any(b"sekrit" in data for data in kept)


def test_an_outage_writes_two_lines_and_loses_nothing(begin, keeper, caplog):
    with proxied(keeper.address) as proxy:
        proxy.go_down()
        run = begin(remote=proxy.url)
        record(run)
        until(lambda: any(proxy.url in line for line in warnings(caplog)))
        record(run, start=200)
        proxy.come_back()
        until(lambda: kept_like(run, keeper))
        run.stop()
    assert kept_like(run, keeper)
    told = [line for line in warnings(caplog) if proxy.url in line]
    assert len(told) == 2
    assert "is available again" in told[1]


@pytest.mark.parametrize(
    "trouble",
    [
        Trouble(after_sent=700),
        Trouble(after_answered=60, reset=True),
        pytest.param(Trouble(after_answered=0, silent=True), marks=pytest.mark.thorough),
    ],
    ids=["cut", "half-answer", "half-open"],
)
def test_cut_connections_lose_and_duplicate_nothing(begin, keeper, trouble, monkeypatch):
    if trouble.silent:
        monkeypatch.setattr(connection, "Timeout", lambda *_: Timeout(connect=5, read=1))
    with proxied(keeper.address, lambda number: trouble if number < 3 else None) as proxy:
        run = begin(remote=proxy.url)
        record(run, 500)
        run.stop()
        assert proxy.count > 3
        assert kept_like(run, keeper)


@pytest.mark.parametrize("status", [500, 429])
def test_a_server_that_fails_is_asked_again(begin, keeper, status):
    left = iter([(status, {"error": "x"}, {"Retry-After": "0.05"})] * 3)
    keeper.meddle = lambda *_: next(left, None)
    run = begin(remote=keeper.url)
    record(run)
    run.stop()
    assert kept_like(run, keeper)


class Clock:
    """A clock in seconds that a test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds(monkeypatch):
    """A clock for shippers without a thread: a test calls their turns."""
    monkeypatch.undo()
    monkeypatch.setattr(Shipper, "_start", lambda _: None)
    monkeypatch.setattr(shippers._random, "uniform", lambda _, most: most)
    return Clock()


def test_retry_after_is_respected(seconds, begin, keeper):
    left = iter([(429, {"error": "busy"}, {"Retry-After": "200"})])
    keeper.meddle = lambda *_: next(left, None)
    run = begin()
    record(run)
    shipper = Shipper(keeper.url, clock=seconds)
    shipper.add(run.folder, run.session.recorder.writer)
    for _ in range(200):
        shipper._send_round()
        assert len(keeper.asked) == 1
        seconds.now += 1
    seconds.now += 20  # up to a tenth more, so that not all clients return at once
    while shipper._send_round():
        pass
    assert kept_like(run, keeper)


def test_an_unreachable_remote_delays_no_other(begin, keeper, caplog, capsys):
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
    assert [told in line for line in warnings(caplog) if "seamark sync" in line] == [True]
    run = begin(remote=down)
    run.stop(seconds=0)
    assert "sent to" not in capsys.readouterr().err.splitlines()[-1]


def test_a_missing_token_is_reported_once(begin, keeper, caplog):
    keeper.meddle = lambda *_: (401, {"error": "token", "hint": "this server needs a token"}, {})
    run = begin(remote=keeper.url)
    record(run)
    until(lambda: any("seamark login" in line for line in warnings(caplog)))
    began = time.monotonic()
    run.stop()
    assert time.monotonic() - began < 30
    assert sum("needs a token" in line for line in warnings(caplog)) == 1


def test_a_purged_run_is_reported_in_one_line(begin, keeper, caplog):
    gone, other = begin(remote=keeper.url), begin(remote=keeper.url)
    purged = (410, {"error": "purged", "hint": "purged by an owner"}, {})
    keeper.meddle = lambda _, path, __: purged if gone.id in path else None
    for run in (gone, other):
        record(run)
        run.stop()
    assert kept_like(other, keeper)
    told = [line for line in warnings(caplog) if keeper.url in line]  # others may have shippers
    assert [gone.id in line for line in told] == [True]


class Written:
    """A writer of some journals."""

    def __init__(self, *writers: str) -> None:
        self.writers = writers


def send_again(shipper, run, journal):
    """Send one journal of a run that has ended."""
    written = Written(journal.name.rpartition(".")[0])
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
    keeper.journals["p", run.id] = {first.name: cloned + bytes(64)}
    send_again(Shipper(keeper.url), run, first)
    assert any("cloned machine" in line for line in warnings(caplog))
    assert keeper.journals["p", run.id] == {first.name: cloned + bytes(64)}


def test_a_restored_server_gets_its_lost_data(begin, keeper):
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


def test_a_request_that_is_too_long_for_a_proxy_is_sent_in_smaller_parts(begin, keeper):
    answer, recorded, refused = keeper.answer, threading.Event(), []

    def limited(method, path, query, body, headers):
        assert recorded.wait(60)
        if len(body) > 200_000:
            refused.append(len(body))
            return 413, {}, {}
        return answer(method, path, query, body, headers)

    keeper.answer = limited
    run = begin(remote=keeper.url)
    for number in range(40):
        run[f"noise/{number}"] = os.urandom(20_000).hex()
    run.wait()
    recorded.set()
    run.stop()
    assert refused
    assert kept_like(run, keeper)


def test_damage_in_a_journal_is_sent_as_a_gap(begin, keeper):
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


def test_an_error_in_a_plugin_ends_no_training(begin, keeper, caplog):
    class Broken:
        def journals(self, run: Any) -> Any:
            raise ZeroDivisionError("in a plugin")

        def close(self) -> None:
            raise ZeroDivisionError

    shipper = Shipper("broken://x", open_=lambda *_: Broken())
    run = begin()
    shipper.add(run.folder, run.session.recorder.writer)
    record(run)
    assert not shipper.wait_at_end(0.1)
    until(lambda: any("in a plugin" in line for line in warnings(caplog)))


# --------------------------------------------------------------------- processes

SCRIPT = """
import os, sys, time
import seamark
from recording import QUIET
given = dict(project="p", root=sys.argv[1], remote=sys.argv[2], **QUIET)
run = seamark.init_run(custom_run_id="x", **given)
print(run.id, flush=True)
"""


def journals(tmp_path):
    """Return the contents of the journals below the root of `SCRIPT` by name."""
    return {each.name: each.read_bytes() for each in tmp_path.glob("root/p/*/journal/*")}


FORK = """
import threading
run["parent"] = 1
if not (pid := os.fork()):
    assert not [each for each in threading.enumerate() if "shipper" in each.name]
    run["child"] = os.getpid()
    for n in range(50):
        run.log_metrics({"child/a": n}, step=n)
    run.stop()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
run.stop()
"""


def test_each_process_sends_its_own_journal(keeper, tmp_path):
    out, _ = run_script(SCRIPT + FORK, str(tmp_path / "root"), keeper.url)
    kept = keeper.journals["p", out.strip()]
    # What a process wrote as it ended may be sent after its end.
    until(lambda: {name: bytes(data) for name, data in kept.items()} == journals(tmp_path))
    assert len(kept) >= 2


def test_stopping_one_object_of_a_run_keeps_sending_for_the_others(begin, keeper):
    first = begin(remote=keeper.url, custom_run_id="x")
    second = begin(remote=keeper.url, custom_run_id="x")
    first["a"], second["b"] = 1, 1
    first.stop()
    (shipper,) = shippers.known(keeper.url)
    assert shipper.wait(60)
    shipper._stop_if_idle()  # nothing is left to be sent
    assert len(shipper._shipments) == 1
    second["b"] = 2
    second.stop()
    assert first.id == second.id
    assert kept_like(second, keeper)
    until(lambda: not any(keeper.url in each.name for each in threading.enumerate()))


def test_an_exit_without_stop_sends_the_rest(keeper, tmp_path):
    code = SCRIPT + "run.log_metrics({'a': 1.0}, step=1)\nrun.session.ending.rest()\n"
    out, _ = run_script(code, str(tmp_path / "root"), keeper.url)
    kept = keeper.journals["p", out.split()[0]]
    assert {name: bytes(data) for name, data in kept.items()} == journals(tmp_path)


def test_an_exception_of_a_training_is_not_delayed_by_a_remote(begin, keeper, tmp_path):
    """It leaves the with-block at once; at most one line follows its traceback."""
    run, began = begin(remote="http://127.0.0.1:9"), time.monotonic()
    with pytest.raises(OSError, match="of the training"), run:
        raise OSError(5, "of the training")
    assert time.monotonic() - began < shippers.EXIT_S / 2
    keeper.meddle = lambda *_: (401, {"error": "token", "hint": "no"}, {})
    code = SCRIPT + "with run:\n    raise OSError('of the training')\n"
    _, err = run_script(code, str(tmp_path / "root"), keeper.url, status=1)
    told = err.rstrip().splitlines()
    assert len(told) - told.index("OSError: of the training") <= 2


# Prints a line when the wait for a remote begins. By then the thread that sends has failed once:
# Python forgets that Ctrl-C ends it where a thread imports meanwhile, and exits with status 1.
PRINT_WHEN_WAITING = """
from seamark.remote.shipper import Shipper
wait = Shipper.wait
def waiting(shipper, *given):
    while not shipper._failures:
        time.sleep(0.01)
    print("now", flush=True)
    return wait(shipper, *given)
Shipper.wait = waiting
"""


@pytest.mark.parametrize(
    ("code", "runs", "message"),
    [
        pytest.param("run.stop()", 1, r"KeyboardInterrupt\s*\Z", id="in stop()"),
        pytest.param(
            "others = [seamark.init_run(**given) for _ in range(3)]",
            4,
            "not all data of 4 runs",
            id="at the end of the process",
        ),
    ],
)
def test_ctrl_c_ends_the_wait_and_leaves_no_run_open(tmp_path, code, runs, message):
    nowhere = "http://127.0.0.1:9"
    text = SCRIPT + PRINT_WHEN_WAITING + "run.log_metrics({'a': 1.0}, step=1)\n" + code
    with start_script(text, str(tmp_path / "root"), nowhere) as process:
        until(lambda: "now" in process.stdout.readline())
        # The runs were closed before the wait.
        assert all(b'"state":"completed"' in each for each in journals(tmp_path).values())
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, told = process.communicate(timeout=100)
    assert time.monotonic() - began < shippers.EXIT_S / 2
    assert told.count("seamark sync") == 1
    assert re.search(message, told)
    in_stop = code == "run.stop()"
    assert (process.returncode == -signal.SIGINT) or not in_stop
    assert ("Traceback" in told) == in_stop
    found = journals(tmp_path).values()
    assert len(found) == runs
    assert all(b'"state":"completed"' in each for each in found)
