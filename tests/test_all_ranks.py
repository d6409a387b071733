"""``ranks="all"``: every rank records into one run, and none waits for another; also launchers.

Real processes: most need no torch and are told their rank as a launcher does; those that agree on a
run over a process group are skipped where torch is missing.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import journals
import pytest
from recording import QUIET

import seamark
from seamark import Run, init_run
from seamark.errors import ArgumentError
from seamark.run.run import make_run

HEAD = f"""
import os, sys
from seamark import init_run
quiet = {QUIET!r}

def join():
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method="file://" + sys.argv[2],
        rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    dist.barrier()  # else one may be gone before the other is connected with it
    return dist
"""


def on_ranks(forks, code, *args, size=2, **more):
    same = {"WORLD_SIZE": str(size), **more}
    environments = [{"RANK": str(rank), **same} for rank in range(size)]
    ended = forks.run(HEAD + textwrap.dedent(code), *args, environments=environments)
    assert [each.code for each in ended] == [0] * size, [each.stderr for each in ended]
    return [each.stdout for each in ended]


def begin(root, **given):
    return init_run("p", root=root, ranks="all", **{"custom_run_id": "one", **QUIET, **given})


def opened(root, **given):
    return init_run("p", root=root, mode="read-only", **(given or {"custom_run_id": "one"}))


def headers(run):
    found: dict[int, dict[str, Any]] = {}
    for header in journals.headers(run):
        if header["continues"] is None:
            found[header["rank"]] = header
    return found


def series_paths(run):
    return run.session.recorded.view().series_paths()


def values(run, path, **how):
    return run[path].fetch_points(**how).value.tolist()


EVERY_VERB = """
    from seamark.types import File, Histogram
    root, given = sys.argv[1], {"custom_run_id": "one", "ranks": "all", **quiet}
    with init_run("p", root=root, name="n", tags=["t"], params={"lr": 0.1}, **given) as run:
        rank = int(os.environ["RANK"])
        for step in range(3):
            run.log_metrics({"loss": step + 10 * rank, "acc": 0.5}, step)
            run.log_metrics({"numbered": rank})
            run["train"].log_metrics({"x": rank}, step)
        run["one"].append(rank, step=7)
        run["many"].extend([1.0, 2.0], steps=[0, 5])
        run["both"].append({"a": 1, "b": 2})
        run["words"].append(f"rank {rank}")
        run["hist"].append(Histogram([0, 1], [rank]))
        run["pictures"].append(File.from_content(f"{rank}", extension="txt"))
        run[f"{run.session.series_base('training')}/own"].append(1.5)
        run["value"] = rank
        run["set"].add(f"rank {rank}")
        run["file"].upload(File.from_content(f"{rank}", extension="txt"))
        run["names"] = {"rank": rank}
        run["gone"].append(1)
        if rank == 0:
            del run["gone"]
        else:
            del run["never there"]  # no error either: it is not this rank's to say
        run["cleared"].append(1)
        run["cleared"].clear()
        run["cleared"].append(2)
        print(run.id, run.session.speaks_for_all, run.session.recording)
"""


@pytest.mark.once
def test_every_rank_writes_its_series_beside_those_of_rank_0(forks, tmp_path):
    """One run; values, tags and files are rank 0's; nothing is warned about or counted."""
    said = [each.split() for each in on_ranks(forks, EVERY_VERB, str(tmp_path))]
    run = opened(tmp_path)
    assert said == [[run.id, "True", "True"], [run.id, "False", "True"]]
    shared = ["acc", "both/a", "both/b", "cleared", "loss", "many", "numbered", "one"]
    shared += ["train/x"]
    others = [f"ranks/1/{path}" for path in [*shared, "gone"]]
    own = ["training/own", "training/ranks/1/own"]
    assert series_paths(run) == sorted([*shared, *others, *own])
    assert values(run, "loss") == [0, 1, 2]
    assert values(run, "ranks/1/loss") == [10, 11, 12]
    assert run["ranks/1/numbered"].fetch_points().step.tolist() == [0, 1, 2]
    assert run["ranks/1/many"].fetch_points().step.tolist() == [0, 5]
    assert values(run, "ranks/1/cleared") == [2]
    for path in ("words", "hist", "pictures"):
        assert run.exists(path)
        assert run.exists(f"ranks/1/{path}")
    kept = run["ranks/1/pictures"].fetch_last()
    assert kept["sha256"] == hashlib.sha256(b"1").hexdigest()
    assert (run["value"].fetch(), run["names/rank"].fetch()) == (0, 0)
    assert (run["set"].fetch(), run["sys/tags"].fetch()) == ({"rank 0"}, {"t"})
    assert run["sys/state"].fetch() == "completed"
    assert not run.exists("monitoring/seamark")
    assert not run.exists("ranks/1/value")
    found = {rank: (one["owner"], one["attempt"]) for rank, one in headers(run).items()}
    assert found == {0: (True, 0), 1: (False, 0)}


@pytest.fixture
def become(monkeypatch):
    def become(rank, size=2):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(size))

    return become


def test_files_of_other_ranks_are_not_stored(tmp_path, become):
    for rank in range(2):
        become(rank)
        source = tmp_path / f"big{rank}"
        source.write_bytes(b"%d" % rank * 5_000_000)
        with begin(tmp_path) as run:
            run["file"].upload(str(source))
            run["several"].upload_files(str(source))
            run["kept"].track_files(str(source))
            run["text"] = str(rank) * 5_000_000
            run.session.begin()
            run.session.content.keep("checkpoint", source)
            run.session.content.refer("reference", source)
    blobs = list(run.folder.blobs_dir.iterdir())
    assert len(blobs) == len({blob.stat().st_size for blob in blobs}) <= 2  # 0…0, and its text
    assert not any(b"1" in blob.read_bytes()[:10] for blob in blobs)


@pytest.mark.parametrize("known", [{"RANK": "0"}, {"RANK": "1"}, {"NODE_RANK": "1"}])
def test_ranks_that_cannot_agree_are_told_and_write_nothing(tmp_path, monkeypatch, known):
    for name, value in {"WORLD_SIZE": "2", **known}.items():
        monkeypatch.setenv(name, value)
    expected = r"init_process_group\(\) or hvd.init\(\), or give cust"
    with pytest.raises(ArgumentError, match=expected):
        init_run("p", root=tmp_path, ranks="all")
    assert not list(tmp_path.iterdir())


def test_a_pickled_run_takes_the_rank_of_its_process(tmp_path, become):
    """As loggers travel to spawned workers; also before anything was recorded."""
    lazy = make_run(project="p", root=tmp_path, ranks="all", **QUIET)
    for rank in range(2):
        become(rank)
        run = pickle.loads(pickle.dumps(lazy))
        assert run.session.agree() is run.session
        run.log_metrics({"loss": rank}, 0)
        run["x"] = 1
        run.stop()
    assert series_paths(run) == ["loss", "ranks/1/loss"]
    assert {rank: one["owner"] for rank, one in headers(run).items()} == {0: True, 1: False}


def test_a_forked_process_may_be_another_rank(forks, tmp_path):
    cases = [(ranks, begun) for ranks in ("zero", "all") for begun in (False, True)]
    code = f"""
        for ranks, begun in {cases}:
            run = init_run("p", root=sys.argv[1], custom_run_id=f"{{ranks}} {{begun}}",
                           ranks=ranks, **quiet)
            if begun:
                run.log_metrics({{"loss": 0}}, 0)
                run["value"] = "parent"
            children = []
            for rank in (1, 2):
                if not (child := os.fork()):
                    os.environ.update(RANK=str(rank), WORLD_SIZE="3")
                    for step in range(3):
                        run.log_metrics({{"loss": rank}}, step)
                    run["text"].append(str(rank))
                    run["value"] = rank
                    run.stop()
                    os._exit(0)
                children.append(child)
            for child in children:
                assert os.waitpid(child, 0)[1] == 0
            run.log_metrics({{"loss": 0}}, 1)
            run.stop()
    """
    (done,) = forks.run(HEAD + textwrap.dedent(code), str(tmp_path), environments=[{}])
    assert done.code == 0, done.stderr
    for ranks, begun in cases:
        run = opened(tmp_path, custom_run_id=f"{ranks} {begun}")
        others = ["ranks/1/loss", "ranks/2/loss"] if ranks == "all" else []
        assert series_paths(run) == ["loss", *others]
        assert values(run, "loss") == ([0, 0] if begun else [0])
        for path in others:
            assert run[path].fetch_points().step.tolist() == [0, 1, 2]
        assert run.exists("value") is begun
        assert run["sys/state"].fetch() == "completed"


def test_mistakes_on_another_rank_are_counted_as_on_rank_0(tmp_path, become, caplog):
    become(1)
    with begin(tmp_path) as run:
        run.log_metrics({"/bad": 1, "sys/state": 1, 5: 1, "good": 1, "text": "x"}, 0)
        run.log_metrics(5)
    run = opened(tmp_path)
    assert series_paths(run) == ["ranks/1/good"]
    assert run["monitoring/seamark/dropped"].fetch() == {"path": 3, "value": 1, "metrics": 1}
    assert "'/bad' is left out" in caplog.text


@pytest.mark.parametrize("disabled", [False, True])
@pytest.mark.once
def test_ranks_agree_over_a_process_group(torch_forks, tmp_path, disabled):
    """The id of rank 0, whatever each minted, and whichever run it finds by a name.

    A rank that is disabled keeps nobody waiting.
    """
    code = f"""
        dist = join()
        mode = "disabled" if {disabled} and dist.get_rank() == 1 else None
        run = init_run("p", root=sys.argv[1], name="n", ranks="all", mode=mode, **quiet)
        run.log_metrics({{"loss": dist.get_rank()}}, 0)
        print(run.id)
        run.stop()
        if not {disabled}:
            dist.barrier()
            its = sys.argv[1] + "-none" * dist.get_rank()
            with init_run("p", root=its, with_id="n", ranks="all", **quiet) as again:
                print(again.id)
        dist.destroy_process_group()
    """
    said = on_ranks(torch_forks, code, str(tmp_path / "root"), str(tmp_path / "meet"))
    (name,) = {word for each in said for word in each.split()}
    run = opened(tmp_path / "root", with_id=name)
    assert series_paths(run) == ["loss"] if disabled else ["loss", "ranks/1/loss"]


@pytest.mark.once
@pytest.mark.thorough
def test_a_group_that_moves_no_text_is_left_alone(torch_forks, tmp_path):
    """As NCCL's before each process has chosen its device: another group is made for the moment."""
    code = """
        import torch.distributed as dist
        from torch._C._distributed_c10d import FakeProcessGroup
        from seamark.process.rank import broadcast_from_rank_zero
        make = getattr(FakeProcessGroup, "_create_internal", FakeProcessGroup)
        dist.Backend.register_backend(
            "deaf", lambda store, rank, size, timeout: make(rank, size), devices=["cpu"])
        rank = int(os.environ["RANK"])
        dist.init_process_group(
            "deaf", init_method="file://" + sys.argv[1], rank=rank, world_size=2)
        group = dist.group.WORLD
        print(broadcast_from_rank_zero(f"from {rank}"), broadcast_from_rank_zero(f"again {rank}"))
        assert dist.group.WORLD is group
        dist.destroy_process_group()
    """
    assert on_ranks(torch_forks, code, str(tmp_path / "meet")) == ["from 0 again 0\n"] * 2


@pytest.mark.parametrize(
    "story",
    [
        "zero saves, one saves, zero goes on, one goes on",
        "one saves, one goes on, zero saves, zero goes on",
        "zero saves, zero goes on, one saves, one goes on",
        "zero saves, zero goes on, one logs 1",  # and is killed before its mark
        "one logs 1, zero saves, one logs 2, zero goes on",
    ],
    ids=["together", "ahead", "behind", "killed", "unmarked"],
)
def test_what_another_rank_recorded_after_a_checkpoint_is_hidden_too(tmp_path, become, story):
    """Each rank marks in its own journal how far that belongs to the checkpoint.

    Whether it is ahead of the rank that saves or behind it, and if it dies in between. A rank that
    never marks is believed to be as far as the one that saves.
    """
    runs, states = {}, {}
    for rank, who in enumerate(("zero", "one")):
        become(rank)
        runs[who] = begin(tmp_path)
        runs[who].log_metrics({"x": 0}, None)
    for who in ("zero",) if "one logs 2" in story else ("zero", "one"):
        runs[who].checkpoint_state(marked=True)
        runs[who].mark_checkpoint()
    for event in story.split(", "):
        who, deed = event.split(" ", 1)
        run = runs[who]
        if deed == "saves":
            states[who] = run.checkpoint_state(marked=True)
            run.log_metrics({"x": 1}, 1)  # of the step in which it was saved
            run.mark_checkpoint()
        elif deed == "goes on":
            run.log_metrics({"x": 2}, 2)
            run.checkpoint_state(marked=True)
            run.mark_checkpoint()
            run.stop()
        else:
            run.log_metrics({"x": int(deed[-1])}, int(deed[-1]))
    runs["one"].stop()
    become(0)
    again = begin(tmp_path).resumed(states["zero"])
    again.log_metrics({"x": 3}, 3)
    again.stop()
    read = opened(tmp_path)
    assert values(read, "x") == [0, 1, 3]
    assert values(read, "ranks/1/x") == [0, 1]
    everything = [0, 1] if story.endswith("one logs 1") else [0, 1, 2]
    assert values(read, "ranks/1/x", attempt="all") == everything


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_ranks_that_load_a_checkpoint_one_after_the_other_are_one_attempt(tmp_path, become, order):
    state: dict[str, Any] = {}
    for start in range(3):
        runs: dict[int, Run] = {}
        for rank in order:
            become(rank)
            runs[rank] = begin(tmp_path)
        for rank in order:
            become(rank)
            if start:
                runs[rank] = runs[rank].resumed(state)
            else:
                runs[rank].log_metrics({"x": 1}, 1)
        if not start:
            become(0)
            state = runs[0].checkpoint_state()
        for rank in order:
            become(rank)
            runs[rank].log_metrics({"x": start}, 2)
        for rank in order:
            become(rank)
            runs[rank].stop()
    read = opened(tmp_path)
    for path in ("x", "ranks/1/x"):
        assert values(read, path) == [1, 2]
        assert read[path].fetch_points().attempt.tolist() == [0, 2]


LATE = f"""
import os, sys, threading
import torch.distributed as dist
import torch.multiprocessing as mp
from seamark import init_run

def work(rank):
    run = init_run("p", root=sys.argv[1], **{QUIET!r})
    run["x"] = rank
    run.log_metrics({{"loss": rank}}, 0)
    meet = "file://" + sys.argv[1] + "-meet"
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=2)
    dist.barrier()  # else one may be gone before the other is connected with it
    run.session.recorder.writer._upkeep.keep(heartbeat=True)
    for each in threading.enumerate():
        if each.name == "seamark-late":
            each.join()
    assert run.session.recording == (rank == 0)
    run["later"] = 1
    run["texts"].append("later")
    run.log_metrics({{"loss": rank}}, 1)
    run.stop()
    dist.destroy_process_group()
    assert not rank or run["later"].fetch() is None

if __name__ == "__main__":
    mp.start_processes(work, nprocs=2, start_method="fork")
"""


@pytest.mark.once
def test_a_worker_that_learns_late_that_it_is_another_rank_stops_recording(torch_forks, tmp_path):
    """At a heartbeat, or when it stops; it says so once, keeps what it has, and is silent then."""
    root = tmp_path / "root"
    (done,) = torch_forks.run(LATE, str(root), environments=[{}])
    assert done.code == 0, done.stderr
    names = [one.name for one in (root / "p").iterdir()]
    found = [init_run("p", root=root, with_id=name, mode="read-only") for name in names]
    zero, other = sorted(found, key=lambda run: run["x"].fetch())
    assert (zero["sys/state"].fetch(), zero["later"].fetch()) == ("completed", 1)
    assert other["sys/state"].fetch() == "interrupted"
    assert not other.exists("later")
    assert not other.exists("texts")
    assert [len(run["loss"].fetch_values()) for run in (zero, other)] == [2, 1]
    assert done.stderr.count("turned out to be rank 1") == 1
    assert other["sys/id"].fetch() in done.stderr


TRAINING = """
import json
from pathlib import Path
import torch
from torch import distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
import seamark

def wrapped(kind, net):
    if kind == "fsdp":
        return FullyShardedDataParallel(net, device_id=torch.device("cpu"))
    return torch.nn.parallel.DistributedDataParallel(net)

def train(kind, **given):
    quiet = {"capture": {"git": False, "packages": False}}
    seen, rank = [], dist.get_rank()
    with seamark.init_run("p", name=kind, tags=[kind], **quiet, **given) as run:
        torch.manual_seed(0)
        net = wrapped(kind, torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        points = torch.randn(2, 8, 4)[rank]
        run["parameters"] = {"lr": 0.1, "rank": rank}
        for step in range(5):
            loss = (net(points) - points.sum(1, keepdim=True)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.log_metrics({"train/loss": loss}, step=step)
            seen.append(loss.item())
        run["note"].upload(seamark.types.File.from_content(f"rank {rank}"))
    Path(f"{kind}-{rank}.json").write_text(json.dumps([run.id, seen]))

torch.set_num_threads(1)
dist.init_process_group("gloo")
train("ddp")
train("fsdp")
train("everyone", ranks="all")
dist.destroy_process_group()
"""
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "training.py"]


@pytest.mark.timeout(300)
@pytest.mark.once
@pytest.mark.slow
def test_one_run_for_each_training_under_torchrun():
    """DDP and FSDP: rank 0 records, and no training asks which rank it is.

    With ``ranks="all"`` rank 1's series stand beside those.
    """
    pytest.importorskip("torch")
    Path("training.py").write_text(TRAINING)
    done = subprocess.run(
        [sys.executable, *TORCHRUN], check=False, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    kinds = []
    for folder in Path(".seamark/p").iterdir():
        run = seamark.init_run("p", with_id=folder.name, mode="read-only")
        kind = run["sys/name"].fetch()
        kinds.append(kind)
        (ours, series), (theirs, other_series) = (
            json.loads(Path(f"{kind}-{rank}.json").read_text()) for rank in range(2)
        )
        assert run.id == ours
        assert values(run, "train/loss") == series
        assert len(series) == 5
        paths = ("parameters", "sys/tags", "sys/state", "distributed")
        assert [run[path].fetch() for path in paths] == [
            *({"lr": 0.1, "rank": 0}, {kind}, "completed"),
            {"launcher": "torchrun", "world_size": 2},
        ]
        run["note"].download("note.txt")
        assert Path("note.txt").read_text() == "rank 0"
        writers = sorted(header["rank"] for header in journals.headers(run))
        assert (run.exists("ranks"), writers) == (
            (True, [0, 1]) if kind == "everyone" else (False, [0])
        )
        if kind == "everyone":
            assert theirs == ours
            assert values(run, "ranks/1/train/loss") == other_series
    assert sorted(kinds) == ["ddp", "everyone", "fsdp"]


APART = """
import json
import torch.distributed as dist
from seamark.errors import SeamarkError
rank = int(os.environ["RANK"])
root = f"{sys.argv[1]}/root{rank}"
def begin(root=root, **given):
    return init_run("p", root=root, **quiet, **given)
"""


@pytest.fixture
def apart(torch_forks, tmp_path):
    """Run a script on two ranks that do not share a root; return what each printed, as JSON."""
    meetings = itertools.count()

    def apart(code, **more):
        code = APART + textwrap.dedent(code) + "dist.destroy_process_group()\n"
        words = str(tmp_path), str(tmp_path / f"meet{next(meetings)}")
        return [json.loads(told) for told in on_ranks(torch_forks, code, *words, **more)]

    return apart


def attempts(tmp_path, rank, run):
    found = init_run("p", root=tmp_path / f"root{rank}", with_id=run, mode="read-only")
    return sorted(header["attempt"] for header in journals.headers(found))


@pytest.mark.once
def test_a_run_that_has_to_be_there_is_looked_for_by_rank_0(apart, tmp_path):
    """A rank that does not see it goes on with rank 0; and none begins if that does not."""
    cases: list[tuple[str, str, dict[str, str]]] = []
    for ranks, name, there in itertools.product(
        ["zero", "all"], ["custom_run_id", "with_id"], [True, False]
    ):
        place = tmp_path / f"{ranks} {name} {there}"
        root = place / ("root0" if there else "root1")  # at another rank it is no help
        with init_run("p", root=root, **QUIET, custom_run_id="one") as run:
            run["x"] = 1
        given = {
            "custom_run_id": {"custom_run_id": "one", "resume": "must"},
            "with_id": {"with_id": run.id if there else "abcdefgh01234567"},
        }
        cases.append((str(place), ranks, given[name]))
    code = """
        join()
        said = []
        for place, ranks, given in json.loads(os.environ["CASES"]):
            try:
                begin(f"{place}/root{rank}", ranks=ranks, **given)
                said.append("began")
            except SeamarkError as error:
                said.append(type(error).__name__)
            dist.barrier()
        print(json.dumps(said))
    """
    ours, its = apart(code, CASES=json.dumps(cases))
    assert ours == ["began", "RunNotFoundError"] * 4
    assert its == ["began"] * 4 + ["began", "RunNotFoundError"] * 2
    for place, ranks, given in cases:
        assert Path(place, "root1").exists() == (ranks == "all" or place.endswith("False")), given


@pytest.mark.once
def test_a_restarted_job_is_one_attempt_on_all_ranks(apart, tmp_path):
    code = """
        join()
        for restarts in range(3):
            os.environ["SLURM_RESTART_COUNT"] = str(restarts)
            if restarts == 2 and rank == 1:  # it comes back on a node with an empty disk
                os.rename(root, root + "-gone")
            run = begin(ranks="all", custom_run_id="one")
            run.log_metrics({"loss": rank}, 0)
            run.stop()
            dist.barrier()
        print(json.dumps(run.id))
    """
    run, other = apart(code, SLURM_JOB_ID="7", SLURM_JOB_NAME="train")
    assert run == other
    assert attempts(tmp_path, 0, run) == [0, 1, 2]
    assert attempts(tmp_path, 1, run) == [2]


@pytest.mark.once
def test_a_hand_made_checkpoint_holds_what_each_rank_recorded_before(apart, tmp_path):
    """Rank 0 saves while rank 1 is behind; each calls ``checkpoint_state`` at the same place."""
    code = """
        run = begin(sys.argv[1] + "/root0", ranks="all", custom_run_id="one")
        join()
        state = None
        for step in range(4):
            if step == 2 and rank == 1:  # behind: rank 0 has saved, and gone on
                dist.barrier()
            run.log_metrics({"loss": step}, step)
            if step == 2:
                state = run.checkpoint_state()
                if rank == 0:
                    run.log_metrics({"loss": 3}, 3)
                    dist.barrier()
                    break
        run.stop()
        print(json.dumps(state))
    """
    state, _ = apart(code)
    with init_run("p", root=tmp_path / "root0", custom_run_id="one", **QUIET) as run:
        run.resumed(state).log_metrics({"loss": 9}, 3)
    read = init_run("p", root=tmp_path / "root0", custom_run_id="one", mode="read-only")
    assert read["loss"].fetch_points().value.tolist() == [0, 1, 2, 9]
    assert read["ranks/1/loss"].fetch_points().value.tolist() == [0, 1, 2]
