"""Checkpoints: those that the saver writes, and those that Ignite's own handlers write."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path

import pytest
import torch
from ignite.engine import Engine, Events
from ignite.handlers import Checkpoint, DiskSaver, ModelCheckpoint

from seamark.errors import ArgumentError, PathError
from seamark.ignite import NeptuneSaver, SeamarkLogger, SeamarkSaver

QUIET = {"capture": {"git": False, "packages": False}}


@pytest.fixture(params=["reference", "keep"])
def keeper(request):
    """A logger of either way to record checkpoints."""
    logger = SeamarkLogger(checkpoints=request.param, **QUIET)
    yield logger
    logger.close()


def files_of(logger, read, namespace=""):
    """Return the attributes that are files, by path."""
    found = read.paths(logger, namespace)
    return {path: one.value for path, one in found.items() if one.family == "file"}


def test_best_two_are_on_disk_and_on_the_run(keeper, read, net):
    """With what is known of them; those that are no longer among the best are gone from both."""
    scores = iter([0.1, 0.4, 0.2, 0.3])
    engine = Engine(lambda *_: next(scores))
    saver = SeamarkSaver(keeper)
    best = Checkpoint(
        {"net": net}, saver, "best", lambda engine: engine.state.output, "acc", n_saved=2
    )
    engine.add_event_handler(Events.EPOCH_COMPLETED, best)
    engine.run([0], max_epochs=4)
    wanted = {"best_net_acc=0.4000.pt": 0.4, "best_net_acc=0.3000.pt": 0.3}
    files = files_of(keeper, read)
    assert set(files) == set(wanted)
    for name, score in wanted.items():
        assert saver.path(name).is_file()
        assert files[name]["ext"] == "pt"
        assert files[name]["size"] == saver.path(name).stat().st_size
        assert len(files[name]["sha256"]) == 64
        assert keeper[f"{name}/priority"].fetch() == score
        assert keeper[f"{name}/score_name"].fetch() == "acc"
        assert keeper[f"{name}/basename"].fetch() == "best_net"
    assert sorted(path.name for path in saver.path("x").parent.iterdir()) == sorted(wanted)
    assert not any(path.startswith("best_net_acc=0.1") for path in read.paths(keeper))


def test_loading_back(keeper, net):
    """With ``Checkpoint.load_objects``, from where `path` says, also after the run was closed."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    engine = Engine(lambda *_: 0.0)
    saver = SeamarkSaver(keeper)
    handler = Checkpoint({"net": net, "optimizer": optimizer}, saver)
    engine.add_event_handler(Events.COMPLETED, handler)
    engine.run([0])
    keeper.close()
    wanted = {name: value.clone() for name, value in net.state_dict().items()}
    torch.nn.init.zeros_(net[1].weight)
    where = saver.path(handler.last_checkpoint)
    Checkpoint.load_objects({"net": net, "optimizer": optimizer}, where)
    assert all(torch.equal(net.state_dict()[name], wanted[name]) for name in wanted)


def test_name_that_comes_twice(keeper, read):
    """The later bytes are the file; removing what is gone is no error."""
    saver = SeamarkSaver(keeper)
    saver.remove("never.pt")
    for number in range(3):
        known = {"basename": "same", "score_name": None, "priority": number}
        saver({"a": number}, "same.pt", known)
    assert torch.load(saver.path("same.pt"), weights_only=True) == {"a": 2}
    assert keeper["same.pt/priority"].fetch() == 2
    assert keeper["same.pt/score_name"].fetch() is None
    saver.remove("same.pt")
    assert not files_of(keeper, read)
    saver({"a": 3}, "same.pt")
    assert list(files_of(keeper, read)) == ["same.pt"]
    assert list(saver.path("same.pt").parent.iterdir()) == [saver.path("same.pt")]
    saver.path("same.pt").unlink()
    saver.remove("same.pt")
    assert not files_of(keeper, read)


def test_older_attempt_s_files_are_removed_too(read, net):
    """By a process that did not write them, once it has loaded the handler's state."""
    engine = Engine(lambda *_: 0.0)
    first = SeamarkLogger(**QUIET)
    to_save = {"net": net, "logger": first}
    handler = Checkpoint(to_save, SeamarkSaver(first), n_saved=1, include_self=True)
    engine.add_event_handler(Events.EPOCH_COMPLETED, handler)
    engine.run([0])
    first.close()
    second = SeamarkLogger(**QUIET)
    again = Checkpoint({"net": net, "logger": second}, SeamarkSaver(second), include_self=True)
    where = SeamarkSaver(first).path("checkpoint_1.pt")
    Checkpoint.load_objects({"logger": second, "net": net, "checkpointer": again}, where)
    engine = Engine(lambda *_: 0.0)
    engine.add_event_handler(Events.EPOCH_COMPLETED, again)
    engine.run(range(2))
    assert list(files_of(second, read)) == ["checkpoint_2.pt"]
    assert not where.exists()
    second.close()


def test_names_may_have_folders_and_do_not_lead_out_of_the_runs_own(logger):
    saver = SeamarkSaver(logger)
    saver({"a": 1}, "fold-1/one.pt")
    assert saver.path("fold-1/one.pt").is_file()
    for name in ("../one.pt", "a/../../one.pt"):
        with pytest.raises(ArgumentError, match="inside the run's folder"):
            saver({"a": 1}, name)
    with pytest.raises(PathError):
        saver.path("/one.pt")


def test_files_of_two_namespaces_of_one_run_lie_apart(logger):
    logger["a"] = 1
    folds = [SeamarkSaver(SeamarkLogger(run=logger.experiment[f"fold-{n}"])) for n in range(2)]
    for number, saver in enumerate(folds):
        saver({"a": number}, "one.pt")
    found = [torch.load(saver.path("one.pt"), weights_only=True)["a"] for saver in folds]
    assert found == [0, 1]
    assert logger.exists("fold-0/one.pt")


def test_disk_that_is_full_stops_no_training(logger, monkeypatch, caplog, read):
    """One warning; no half-written file is left, and the older one of that name stays."""
    saver = SeamarkSaver(logger)
    saver({"a": 1}, "one.pt")

    def full(checkpoint, file):
        file.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", full)
        for _ in range(2):
            saver({"a": 2}, "one.pt")
    assert caplog.text.count("could not be saved") == 1
    assert torch.load(saver.path("one.pt"), weights_only=True) == {"a": 1}
    assert [path.name for path in saver.path("one.pt").parent.iterdir()] == ["one.pt"]
    assert logger.experiment.session.recorder.writer.dropped["checkpoints"] == 2


def test_objects_that_cannot_be_pickled_raise(logger):
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        SeamarkSaver(logger)({"a": lambda: 1}, "one.pt")
    assert not SeamarkSaver(logger).path("one.pt").exists()


def test_saver_wants_one_of_our_loggers():
    with pytest.raises(TypeError, match="SeamarkSaver works only with SeamarkLogger"):
        SeamarkSaver(object())
    assert NeptuneSaver is SeamarkSaver


# ---------------------------------------------------------------- Ignite's own handlers


@pytest.mark.parametrize("when", ["before", "after"])
def test_files_of_a_model_checkpoint_are_recorded_whichever_was_attached_first(
    keeper, read, net, when
):
    scores = iter([0.1, 0.4, 0.2, 0.3])
    engine = Engine(lambda *_: next(scores))
    handler = ModelCheckpoint("models", "best", n_saved=2, score_function=lambda e: e.state.output)
    if when == "after":
        keeper.attach_checkpoint(engine, handler, Events.EPOCH_COMPLETED, "training")
    engine.add_event_handler(Events.EPOCH_COMPLETED, handler, {"net": net})
    if when == "before":
        keeper.attach_checkpoint(engine, handler, Events.EPOCH_COMPLETED, tag="training")
    engine.run([0], max_epochs=4)
    files = files_of(keeper, read, "training/model")
    on_disk = {path.stem for path in Path("models").iterdir()}
    assert set(files) == {f"training/model/checkpoints/{name}" for name in on_disk}
    assert len(on_disk) == 2
    best = keeper["training/model/best_model_path"].fetch()
    assert best == os.path.abspath("models/best_net_0.4000.pt")  # noqa: PTH100
    assert keeper["training/model/best_model_score"].fetch() == 0.4


def test_files_are_recorded_while_the_training_goes_on(logger, read, net):
    engine = Engine(lambda *_: 0.0)
    handler = Checkpoint({"net": net}, "models", n_saved=1)
    engine.add_event_handler(Events.ITERATION_COMPLETED, handler)
    logger.attach_checkpoint(engine, handler, Events.ITERATION_COMPLETED)
    seen = []
    engine.add_event_handler(
        Events.ITERATION_COMPLETED, lambda: seen.append(list(files_of(logger, read)))
    )
    engine.run(range(3))
    # One that was removed leaves the record at the next look.
    assert [one[-1] for one in seen] == [f"model/checkpoints/net_{n}" for n in (1, 2, 3)]
    logger["x"] = 1
    assert list(files_of(logger, read)) == ["model/checkpoints/net_3"]


def test_files_of_a_disk_saver_in_a_handler_of_the_user(logger, read):
    engine = Engine(lambda *_: 0.0)
    saver = DiskSaver("models")
    engine.add_event_handler(
        Events.EPOCH_COMPLETED, lambda engine: saver({"a": 1}, f"own_{engine.state.epoch}.pt")
    )
    handle = logger.attach_checkpoint(engine, saver, Events.EPOCH_COMPLETED)
    engine.run([0], max_epochs=2)
    assert set(files_of(logger, read)) == {f"model/checkpoints/own_{n}" for n in (1, 2)}
    handle.remove()
    engine.run([0], max_epochs=3)
    assert len(files_of(logger, read)) == 2


def test_two_handlers_prune_only_their_own(logger, read, net):
    engine = Engine(lambda *_: 0.0)
    for name in ("a", "b"):
        handler = ModelCheckpoint(name, name, n_saved=1)
        engine.add_event_handler(Events.EPOCH_COMPLETED, handler, {"net": net})
        logger.attach_checkpoint(engine, handler, Events.EPOCH_COMPLETED)
    engine.run(range(2), max_epochs=3)
    assert set(files_of(logger, read)) == {f"model/checkpoints/{name}_net_6" for name in "ab"}


@pytest.mark.parametrize("wrong", [object(), lambda: None])
def test_handler_that_keeps_no_files_is_refused(logger, engine, wrong):
    with pytest.raises(TypeError, match="expected a Checkpoint or ModelCheckpoint"):
        logger.attach_checkpoint(engine, wrong, Events.COMPLETED)
    handler = Checkpoint({"net": torch.nn.Linear(1, 1)}, SeamarkSaver(logger))
    with pytest.raises(TypeError, match="SeamarkSaver"):
        logger.attach_checkpoint(engine, handler, Events.COMPLETED)


def test_trouble_with_a_record_stops_no_training(logger, net, monkeypatch, caplog):
    engine = Engine(lambda *_: 0.0)
    handler = ModelCheckpoint("models", "x", n_saved=1)
    engine.add_event_handler(Events.EPOCH_COMPLETED, handler, {"net": net})
    logger.attach_checkpoint(engine, handler, Events.EPOCH_COMPLETED)
    logger["a"] = 1
    monkeypatch.setattr(handler, "state_dict", lambda: {"odd": 1})
    assert engine.run([0], max_epochs=3).epoch == 3
    assert caplog.text.count("checkpoints could not be recorded") == 1
