from __future__ import annotations

import math
import re

import pytest

from seamark.types import File


@pytest.fixture
def rich_run(start):
    """A run with something of most kinds."""
    given = {"name": "quiet-otter", "description": "a try", "tags": ["fast", "digits"]}
    with start("team/vision", **given) as run:
        run["parameters"] = {"lr": 0.1, "big": 10**40, "layers": [1, 2], "on": True, "none": None}
        for step in range(40):
            run.log_metrics({"val/loss": math.nan if step == 7 else 1 / (step + 1)}, step=step)
            run["log"].append(f"epoch {step}", step=step)
        run["report"].upload(File.from_content("a report", extension="txt"))
        run["notes"] = "first line\nsecond line"
    return run


def test_show_prints_everything_and_paths_narrow_it(cli, rich_run):
    shown = cli("show", rich_run.id).stdout
    assert shown.startswith("quiet-otter  completed\n")
    run, lines = f"team/vision/{rich_run.id}", r"first line\nsecond line"
    texts = [run, "digits, fast", str(10**40), "[1, 2]", lines, "epoch 39", "8 B", "kept"]
    for text in [*texts, "40 (1 not finite)"]:
        assert text in shown, text
    assert "BEST" not in shown
    shown = cli("show", rich_run.id, "parameters").stdout
    assert "parameters/lr" in shown
    assert "val/loss" not in shown
    assert cli("show", rich_run.id, "notes").stdout == "first line\nsecond line\n"
    points = cli("show", rich_run.id, "val/loss", "--limit", 3).stdout
    assert [line.split()[0] for line in points.splitlines()[-3:]] == ["37", "38", "39"]
    log = cli("show", rich_run.id, "log", "--limit", 2).stdout
    assert log.splitlines() == ["38  epoch 38", "39  epoch 39"]
    assert "sha256" in cli("show", rich_run.id, "report").stdout
    result = cli("show", rich_run.id, "val/los")
    assert result.exit_code == 2
    assert "nothing is recorded at val/los" in result.stderr


def test_failure_and_lost_values_are_shown(cli, start):
    run, silent = start(), start()
    run.log_metrics({"loss": 1.0, "bad": "text"}, step=0)
    explode = ValueError("the loss exploded")
    with pytest.raises(ValueError, match="exploded"), run:
        raise explode
    shown = cli("show", run.id).stdout
    assert "failed" in shown.splitlines()[0]
    assert "! failed: ValueError: the loss exploded" in shown
    assert "! lost while recording:" in shown
    with pytest.raises(MemoryError), silent:
        raise MemoryError
    lines = cli("show", silent.id).stdout.splitlines()
    assert "! failed: MemoryError" in [line.partition(" (")[0] for line in lines]


@pytest.mark.once
def test_escape_sequences_and_line_breaks_are_shown_and_not_obeyed(start, terminal, cli):
    """In names, values, tags and texts."""
    evil, forged = "\x1b]0;owned\x07[red]\x1b[2J\u202e", "a\nforged completed"
    with start(name=evil, tags=[evil], description=evil) as run:
        run["value"] = evil
        run["log"].append(evil)
        run["files"].upload(File.from_content("x", extension="txt"))
    for words in (
        ["show", run.id],
        ["show", run.id, "log"],
        ["ls"],
        ["export", run.id, "--what", "texts"],
        ["show", run.id, "--json"],
    ):
        code, shown = terminal(*words, columns=200)
        assert code == 0
        assert not [one for one in ("\x1b]0", "\x1b[2J", "\x07", "\u202e") if one in shown]
    assert "[red]" in terminal("ls", columns=200)[1]
    with start(name=forged, tags=[forged], description=forged) as run:
        run["sys/hostname"] = forged
        run["sys/custom_run_id"] = forged
    for command in ("show", "watch"):
        lines = cli(command, run.id).stdout.splitlines()
        assert not [line for line in lines if line.startswith("forged")]


@pytest.mark.once
def test_lines_fit_the_terminal_and_no_color_is_respected(rich_run, screen, terminal):
    for columns in (20, 40, 80, 200):
        shown = screen("show", rich_run.id, "val/loss", "parameters", columns=columns)
        assert max(map(len, shown.splitlines())) <= columns
    assert "\x1b[3" in terminal("show", rich_run.id)[1]
    code, shown = terminal("show", rich_run.id, NO_COLOR="1")
    assert code == 0
    assert "\x1b[3" not in shown
    assert "quiet-otter" in shown


# What is looked for first


@pytest.fixture
def trained(start, tmp_path):
    """A run with what the adapters record of a training on one CPU, each in its place."""
    best = tmp_path / "best.ckpt"
    best.write_bytes(b"weights")
    with start(name="trained", description="the old split", tags=["digits"]) as run:
        for step in range(10):
            metrics = {
                "epoch": step,
                "grads_norm/0/weight": 1.0,
                "train/loss": 2 / (step + 1),
                "val/loss": abs(step - 7) + 0.5,
                "ranks/1/train/loss": 1.0,
            }
            run.log_metrics({f"training/{name}": one for name, one in metrics.items()}, step=step)
        run["training/hyperparams"] = {"lr": 0.1}
        facts = {"world_size": 1, "accelerator": "cpu", "nodes": 1, "strategy": "Single"}
        run["distributed"] = facts
        run["source_code/packages"] = "\n".join(f"package{n}==1.{n}" for n in range(150))
        run["profiling/events/largest_cost"] = (
            "The largest cost is processing (the step itself): 2.06 s of an epoch, 90 %."
        )
        for name, score in (("best_7_acc=0.97.pt", 0.97), ("best_8_acc=0.98.pt", 0.98)):
            (tmp_path / name).write_bytes(b"weights")
            run.session.content.refer(name, tmp_path / name)
            run[name] = {"basename": "best", "priority": score, "score_name": "acc"}
        run.session.content.refer("training/model/checkpoints/best", best)
        run["training/model"] = {"best_model_path": str(best), "best_model_score": 0.5}
    return run


def test_terminal_shows_metrics_parameters_and_checkpoints_first(trained, screen):
    shown = screen("show", trained.id, columns=100)
    lines = shown.splitlines()
    titles = [line for line in lines if re.fullmatch(r"[A-Z][a-z ,]+ \(\d+\)", line)]
    assert titles == ["Series (4)", "Parameters (1)", "Checkpoints (3)"]
    series = [line.split()[0] for line in lines if line.startswith("  training/")][:4]
    names = ["val/loss", "train/loss", "grads_norm/0/weight", "epoch"]
    assert series == [f"training/{name}" for name in names]
    for line in (
        r"training/val/loss +2.5 +0.5 +7.5 +min",
        r"training/model/checkpoints/best .* best: val/loss 0.5",
        r"best_8_acc=0.98.pt .* best: acc 0.98",
        r"best_7_acc=0.97.pt .* reference  acc 0.97",
        r"\nhost +\S+ \(1 process, cpu\)\n",
        f"150 packages: seamark show {trained.id} source_code/packages",
        f"4 more values under distributed: seamark show {trained.id} distributed",
        f"under training/ranks: seamark show {trained.id} training/ranks",
    ):
        assert re.search(line, shown), line
    for hidden in ("package149", "priority", "best_model_score"):
        assert hidden not in shown


@pytest.mark.once
def test_option_all_paths_and_pipes_show_everything(trained, screen, cli):
    everything = screen("show", trained.id, "--all", columns=300)
    for one in (everything, cli("show", trained.id).stdout):
        for path in (
            *("distributed/strategy", "training/model/best_model_score"),
            *("best_7_acc=0.97.pt/priority", "profiling/events/largest_cost"),
            "training/ranks/1/train/loss",
        ):
            assert path in one, path
    assert "sys/id" in everything
    assert "more value" not in everything
    assert "package149==1.149" in cli("show", trained.id, "--all").stdout
    assert cli("show", trained.id, "source_code/packages").stdout.count("\n") == 150


def test_attempts_of_a_resumed_run_are_shown(start, cli):
    with start(custom_run_id="one") as run:
        for step in range(6_000):
            run.log_metrics({"loss": 1.0}, step=step)
            if step == 4_000:
                state = run.checkpoint_state()
        assert "\nattempts" not in cli("show", run.id).stdout
    with start(custom_run_id="one") as again:
        again.resumed(state)
        again.log_metrics({"loss": 0.5}, step=4_001)
    assert "attempts    2 (resumed after step 4,000)" in cli("show", run.id).stdout


def test_values_of_unexpected_types_raise_nothing(start, screen):
    with start() as run:
        run["distributed"] = {"world_size": "many", "nodes": [1], "accelerator": None}
        run["profiling/largest_cost"] = 3
        odd = {"cpu": "a\nb", "cpu_count": math.nan, "memory": 10**300, "gpu": [1]}
        run["monitoring/w/environment"] = odd
        run["monitoring/w/cpu"].append(math.inf)
        run["model"] = {"best_model_score": 10**400, "best_model_path": ["no", "path"]}
        run["a.pt"].upload(File.from_content(b"x", extension="pt"))
        run["a.pt/priority"] = float("nan")
        run["a.pt/score_name"] = 7
    assert "a.pt" in screen("show", run.id)


def test_edit_does_not_count_as_a_record_of_the_run(record, cli):
    """It does not make a dead run look alive."""
    run = record(name="dead")

    def shown(label):
        return [line for line in cli("show", run).stdout.splitlines() if line.startswith(label)]

    before = shown("last record")
    assert (len(before), shown("edited")) == (1, [])
    cli("tag", run, "--add", "seen")
    assert (shown("last record"), len(shown("edited"))) == (before, 1)


def code(**git):
    return {"source_code": {"entrypoint": "train.py", "version": "2d6cc6e9", "git": git}}


COMMIT = "4245eed1e8075ec4"
DISTRIBUTED = {"world_size": 4, "nodes": 2, "accelerator": "cuda", "strategy": "DDP"}
ENVIRONMENT = {
    "slurm": {"job_id": "1", "array_job_id": "4211", "array_task_id": "3"},
    "torch": {"version": "2.13.0+cu128"},
}


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        (code(commit=COMMIT, branch="main", dirty=False), r"code +train.py · 4245eed1 \(main\)"),
        (code(commit=COMMIT, branch=None, dirty=True), r"code +train.py · 4245eed1 \(changed\)"),
        (code(commit=3, branch=["x"], files_changed="many", dirty=1), "code +train.py"),
        (
            {"distributed": {**DISTRIBUTED, "precision": "16-mixed"}},
            r"host +\S+ \(4 processes on 2 nodes, cuda, DDP, precision 16-mixed\)",
        ),
        (
            {"mon/a": {"pid": 5, "environment": ENVIRONMENT}},
            r"host .* · SLURM 4211_3 · torch 2.13.0\+cu128",
        ),
    ],
)
def test_facts_of_code_processes_and_host_are_one_line(cli, start, facts, line):
    with start("p") as run:
        for path, value in facts.items():
            run[path] = value
    version = " · version 2d6cc6e9" if "source_code" in facts else ""
    shown = cli("show", run.id).stdout
    assert re.search(f"^{line}{version}$", shown, re.MULTILINE)
    assert "source_code/git" not in shown
