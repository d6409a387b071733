"""Checkpoints: those that the saver writes, and those that Ignite's own handlers write."""

from __future__ import annotations

import errno
import os
import pickle

import pytest
import torch
from ignite.engine import Engine, Events
from ignite.handlers import Checkpoint

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
    """The later bytes are the file, whether or not the first was removed in between."""
    saver = SeamarkSaver(keeper)
    for number in range(3):
        saver(
            {"a": number}, "same.pt", {"basename": "same", "score_name": None, "priority": number}
        )
    assert torch.load(saver.path("same.pt"), weights_only=True) == {"a": 2}
    assert keeper["same.pt/priority"].fetch() == 2
    assert keeper["same.pt/score_name"].fetch() is None
    saver.remove("same.pt")
    assert not files_of(keeper, read)
    saver({"a": 3}, "same.pt")
    assert list(files_of(keeper, read)) == ["same.pt"]
    assert list(saver.path("same.pt").parent.iterdir()) == [saver.path("same.pt")]


def test_removing_what_is_gone(logger):
    """Is no error: a folder may have been tidied up by hand."""
    saver = SeamarkSaver(logger)
    saver.remove("never.pt")
    saver({"a": 1}, "one.pt")
    saver.path("one.pt").unlink()
    saver.remove("one.pt")


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


def test_names_with_folders_and_names_that_lead_away(logger):
    """Folders are made; nothing is written outside the run's own."""
    saver = SeamarkSaver(logger)
    saver({"a": 1}, "fold-1/one.pt")
    assert saver.path("fold-1/one.pt").is_file()
    for name in ("../one.pt", "a/../../one.pt"):
        with pytest.raises(ArgumentError, match="inside the run's folder"):
            saver({"a": 1}, name)
    with pytest.raises(PathError):
        saver.path("/one.pt")


def test_two_namespaces_of_one_run_do_not_meet(logger):
    """Files of the same name lie apart."""
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


def test_what_cannot_be_pickled_is_said(logger):
    """It would be missing at the end of the training."""
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        SeamarkSaver(logger)({"a": lambda: 1}, "one.pt")
    assert not SeamarkSaver(logger).path("one.pt").exists()


def test_saver_wants_one_of_our_loggers():
    """It is the first thing that is checked."""
    with pytest.raises(TypeError, match="SeamarkSaver works only with SeamarkLogger"):
        SeamarkSaver(object())
    assert NeptuneSaver is SeamarkSaver
