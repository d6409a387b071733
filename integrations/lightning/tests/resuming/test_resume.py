"""A training that loads a checkpoint goes on with the run that the checkpoint was saved in."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from steady import attempts, counts_steps_twice, program, runs, steps, tiny_class, value, values

import seamark
from seamark.errors import RunNotFoundError
from seamark.lightning import ResumeCallback, SeamarkLogger


@pytest.fixture
def host(one_host):
    """One package: both run the same code, and every case here trains several times."""
    return one_host


@pytest.fixture
def model(host):
    return tiny_class(host)


@pytest.fixture
def saved(host, model, trainer):
    """Train two epochs with a logger; return it and its last checkpoint."""

    def train(*loggers, **given):
        callback = host.callbacks.ModelCheckpoint(save_last=True, **given)
        done = trainer(logger=list(loggers), callbacks=[callback], max_epochs=2)
        done.fit(model())
        for logger in loggers:
            logger.experiment.get_root_object().stop()
        return callback

    return train


# --------------------------------------------------------------------- processes of their own

PROGRAM = """
given = json.loads(sys.argv[1])
model = tiny_class(host)()
def maybe_die(step):
    if step == given.get("die"):
        os.kill(os.getpid(), signal.SIGKILL)
model.at_step = maybe_die
callback = host.callbacks.ModelCheckpoint(save_last=True, **given.get("checkpoint", {}))
logger = SeamarkLogger(**given.get("logger", {}))
trainer = host.Trainer(devices=1, max_epochs=3, callbacks=[callback], logger=logger, **quiet)
trainer.fit(model, ckpt_path=given.get("ckpt_path"))
"""


@pytest.fixture
def train(one_host):
    """Train three epochs in a new process; returns its exit status."""

    def start(folder=".", **given):
        Path(folder).mkdir(exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-c", program(one_host, PROGRAM), json.dumps(given)],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode in (0, -9), done.stderr
        return done.returncode

    return start


@pytest.mark.launches
@pytest.mark.parametrize(
    ("checkpoint", "die"),
    [
        ({}, 9),
        pytest.param({"every_n_train_steps": 3}, 10, marks=pytest.mark.thorough),
        pytest.param({"monitor": "val"}, 6, marks=pytest.mark.thorough),
    ],
)
def test_crash_leaves_no_trace_in_the_default_view(
    one_host, model, trainer, train, checkpoint, die
):
    """Killed and resumed from the last checkpoint, a run reads like one that was not killed."""
    whole = {"checkpoint": checkpoint}
    callback = one_host.callbacks.ModelCheckpoint(save_last=True, **checkpoint)
    logger = SeamarkLogger(root="whole/.seamark")
    trainer(logger=logger, callbacks=[callback], max_epochs=3).fit(model())
    logger.experiment.stop()
    assert train("killed", **whole, die=die) == -9
    (last,) = Path("killed").rglob("last.ckpt")
    assert train("killed", **whole, ckpt_path=str(last.absolute())) == 0
    (whole_run,), (resumed,) = runs("whole/.seamark").values(), runs("killed/.seamark").values()
    if counts_steps_twice(one_host) and "every_n_train_steps" in checkpoint:
        assert set(steps(whole_run)) <= set(steps(resumed))
        assert steps(resumed, "training/val")[:2] == [3, 7]
    else:
        assert values(resumed) == values(whole_run)
    assert len(steps(resumed, attempt="all")) > 12
    assert value(resumed, "sys/state") == "completed"
    assert attempts(resumed) == [0, 1]


@pytest.mark.thorough
def test_last_of_a_given_folder(train):
    """``ckpt_path="last"`` finds it in ``ModelCheckpoint(dirpath=...)``, twice in a row."""
    same = {"checkpoint": {"dirpath": "kept"}, "ckpt_path": "last"}
    assert train(**same, die=5) == -9  # there is none to be found the first time
    assert train(**same, die=9) == -9
    assert train(**same) == 0
    (run,) = runs().values()
    assert steps(run) == list(range(12))
    assert steps(run, "training/val") == [3, 7, 11]
    assert attempts(run) == [0, 1, 2]


# --------------------------------------------------------------------- which run it is


def resume(trainer, model, logger, path, **given):
    """Train to the third epoch from a checkpoint."""
    made = trainer(logger=logger, max_epochs=3, **given)
    made.fit(model(), ckpt_path=str(path))
    for one in made.loggers:
        one.experiment.get_root_object().stop()
    return made


def test_same_logger_goes_back(host, model, trainer):
    """In one process too, an attempt begins that hides what came after the checkpoint.

    Evaluating in the script that trained is part of the same attempt.
    """
    logger = SeamarkLogger()
    callback = host.callbacks.ModelCheckpoint(save_top_k=-1, save_last=True)
    made = trainer(logger=logger, callbacks=[callback], max_epochs=2)
    made.fit(model())
    made.test(model(), ckpt_path=callback.last_model_path, verbose=False)
    (run,) = runs().values()
    assert attempts(run) == [0]
    assert (steps(run), steps(run, "training/test")) == (list(range(8)), [8])
    first = min(callback.best_k_models or Path(callback.dirpath).iterdir(), key=str)
    assert "epoch=0" in str(first)
    resume(trainer, model, logger, first)
    (run,) = runs().values()
    assert steps(run) == list(range(12))
    assert sorted(steps(run, attempt="all")) == sorted([*range(12), *range(4, 8)])
    assert attempts(run) == [0, 1]


def test_checkpoint_callbacks_carry_on_what_they_kept(host, saved, model, trainer):
    """They find their folder again, and nothing is left of the run that does not come to be.

    Two callbacks of a script that resume do the work once.
    """
    before = saved(SeamarkLogger(), monitor="val", save_top_k=2)
    logger = SeamarkLogger(name="another name")
    minted = logger.version
    after = host.callbacks.ModelCheckpoint(save_last=True, monitor="val", save_top_k=2)
    callbacks = [after, ResumeCallback(), ResumeCallback()]
    made = resume(trainer, model, logger, before.last_model_path, callbacks=callbacks)
    kinds = [type(one).__name__ for one in made.callbacks]
    assert kinds.count("ResumeCallback") == 3  # and that of the entry point
    assert logger.version != minted
    assert after.dirpath == before.dirpath
    assert len(after.best_k_models) == 2
    assert set(after.best_k_models) & set(before.best_k_models)
    assert not list(Path.cwd().rglob(f"*{minted}*"))
    ((name, run),) = runs().items()
    assert name == logger.version
    assert attempts(run) == [0, 1]
    assert steps(run) == list(range(12))


@pytest.mark.parametrize("way", ["moved", "copied"])
def test_a_run_goes_on_where_its_folder_was_moved_to(host, saved, model, trainer, way):
    """Its checkpoints are those in the new place, and the best of them are carried on."""
    before = saved(SeamarkLogger(), monitor="val", save_top_k=2)
    best = Path(before.best_model_path)
    if way == "moved":
        Path(".seamark").rename("new")
    else:
        shutil.copytree(".seamark", "new", symlinks=True)
    untouched = {path: path.read_bytes() for path in Path(".seamark").rglob("*.ckpt")}
    logger = SeamarkLogger(root="new")
    after = host.callbacks.ModelCheckpoint(save_last=True, monitor="val", save_top_k=2)
    place = Path("new/default", best.relative_to(Path(".seamark/default").absolute())).parent
    resume(trainer, model, logger, place / "last.ckpt", callbacks=[after])
    assert Path(after.dirpath) == place.absolute()
    assert len(after.best_k_models) == 2
    assert {Path(path).parent for path in after.best_k_models} == {place.absolute()}
    assert {path.name for path in place.iterdir()} == {
        *(Path(path).name for path in after.best_k_models),
        "last.ckpt",
    }
    assert {path: path.read_bytes() for path in Path(".seamark").rglob("*.ckpt")} == untouched
    (run,) = runs("new").values()
    assert attempts(run) == [0, 1]
    kept = [one.value for one in run.attributes("training/model/checkpoints")]
    assert {one["ref"] for one in kept} == {str(path) for path in place.absolute().iterdir()}
    assert all(Path("new/default", run.folder.run, one["inside"]).is_file() for one in kept)


def test_several_loggers_go_on_each_with_its_own(saved, model, trainer, caplog):
    """They are told apart by their order; if there are more, the others record new runs."""
    first, second = SeamarkLogger(project="one"), SeamarkLogger(project="two")
    path = saved(first, second).last_model_path
    again = [SeamarkLogger(project="one"), SeamarkLogger(project="two")]
    resume(trainer, model, again, path)
    assert [one.version for one in again] == [first.version, second.version]
    assert [steps(run) for run in runs().values()] == [list(range(12))] * 2
    again = [SeamarkLogger(project=name) for name in ("three", "two", "one")]
    resume(trainer, model, again, path)
    assert [one.version for one in again[1:]] == [second.version, first.version]
    assert "2 loggers, the trainer has 3" in caplog.text
    assert len(runs()) == 3


def test_namespaces_of_one_run(saved, model, trainer):
    with seamark.init_run(custom_run_id="folds") as run:
        loggers = [SeamarkLogger(run=run[name]) for name in ("a", "b")]
        path = saved(*loggers).last_model_path
    with seamark.init_run(custom_run_id="folds") as run:
        loggers = [SeamarkLogger(run=run[name]) for name in ("a", "b")]
        trainer(logger=loggers, max_epochs=3).fit(model(), ckpt_path=path)
    (found,) = runs().values()
    assert max(attempts(found)) == 1
    assert steps(found, "a/training/loss") == list(range(12))


def test_run_that_was_given_stays(saved, model, trainer):
    """It names where its weights come from."""
    first = SeamarkLogger()
    path = saved(first).last_model_path
    logger = SeamarkLogger(run=seamark.init_run())
    minted = logger.version
    resume(trainer, model, logger, path)
    assert logger.version == minted != first.version
    found = runs()
    assert value(found[minted], "origin/run_id") == first.version
    assert value(found[minted], "origin/project") == "default"
    assert steps(found[minted]) == [8, 9, 10, 11]
    assert attempts(found[first.version]) == [0]


# --------------------------------------------------------------------- resume="must"


def plain(found):
    """Return whether something is made of dicts, strings, ints and None alone."""
    if type(found) is dict:
        return all(type(key) is str and plain(one) for key, one in found.items())
    return found is None or type(found) in (str, int)


def test_must_and_cannot(host, saved, model, trainer, tmp_path):
    """Training does not begin, and nothing is on disk.

    What a checkpoint has of the run can be loaded with ``weights_only=True``.
    """
    path = saved(SeamarkLogger(), save_weights_only=False).last_model_path
    checkpoint = torch.load(path, weights_only=False)
    kept = checkpoint.pop("seamark")
    assert plain(kept)
    torch.save(kept, tmp_path / "key.pt")
    assert torch.load(tmp_path / "key.pt", weights_only=True) == kept
    torch.save(checkpoint, tmp_path / "unnamed.ckpt")
    module = model()
    module.at_step = lambda step: pytest.fail("training began")
    for given, root in (
        (path, tmp_path / "empty"),
        (str(tmp_path / "unnamed.ckpt"), Path(".seamark")),
        (None, Path(".seamark")),
    ):
        before = set(root.rglob("*"))
        made = trainer(logger=SeamarkLogger(resume="must", root=root), max_epochs=3)
        with pytest.raises(RunNotFoundError, match=r"not found in|names no run|resume=.must."):
            made.fit(module, ckpt_path=given)
        assert set(root.rglob("*")) == before


# --------------------------------------------------------------------- evaluation


def test_evaluating_a_checkpoint_is_no_resuming(saved, model, trainer):
    """It is recorded as a run of its own; the training's record is left alone."""
    first = SeamarkLogger()
    path = saved(first).last_model_path
    before = {file: file.stat().st_size for file in Path(".seamark").rglob("journal/*")}
    for stage in ("validate", "test", "predict"):
        logger = SeamarkLogger()
        minted = logger.version
        getattr(trainer(logger=logger), stage)(model(), ckpt_path=path)
        logger.experiment.stop()
        assert logger.version == minted != first.version
    assert {file: file.stat().st_size for file in before} == before
    assert attempts(runs()[first.version]) == [0]


# --------------------------------------------------------------------- how it is saved and loaded


def test_asynchronous_checkpoints(host, model, trainer):
    """What a writer on another thread saves later says how far the run was when it was asked to."""
    io = pytest.importorskip(f"{host.__name__}.plugins.io").AsyncCheckpointIO
    logger = SeamarkLogger()
    callback = host.callbacks.ModelCheckpoint(save_last=True, every_n_train_steps=3)
    made = trainer(logger=logger, callbacks=[callback], max_epochs=2, plugins=[io()])
    made.fit(model())
    logger.experiment.stop()
    again = SeamarkLogger()
    resume(trainer, model, again, callback.last_model_path)
    (run,) = runs().values()
    assert attempts(run) == [0, 1]
    assert set(range(12)) <= set(steps(run))
    if not counts_steps_twice(host):
        assert steps(run) == list(range(12))


def test_strategies_that_load_late(host, saved, model, trainer, monkeypatch):
    """FSDP and DeepSpeed load after hyperparameters are logged: a new run, unless it is named."""
    first = SeamarkLogger()
    path = saved(first).last_model_path
    strategy = host.strategies.SingleDeviceStrategy
    monkeypatch.setattr(strategy, "restore_checkpoint_after_setup", True)
    logger = SeamarkLogger(tags=["late"])
    resume(trainer, model, logger, path)
    assert value(runs()[logger.version], "origin/run_id") == first.version
    named = SeamarkLogger(with_id=first.version)
    resume(trainer, model, named, path)
    run = runs()[first.version]
    assert attempts(run)[-1] == 1
    assert steps(run) == list(range(12))
    with pytest.raises(RunNotFoundError):
        trainer(logger=SeamarkLogger(resume="must")).fit(model())
