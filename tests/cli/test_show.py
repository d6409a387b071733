from __future__ import annotations

import json
import math
import re

import pytest

from seamark.types import File


@pytest.fixture
def rich_run(start, tmp_path):
    """A run with something of most kinds."""
    run = start("team/vision", name="quiet-otter", description="a try", tags=["fast", "digits"])
    run["parameters"] = {"lr": 0.1, "big": 10**40, "layers": [1, 2], "on": True, "none": None}
    for step in range(40):
        run.log_metrics({"val/loss": math.nan if step == 7 else 1 / (step + 1)}, step=step)
        run["log"].append(f"epoch {step}", step=step)
    run["report"].upload(File.from_content("a report", extension="txt"))
    run["notes"] = "first line\nsecond line"
    run.stop()
    return run


def test_everything_is_shown(cli, rich_run):
    """State, facts, values, series, texts and files; in a pipe nothing is cut short."""
    shown = cli("show", rich_run.id).stdout
    assert shown.startswith("quiet-otter  completed\n")
    assert f"team/vision/{rich_run.id}" in shown
    assert "digits, fast" in shown
    assert str(10**40) in shown
    assert "[1, 2]" in shown
    assert r"first line\nsecond line" in shown
    assert "40 (1 not finite)" in shown
    assert "epoch 39" in shown
    assert "8 B" in shown
    assert "kept" in shown


def test_a_path_narrows_it(cli, rich_run):
    """One namespace, one value in full, the last points of one series, the lines of one log."""
    shown = cli("show", rich_run.id, "parameters").stdout
    assert "parameters/lr" in shown
    assert "val/loss" not in shown
    assert cli("show", rich_run.id, "notes").stdout == "first line\nsecond line\n"
    points = cli("show", rich_run.id, "val/loss", "--limit", 3).stdout
    assert [line.split()[0] for line in points.splitlines()[-3:]] == ["37", "38", "39"]
    assert cli("show", rich_run.id, "log", "--limit", 2).stdout.splitlines() == [
        "38  epoch 38",
        "39  epoch 39",
    ]
    assert "sha256" in cli("show", rich_run.id, "report").stdout


def test_a_path_that_is_not_there_is_an_error(cli, rich_run):
    """Exit code 2, and how to see what there is."""
    result = cli("show", rich_run.id, "val/los")
    assert result.exit_code == 2
    assert "nothing is recorded at val/los" in result.stderr


def test_json_is_complete_and_exact(cli, rich_run):
    """Types and summaries, NaN as text, whole numbers with all digits."""
    result = cli("show", rich_run.id, "--json")
    document = json.loads(result.stdout, parse_constant=pytest.fail)
    shown = document["attributes"]
    assert (document["project"], document["run"]) == ("team/vision", rich_run.id)
    assert shown["parameters/big"] == {"family": "atom", "type": "int", "value": 10**40}
    assert shown["val/loss"]["value"]["nan_count"] == 1
    assert shown["val/loss"]["value"]["last"] == 1 / 40
    assert shown["sys/tags"]["value"] == ["digits", "fast"]
    assert shown["log"]["value"]["count"] == 40


def test_failures_and_losses_are_loud(cli, start):
    """The exception, and what could not be recorded."""
    run = start()
    run.log_metrics({"loss": 1.0, "bad": "text"}, step=0)
    explode = ValueError("the loss exploded")
    with pytest.raises(ValueError, match="exploded"), run:
        raise explode
    shown = cli("show", run.id).stdout
    assert "failed" in shown.splitlines()[0]
    assert "! failed: ValueError: the loss exploded" in shown
    silent = start()
    with pytest.raises(MemoryError), silent:
        raise MemoryError
    lines = cli("show", silent.id).stdout.splitlines()
    assert "! failed: MemoryError" in [line.partition(" (")[0] for line in lines]
    assert "! lost while recording:" in shown


def test_a_failure_goes_with_the_traceback_of_rank_0(cli, start, monkeypatch):
    """Every rank of a training that fails has one; the others say that a peer was lost."""
    monkeypatch.setenv("WORLD_SIZE", "6")
    for rank in range(6):
        monkeypatch.setenv("RANK", str(rank))
        run = start("p", custom_run_id="one", ranks="all", capture_traceback=True)
        if rank == 0:
            first = run.writer
        error = ValueError(f"of rank {rank}")
        with pytest.raises(ValueError, match="of rank"), run:
            raise error
    shown = cli("show", run.id).stdout
    assert f"! failed: ValueError: of rank 0 (seamark show {run.id} monitoring/{first}/tr" in shown


@pytest.mark.once
def test_hostile_names_reach_no_terminal(start, terminal):
    """Escapes and markup in names, values, tags and texts are shown, not obeyed."""
    evil = "\x1b]0;owned\x07[red]\x1b[2J\u202e"
    run = start(name=evil, tags=[evil], description=evil)
    run["value"] = evil
    run["log"].append(evil)
    run["files"].upload(File.from_content("x", extension="txt"))
    run.stop()
    for words in (
        ["show", run.id],
        ["show", run.id, "value"],
        ["show", run.id, "log"],
        ["ls"],
        ["ls", "--columns", "value"],
        ["export", run.id, "--what", "texts"],
        ["show", run.id, "--json"],
    ):
        code, shown = terminal(*words, columns=200)
        assert code == 0
        assert "\x1b]0" not in shown
        assert "\x1b[2J" not in shown
        assert "\x07" not in shown
        assert "\u202e" not in shown
    assert "[red]" in terminal("ls", columns=200)[1]


def test_line_breaks_forge_no_line_of_ours(cli, start):
    """What a stranger put into names and tags never begins a line."""
    forged = "a\nforged completed"
    run = start(name=forged, tags=[forged], description=forged)
    run["sys/hostname"] = forged
    run["sys/custom_run_id"] = forged
    run.stop()
    for words in (["show", run.id], ["watch", run.id]):
        lines = cli(*words).stdout.splitlines()
        assert not [line for line in lines if line.startswith("forged")]


@pytest.mark.once
def test_lines_fit_the_terminal(rich_run, terminal):
    """Tables get narrower instead of breaking their lines."""
    for columns in (20, 40, 80, 200):
        code, shown = terminal("show", rich_run.id, "val/loss", "parameters", columns=columns)
        assert code == 0
        plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
        assert max(map(len, plain.splitlines())) <= columns
        assert "\x1b[" in shown


def test_no_color_is_respected(rich_run, terminal):
    """NO_COLOR takes the colours out and leaves the rest."""
    code, shown = terminal("show", rich_run.id, NO_COLOR="1")
    assert code == 0
    assert "\x1b[3" not in shown
    assert "quiet-otter" in shown


def test_paths_on_a_narrow_terminal_can_be_told_apart(start, terminal):
    """Other columns give way first; what is left of a path is the part that differs, whole."""
    paths = [
        f"profiling/handlers/{event}_COMPLETED/OutputHandler_s" for event in ("EPOCH", "BATCH")
    ]
    run = start()
    for step in range(3):
        run.log_metrics(dict.fromkeys([*paths, "profiling/short"], 0.00012345), step)
    run.stop()
    code, shown = terminal("show", run.id, "profiling", columns=80)
    assert code == 0
    assert "EPOCH_COMPLETED/OutputHandler_s" in shown
    assert "BATCH_COMPLETED/OutputHandler_s" in shown


def test_series_of_profiled_actions_are_counted_unless_asked_for(start, cli):
    """A profiled training has hundreds of them, which would bury its metrics."""
    run = start()
    run.log_metrics({f"profiling/actions/a{n}_s": 1.0 for n in range(50)} | {"train/loss": 0.5}, 0)
    run["profiling/actions/largest_cost"] = "The largest cost is a1"
    run["profiling/step_time_s"].append(0.25)
    run.stop()
    shown = cli("show", run.id).stdout
    assert "Series (2)" in shown
    assert "train/loss" in shown
    assert "The largest cost is a1" in shown
    assert "profiling/step_time_s" in shown
    assert "a17_s" not in shown
    more = f"50 more series under profiling/actions: seamark show {run.id} profiling/actions"
    assert more in shown
    assert "profiling/actions/a17_s" in cli("show", run.id, "profiling/actions").stdout
    assert "profiling/actions/a17_s" in cli("show", run.id, "profiling").stdout


# What is looked for first


@pytest.fixture
def trained(start, tmp_path):
    """A run with what the adapters record of a training on one CPU, each in its place."""
    run = start(name="trained", description="the old split", tags=["digits"])
    for step in range(10):
        run.log_metrics(
            {
                "training/epoch": step,
                "training/grads_norm/0/weight": 1.0,
                "training/train/loss": 2 / (step + 1),
                "training/val/loss": abs(step - 7) + 0.5,
                "training/ranks/1/train/loss": 1.0,
            },
            step=step,
        )
    run["training/hyperparams"] = {"lr": 0.1}
    facts = {"world_size": 1, "accelerator": "cpu", "nodes": 1, "strategy": "Single"}
    run["distributed"] = facts
    run["source_code/packages"] = "\n".join(f"package{n}==1.{n}" for n in range(150))
    run["profiling/events/largest_cost"] = (
        "The largest cost is processing (the step itself): 2.06 s of the 2.29 s of an epoch "
        "(mean of 8), 90 %."
    )
    for name, score in (("best_7_acc=0.97.pt", 0.97), ("best_8_acc=0.98.pt", 0.98)):
        (tmp_path / name).write_bytes(b"weights")
        run.session.content.refer(name, tmp_path / name)
        run[name] = {"basename": "best", "priority": score, "score_name": "acc"}
    best = tmp_path / ("deep" * 30) / "best.ckpt"
    best.parent.mkdir()
    best.write_bytes(b"weights")
    run.session.content.refer("training/model/checkpoints/best", best)
    run["training/model"] = {"best_model_path": str(best), "best_model_score": 0.5}
    run.wait()
    run.stop()
    return run


def plain(shown):
    return re.sub(r"\x1b\[[0-9;]*m", "", shown)


def test_a_person_sees_what_is_looked_for_first(trained, terminal, tmp_path):
    """Metrics in the order of interest with the best marked, parameters, checkpoints; the rest is
    counted, and said where."""
    code, shown = terminal("show", trained.id, columns=100)
    shown = plain(shown)
    lines = shown.splitlines()
    assert code == 0
    titles = [line for line in lines if re.fullmatch(r"[A-Z][a-z ,]+ \(\d+\)", line)]
    assert titles == ["Series (4)", "Parameters (1)", "Checkpoints (3)"]
    series = [line.split()[0] for line in lines if line.startswith("  training/")][:4]
    assert series == [
        "training/val/loss",
        "training/train/loss",
        "training/grads_norm/0/weight",
        "training/epoch",
    ]
    assert re.search(r"training/val/loss +2.5 +0.5 +7.5 +min", shown)
    assert re.search(r"training/model/checkpoints/best .* best: val/loss 0.5", shown)
    assert re.search(r"best_8_acc=0.98.pt .* best: acc 0.98", shown)
    assert re.search(r"best_7_acc=0.97.pt .* reference  acc 0.97", shown)
    assert f"  best: {tmp_path / ('deep' * 30) / 'best.ckpt'}" in shown  # however long
    assert re.search(r"^host +\S+ \(1 process, cpu\)$", shown, re.MULTILINE)
    assert "90 %." in shown  # not cut before its number
    assert "package149" not in shown
    assert f"150 packages: seamark show {trained.id} source_code/packages" in shown
    assert f"4 more values under distributed: seamark show {trained.id} distributed" in shown
    assert f"under training/ranks: seamark show {trained.id} training/ranks" in shown
    assert "priority" not in shown
    assert "best_model_score" not in shown


@pytest.mark.once
@pytest.mark.thorough
def test_all_of_it_is_there_for_who_asks(trained, terminal, cli):
    """With --all, by its path, and in a pipe, where nothing is cut short."""
    everything = plain(terminal("show", trained.id, "--all", columns=300)[1])
    piped = cli("show", trained.id).stdout
    for one in (everything, piped):
        assert "distributed/strategy" in one
        assert "best_7_acc=0.97.pt/priority" in one
        assert "training/model/best_model_score" in one
        assert "profiling/events/largest_cost" in one
        assert "training/ranks/1/train/loss" in one
    for one in (piped, plain(terminal("show", trained.id, columns=300)[1])):
        assert f"150 packages: seamark show {trained.id} source_code/packages" in one
        assert "package149==1.149" not in one
    assert "package149==1.149" in cli("show", trained.id, "--all").stdout
    assert "sys/id" in everything
    assert "more value" not in everything
    assert cli("show", trained.id, "source_code/packages").stdout.count("\n") == 150
    assert "distributed/nodes" in plain(terminal("show", trained.id, "distributed")[1])
    assert "\n    epoch (mean of 8), 90 %." in plain(
        terminal("show", trained.id, "--all", columns=80)[1]
    )


@pytest.mark.once
@pytest.mark.thorough
def test_a_small_curve_is_of_means(start, terminal):
    """One value of many thousands does not hide how the others run."""
    with start() as run:
        run["loss"].extend([1e6 if step == 7000 else float(step) for step in range(20_000)])
    shown = plain(terminal("show", run.id, "loss", columns=200)[1])
    assert "▁" * 5 not in shown
    assert "▃" in shown


def test_a_long_section_ends_with_how_to_see_the_rest(start, terminal, cli):
    """A terminal is not flooded; a pipe gets every row."""
    run = start()
    run["parameters"] = {f"p{n:03}": n for n in range(50)}
    run.stop()
    shown = plain(terminal("show", run.id)[1])
    assert "Parameters (50)" in shown
    assert "parameters/p029" in shown
    assert "parameters/p030" not in shown
    assert f"and 20 more: seamark show {run.id} --all" in shown
    assert "parameters/p049" in plain(terminal("show", run.id, "--all")[1])
    assert "parameters/p049" in cli("show", run.id).stdout


def test_attempts_are_told_with_where_the_last_went_on(start, cli):
    """Of a training that was resumed; one that was not has no such line."""
    run = start(custom_run_id="one")
    for step in range(6_000):
        run.log_metrics({"loss": 1.0}, step=step)
        if step == 4_000:
            state = run.checkpoint_state()
    assert "\nattempts" not in cli("show", run.id).stdout
    run.stop()
    again = start(custom_run_id="one")
    again.resumed(state)
    again.log_metrics({"loss": 0.5}, step=4_001)
    again.stop()
    assert "attempts    2 (resumed after step 4,000)" in cli("show", run.id).stdout


def test_which_extreme_is_best_is_not_guessed(start, cli):
    """Two series that reached the same score leave it open; none did in a run without one."""
    run = start()
    for step, value in enumerate((3.0, 1.0, 2.0)):
        run.log_metrics({"val/loss": value, "val/other": value}, step=step)
    assert "BEST" not in cli("show", run.id).stdout
    run["model/best_model_score"] = 1.0
    assert "BEST" not in cli("show", run.id).stdout
    run["val/loss"].append(0.5, step=3)
    run["model/best_model_score"] = 0.5
    run.stop()
    assert "BEST" in cli("show", run.id).stdout


@pytest.mark.parametrize(("score", "best"), [(0.25, "min"), (3.0, "max")])
def test_the_best_value_of_a_series_stands_out(start, terminal, score, best):
    """It alone of the two extremes is bold and green."""
    run = start()
    for step, value in enumerate((3.0, 0.25, 2.0)):
        run.log_metrics({"val/score": value}, step=step)
    run["model/best_model_score"] = score
    run.stop()
    shown = terminal("show", run.id, columns=160)[1]
    (line,) = (line for line in shown.splitlines() if "val/score" in line)
    assert re.findall(r"\x1b\[1;32m *([^\x1b ]+) *\x1b", line) == [f"{score:g}", best]


def test_a_series_without_a_finite_value_has_no_extremes(start, cli):
    """A dash, where a "nan" would read as a value that was recorded."""
    run = start()
    for step in range(3):
        run.log_metrics({"loss": math.inf}, step=step)
    run.stop()
    (row,) = [
        line for line in cli("show", run.id).stdout.splitlines() if line.split()[:1] == ["loss"]
    ]
    assert row.split()[:4] == ["loss", "inf", "—", "—"]


def test_the_devices_of_a_training_are_shown(start, cli):
    """Processes, nodes, strategy and precision, as far as they are out of the ordinary."""
    run = start()
    facts = {"world_size": 4, "nodes": 2, "accelerator": "cuda", "strategy": "DDP"}
    run["distributed"] = {**facts, "precision": "16-mixed"}
    run.stop()
    words = r"4 processes on 2 nodes, cuda, DDP, precision 16-mixed"
    assert re.search(rf"^host +\S+ \({words}\)$", cli("show", run.id).stdout, re.MULTILINE)


def test_foreign_values_in_known_places_raise_nothing(start, terminal):
    """Whoever wrote there: what is read as a score, a device or a cost may be anything."""
    run = start()
    run["distributed"] = {"world_size": "many", "nodes": [1], "accelerator": None}
    run["profiling/largest_cost"] = 3
    run["model/best_model_score"] = 10**400
    run["model/best_model_path"] = ["no", "path"]
    run["a.pt"].upload(File.from_content(b"x", extension="pt"))
    run["a.pt/priority"] = float("nan")
    run["a.pt/score_name"] = 7
    run.stop()
    code, shown = terminal("show", run.id)
    assert code == 0, shown
    assert "a.pt" in shown


def test_an_edit_is_no_record_of_the_run(record, cli):
    """A tag, a name or a note later does not make a dead run look alive."""
    run = record(name="dead")

    def told(label):
        return [line for line in cli("show", run).stdout.splitlines() if line.startswith(label)]

    before = told("last record")
    assert len(before) == 1
    assert told("edited") == []
    cli("tag", run, "--add", "seen")
    assert told("last record") == before
    assert len(told("edited")) == 1


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        (
            {"git/commit": "4245eed1e8075ec4", "git/branch": "main", "git/dirty": False},
            "train.py · 4245eed1 (main) · version 2d6cc6e9",
        ),
        (
            {"git/commit": "4245eed1e8075ec4", "git/branch": None, "git/dirty": True},
            "train.py · 4245eed1 (changed) · version 2d6cc6e9",
        ),
        (
            {"git/commit": None, "git/branch": "main", "git/files_changed": 2},
            "train.py · no commit (main, 2 files changed) · version 2d6cc6e9",
        ),
        (
            {"git/commit": 3, "git/branch": ["x"], "git/files_changed": "many", "git/dirty": 1},
            "train.py · version 2d6cc6e9",
        ),
    ],
)
def test_one_line_tells_what_was_executed(cli, start, facts, line):
    """Script, commit, branch, changes and version; whatever somebody wrote there."""
    run = start("p")
    run["source_code"] = {"entrypoint": "train.py", "version": "2d6cc6e9", **facts}
    run.stop()
    assert re.search(rf"^code +{re.escape(line)}$", cli("show", run.id).stdout, re.MULTILINE)


def test_the_code_takes_a_line_and_not_a_row_for_each_of_its_facts(cli, start, terminal):
    """On a terminal and in a pipe; a terminal counts its files."""
    run = start("p")
    git = {"commit": "4245eed1e8", "branch": "main", "dirty": True, "files_changed": 1}
    run["source_code"] = {"entrypoint": "train.py", "version": "2d6cc6e9", "git": git}
    run["source_code/diff"].upload(File.from_content("diff", "patch"))
    run["source_code/requirements"].upload(File.from_content("a\n"))
    run["source_code/conda"] = "conda-forge::a=1=0\nconda-forge::b=1=0"
    run.wait()
    run.stop()
    shown = plain(terminal("show", run.id, columns=120)[1])
    told = "train.py · 4245eed1 (main, 1 file changed: diff kept) · version 2d6cc6e9"
    assert re.search(rf"^code +{re.escape(told)}$", shown, re.MULTILINE)
    assert f"2 files under source_code: seamark show {run.id} source_code" in shown
    assert f"2 conda packages: seamark show {run.id} source_code/conda" in shown
    assert "source_code/git" not in shown
    assert "diff.patch" not in shown
    piped = cli("show", run.id).stdout
    assert "source_code/git" not in piped
    assert f"2 conda packages: seamark show {run.id} source_code/conda" in piped
    assert "source_code/git/commit" in cli("show", run.id, "--all").stdout
    assert "diff.patch" in piped
    listed = cli("ls", "-c", "source_code/version").stdout
    assert "2d6cc6e9" in listed
    found = cli("ls", "--query", 'source_code/version = "2d6cc6e9"')
    assert run.id in found.stdout, found.output
