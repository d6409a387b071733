"""What becomes of ranks: killed, failed, ended by a signal; told by name, with real processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from seamark import init_run

if TYPE_CHECKING:
    from collections.abc import Iterator

QUIET = dict.fromkeys(
    [f"capture_{what}" for what in ("git", "script", "packages", "host", "traceback")], False
)
WORK = """
    import os, sys, time
    from seamark import init_run
    run = init_run("p", root=sys.argv[1], custom_run_id="one", ranks="all", **{quiet!r})
    rank = int(os.environ["RANK"])
    run.log_metrics({{"loss": 1.0}}, 0)
    print("ready", flush=True)
    if sys.stdin.readline().strip() == "fail":
        raise ValueError(f"boom on rank {{rank}}")
"""


@contextlib.contextmanager
def started_ranks(root: Path, size: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Yield the processes of a training, each of which waits for a line; kill what is left."""
    code = textwrap.dedent(WORK).format(quiet=QUIET)
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size)},
        )
        for rank in range(size)
    ]
    try:
        for each in ranks:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        yield ranks
    finally:
        for each in ranks:
            each.kill()
            each.communicate(timeout=60)


def seamark(root: Path, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "seamark", *args, "--root", str(root)],
        capture_output=True,
        text=True,
        check=True,
        timeout=180,
    )
    return done.stdout


def statuses(root: Path) -> dict[int, tuple[str, str]]:
    run = init_run("p", root=root, custom_run_id="one", mode="read-only")
    return {one.rank: (one.state, one.why) for one in run._view().ranks()}


def test_show_names_the_ranks_that_met_a_bad_end(tmp_path):
    """One is killed, one fails, one gets SIGTERM, one ends well while rank 0 goes on."""
    with started_ranks(tmp_path, 5) as ranks:
        bad_ends(tmp_path, ranks)


def bad_ends(tmp_path: Path, ranks: list[subprocess.Popen[str]]) -> None:
    ranks[1].kill()
    ranks[1].wait(60)
    ranks[2].communicate("fail\n", timeout=60)
    ranks[3].send_signal(signal.SIGTERM)
    ranks[3].wait(60)
    ranks[4].communicate("\n", timeout=60)
    assert statuses(tmp_path) == {
        0: ("running", ""),
        1: ("killed", ""),
        2: ("failed", "ValueError: boom on rank 2"),
        3: ("interrupted", "SIGTERM"),
        4: ("completed", ""),
    }
    shown = seamark(tmp_path, "show", "latest")
    assert "5: 1 running, 1 completed, 1 failed, 1 interrupted, 1 killed" in shown
    assert f"! rank 1 was killed (pid {ranks[1].pid} on " in shown
    assert f"! rank 2 failed (pid {ranks[2].pid} on " in shown
    assert "ValueError: boom on rank 2" in shown
    assert "! rank 3 was interrupted by SIGTERM" in shown
    assert "rank 4 " not in shown
    told = json.loads(seamark(tmp_path, "show", "latest", "--json"))["ranks"]
    assert [(one["rank"], one["state"]) for one in told][:2] == [(0, "running"), (1, "killed")]
    ranks[0].kill()
    ranks[0].wait(60)
    shown = seamark(tmp_path, "show", "latest")
    assert f"! rank 0 was killed (pid {ranks[0].pid} on " in shown


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_note_how_they_end(tmp_path, method):
    """Of `multiprocessing`: where no exit handler runs, and no exception reaches the hook."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        import multiprocessing, os, sys
        from seamark import init_run

        def train(rank, root):
            os.environ.update(RANK=str(rank), WORLD_SIZE="5")
            run = init_run("p", root=root, custom_run_id="one", ranks="all", **{QUIET!r})
            run.log_metrics({{"loss": 1.0}}, 0)
            if rank == 1:
                raise ValueError("from rank 1")
            if rank == 2:
                sys.exit(3)
            if rank == 3:
                try:
                    raise OSError("from rank 3")
                except OSError:
                    sys.exit(1)

        if __name__ == "__main__":
            context = multiprocessing.get_context({method!r})
            workers = [context.Process(target=train, args=(n, sys.argv[1])) for n in range(4)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            print(*[worker.exitcode for worker in workers])
        """)
    )
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "root")],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    assert done.stdout == "0 1 3 1\n", done.stderr
    assert "ValueError: from rank 1" in done.stderr
    assert statuses(tmp_path / "root") == {
        0: ("completed", ""),
        1: ("failed", "ValueError: from rank 1"),
        2: ("completed", ""),
        3: ("failed", "OSError: from rank 3"),
    }


def test_a_launcher_that_records_last_does_not_hide_who_was_killed(tmp_path):
    """As under ``ddp_spawn``: workers have copies of the launcher's run; rank 0 is in both."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        import multiprocessing, os, signal, sys
        from seamark import Run

        def train(run, rank):
            os.environ.update(RANK=str(rank), WORLD_SIZE="2")
            run.log_metrics({{"loss": 1.0}}, 0)
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)

        if __name__ == "__main__":
            given = dict(project="p", root=sys.argv[1], custom_run_id="one", ranks="all")
            run = Run._create(lazy=True, **given, **{QUIET!r})
            context = multiprocessing.get_context("spawn")
            for rank in (1, 0):
                worker = context.Process(target=train, args=(run, rank))
                worker.start()
                worker.join()
            run["gone"] = 1
            run.note_state("failed", error=RuntimeError("a worker is gone"))
            run.stop()
        """)
    )
    subprocess.run(
        [sys.executable, str(script), str(tmp_path / "root")],
        capture_output=True,
        check=True,
        timeout=240,
    )
    assert statuses(tmp_path / "root") == {
        0: ("failed", "RuntimeError: a worker is gone"),
        1: ("killed", ""),
    }


def test_a_worker_of_torch_that_raises_has_failed(tmp_path):
    """`torch.multiprocessing` turns the error of a worker into an exit, and kills the others."""
    pytest.importorskip("torch")
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        import os, sys, time
        from seamark import init_run
        import torch.multiprocessing as mp

        def train(rank, root):
            os.environ.update(RANK=str(rank), WORLD_SIZE="2")
            run = init_run("p", root=root, custom_run_id="one", ranks="all", **{QUIET!r})
            run.log_metrics({{"loss": 1.0}}, 0)
            open(f"{{root}}/{{rank}}", "w").close()
            while not all(os.path.exists(f"{{root}}/{{n}}") for n in range(2)):
                time.sleep(0.01)
            if rank == 0:
                raise ValueError("from rank 0")
            time.sleep(600)

        if __name__ == "__main__":
            mp.spawn(train, args=(sys.argv[1],), nprocs=2)
        """)
    )
    root = tmp_path / "root"
    root.mkdir()
    done = subprocess.run(
        [sys.executable, str(script), str(root)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert "ValueError: from rank 0" in done.stderr
    told = statuses(root)
    assert told == {0: ("failed", "ValueError: from rank 0"), 1: ("interrupted", "SIGTERM")}
    run = init_run("p", root=root, custom_run_id="one", mode="read-only")
    assert run["sys/state"].fetch() == "failed"


def test_a_run_that_rests_says_so(tmp_path, monkeypatch):
    """With ranks="zero" too: no step for long, although the process lives."""
    from seamark.local.index import Index

    with init_run("p", root=tmp_path, **QUIET) as run:
        for step in range(5):
            run.log_metrics({"loss": 1.0}, step)
        last = run._writer._last_t
        index = Index.open(tmp_path, now_ns=lambda: last + 80 * 10**9)
        index.refresh()
        (rank,) = index.view("p", run.id).ranks()
        assert (rank.rank, rank.state) == (0, "hangs")
        from seamark.cli._ranks import rank_troubles

        (line,) = rank_troubles(index.view("p", run.id), "running")
        index.close()
    assert line.startswith("no step for 1 min 20 s, although its process lives (pid ")
