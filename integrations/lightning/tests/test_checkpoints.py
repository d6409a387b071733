"""After every fit the recorded checkpoints are the files that the callbacks saved."""

from __future__ import annotations

import importlib
import os
import shutil
import time
from hashlib import sha256
from pathlib import Path

import fsspec
import pytest
import torch

from seamark.lightning import SeamarkLogger

FILES = "training/model/checkpoints"


def on_disk(folder):
    """Return every checkpoint below a folder, file or folder, by its path without extension."""
    found = {}
    for path in sorted(Path(folder).rglob("*.ckpt")):
        if path.exists() and not any(parent.suffix == ".ckpt" for parent in path.parents):
            found[str(path.relative_to(folder).with_suffix(""))] = path
    return found


@pytest.fixture
def logger(request):
    return SeamarkLogger(checkpoints=getattr(request, "param", "reference"))


both_ways = pytest.mark.parametrize("logger", ["reference", "keep"], indirect=True)


@pytest.fixture
def check(read):
    """Assert that record and disk are equal, file by file, and return the names."""

    def compare(logger, folder, namespace=FILES):
        disk = on_disk(folder)
        record = {
            path.removeprefix(namespace + "/"): found.value
            for path, found in read(logger, namespace).items()
        }
        assert sorted(record) == sorted(disk)
        for name, path in disk.items():
            if path.is_file():
                assert record[name]["size"] == path.stat().st_size
                assert record[name]["sha256"] == sha256(path.read_bytes()).hexdigest()
                assert record[name]["ext"] == "ckpt"
        return sorted(disk)

    return compare


def saver(host, **given):
    return host.callbacks.ModelCheckpoint(**given)


def test_default_callback_keeps_the_newest_file_only(
    host, trainer, tiny, helpers, logger, check, read
):
    """It has no monitor, its files go into the run's folder, and those on record outlive it."""
    fit = trainer(logger=[logger, host.loggers.CSVLogger("csv")])
    fit.fit(tiny)
    callback = fit.checkpoint_callback
    folder = logger.own_run.folder.files_dir / "default" / logger.version / "checkpoints"
    assert Path(callback.dirpath) == folder == Path(logger.log_dir, "checkpoints")
    assert (logger.version, logger.name) == (logger.own_run.id, "default")
    fit.fit_loop.max_epochs = 3
    fit.fit(tiny)
    assert check(logger, folder) == ["epoch=2-step=6"]
    found = read(logger)
    assert found["training/model/best_model_path"].value == callback.best_model_path
    assert "training/model/best_model_score" not in found
    assert not list(logger.experiment.folder.path.glob("blobs/*"))  # no second copy of gigabytes
    del fit, callback  # the hook gets a weak proxy
    logger.finalize("success")
    assert check(logger, folder) == ["epoch=2-step=6"]


@both_ways
@pytest.mark.parametrize(
    ("given", "epochs", "left"),
    [
        ({"save_top_k": 0, "save_last": True}, 3, ["last"]),  # the only file is rewritten
        # No hook is called for the link, which is made or moved after the last file. Before 2.2
        # "link" means the same as True.
        ({"save_last": "link", "save_top_k": -1}, 2, ["epoch=0-step=2", "epoch=1-step=4", "last"]),
        ({"save_last": "link"}, 5, ["epoch=4-step=10", "last"]),
    ],
    ids=["last alone", "link", "link and pruning"],
)
def test_the_last_file_is_recorded(host, trainer, tiny, logger, check, given, epochs, left):
    callback = saver(host, **given)
    trainer(logger=logger, max_epochs=epochs, callbacks=[callback]).fit(tiny)
    assert check(logger, callback.dirpath) == left


@both_ways
def test_top_k_and_last(host, trainer, helpers, logger, check, read):
    """The worst file is removed after the hook of its successor, without another hook."""
    model = helpers.module_class()()
    scores = iter([3.0, 2.0, 4.0, 1.0, 5.0])
    model.on_validation_start = lambda: setattr(model, "score", next(scores))
    callback = saver(host, monitor="val/loss", save_top_k=2, save_last=True, filename="{epoch}")
    fit = trainer(logger=logger, max_epochs=5, callbacks=[callback])
    fit.fit(model)
    assert check(logger, callback.dirpath) == ["epoch=1", "epoch=3", "last"]
    found = read(logger)
    assert found["training/model/best_model_score"].value == 1.0
    assert found["training/model/best_model_path"].value == callback.best_model_path


def test_two_callbacks(host, trainer, tiny, logger, check):
    """Neither forgets what the other recorded; the first has the plain namespace."""
    one = saver(host, monitor="val/loss", filename="one-{epoch}", save_top_k=1)
    two = saver(host, monitor="val/other", filename="two-{epoch}", save_top_k=2, dirpath="two")
    trainer(logger=logger, max_epochs=4, callbacks=[one, two]).fit(tiny)
    assert all(name.startswith("one") for name in check(logger, one.dirpath))
    (namespace,) = second_namespaces(logger)
    assert "val-other" in namespace
    assert len(check(logger, two.dirpath, namespace + "/checkpoints")) == 2


def second_namespaces(logger):
    savers = logger._checkpoints._savers.values()
    return [one.namespace.removesuffix("/checkpoints") for one in savers][1:]


def test_first_callback_of_the_trainer_is_the_first(host, trainer, tiny, logger, check):
    """Not the one that happens to save first, which may differ in the next process."""
    one = saver(host, monitor="val/loss", filename="{epoch}", dirpath="one")
    two = saver(host, every_n_train_steps=1, filename="{step}", dirpath="two")
    trainer(logger=logger, callbacks=[one, two]).fit(tiny)
    assert check(logger, one.dirpath) == ["epoch=0"]


def test_two_callbacks_in_one_folder(host, trainer, tiny, logger, check, read):
    one = saver(host, monitor="val/loss", filename="one-{epoch}", dirpath="both")
    two = saver(host, monitor="val/other", filename="two-{epoch}", dirpath="both", save_top_k=-1)
    trainer(logger=logger, max_epochs=3, callbacks=[one, two]).fit(tiny)
    paths = [path for path in read(logger, "training/model") if "/checkpoints/" in path]
    assert sorted(path.rpartition("/")[2] for path in paths) == sorted(on_disk("both"))


def test_the_best_is_recorded_only_when_it_changes(host, trainer, helpers, logger):
    last = saver(host, monitor="val/loss", save_last=True, every_n_epochs=1)
    trainer(logger=logger, max_epochs=4, callbacks=[last]).fit(helpers.module_class()(score=0.0))
    run = logger.experiment.get_root_object()
    run.wait()
    assert run["training/model/best_model_score"].fetch() == 0.0
    (journal,) = run.folder.journals()
    for name in (b"path", b"score"):
        assert journal.path.read_bytes().count(b'"training/model/best_model_%s"' % name) == 1


def test_second_trainer_with_the_same_logger(trainer, helpers, logger, check):
    """What the first one saved is still there; the same folder is the same callback."""
    trainer(logger=logger).fit(helpers.module_class()())
    second = trainer(logger=logger, max_epochs=2)
    second.fit(helpers.module_class()())
    names = check(logger, second.checkpoint_callback.dirpath)
    assert len(names) == 2
    assert second_namespaces(logger) == []


def test_files_restored_from_a_checkpoint_are_pruned(host, trainer, helpers, check):
    """A callback that reads its state back goes on with the files of the process before it."""
    given = {"monitor": "val/loss", "mode": "max", "save_top_k": 2, "save_last": True}
    model = helpers.module_class()()
    model.on_validation_start = lambda: setattr(model, "score", model.current_epoch)
    for epochs, path in ((2, None), (4, "kept/last.ckpt")):
        logger = SeamarkLogger(custom_run_id="resumed")
        callback = saver(host, **given, filename="{epoch}", dirpath="kept")
        trainer(logger=logger, max_epochs=epochs, callbacks=[callback]).fit(model, ckpt_path=path)
        logger.experiment.stop()
    assert check(logger, "kept") == ["epoch=2", "epoch=3", "last"]


def writer_of(host):
    """Return Lightning's own writer of checkpoints."""
    fabric = "lightning.fabric" if host.__name__ == "lightning.pytorch" else "lightning_fabric"
    return importlib.import_module(f"{fabric}.plugins.io.torch_io").TorchCheckpointIO


@both_ways
@pytest.mark.parametrize("given", [{}, {"save_last": True, "save_top_k": 0}])
def test_async_checkpoints(host, trainer, tiny, logger, check, given):
    """At the hook the file is still to be written, and an old one with its name may be there."""

    class Slow(writer_of(host)):
        def save_checkpoint(self, *args, **kwargs):
            time.sleep(0.05)
            super().save_checkpoint(*args, **kwargs)

    plugins, callback = importlib.import_module(f"{host.__name__}.plugins.io"), saver(host, **given)
    slow = [plugins.AsyncCheckpointIO(Slow())]
    trainer(logger=logger, max_epochs=3, callbacks=[callback], plugins=slow).fit(tiny)
    assert check(logger, callback.dirpath)


@both_ways
def test_sharded_folders(host, trainer, tiny, logger, check):
    """A checkpoint may be a folder, as of sharded strategies; a rewritten one is recorded anew."""

    class ShardedIO(writer_of(host)):
        def save_checkpoint(self, checkpoint, path, storage_options=None):
            folder = Path(path)
            (folder / "shards").mkdir(parents=True, exist_ok=True)
            torch.save(checkpoint["state_dict"], folder / "shards" / "0.distcp")
            torch.save({"step": checkpoint["global_step"]}, folder / "meta.pt")

        def remove_checkpoint(self, path):
            shutil.rmtree(path)

    callback = saver(host, save_last=True)
    trainer(logger=logger, max_epochs=3, callbacks=[callback], plugins=[ShardedIO()]).fit(tiny)
    assert check(logger, callback.dirpath) == ["epoch=2-step=6", "last"]


@pytest.mark.parametrize("size", [10, 2_000_000], ids=["small", "large"])
def test_temporary_folder_on_another_file_system(
    host, trainer, tiny, logger, check, size, monkeypatch
):
    """There Lightning rewrites ``last.ckpt`` in place, under the same inode."""
    other = Path("/dev/shm")
    if other.stat().st_dev == Path.cwd().stat().st_dev:
        pytest.skip("there is one file system only")
    monkeypatch.setenv("TMPDIR", str(other))
    monkeypatch.setattr("tempfile.tempdir", None)
    tiny.register_buffer("weight", torch.zeros(size))
    saves = saver(host, save_top_k=0, save_last=True)
    trainer(logger=logger, max_epochs=4, callbacks=[saves]).fit(tiny)
    assert check(logger, saves.dirpath) == ["last"]
    for blob in logger.experiment.folder.blobs_dir.glob("[0-9a-f]*"):
        assert blob.stat().st_ino != Path(saves.dirpath, "last.ckpt").stat().st_ino


@both_ways
def test_large_checkpoints(host, trainer, tiny, logger, check):
    """Large files are taken by a link and stored on a thread, while the trainer removes them."""
    tiny.register_buffer("weight", torch.zeros(2_000_000))
    saves = saver(host, save_last=True)
    trainer(logger=logger, max_epochs=4, callbacks=[saves]).fit(tiny)
    assert check(logger, saves.dirpath) == ["epoch=3-step=8", "last"]


def test_kept_bytes_outlive_the_file_and_go_when_it_is_pruned(host, trainer, tiny, check):
    """With ``checkpoints="keep"``; a run that keeps one file does not grow with the saves."""
    logger, callback = SeamarkLogger(checkpoints="keep"), saver(host)
    trainer(logger=logger, max_epochs=4, callbacks=[callback]).fit(tiny)
    assert check(logger, callback.dirpath) == ["epoch=3-step=8"]
    logger.experiment.wait()
    blobs = logger.experiment.folder.blobs_dir.iterdir()
    assert len([blob for blob in blobs if not blob.name.startswith(".")]) == 1
    expected = Path(callback.best_model_path).read_bytes()
    Path(callback.best_model_path).unlink()
    logger.experiment[FILES + "/epoch=3-step=8"].download("copy.ckpt")
    assert Path("copy.ckpt").read_bytes() == expected


def test_unchanged_files_are_recorded_once(host, trainer, tiny, monkeypatch):
    """Five saves of five files are five records, however often the callback names them."""
    logger, taken = SeamarkLogger(), []
    content = type(logger.experiment.session.content)
    refer = content.refer
    monkeypatch.setattr(content, "refer", lambda *args: (taken.append(args[1]), refer(*args)))
    callback = saver(host, monitor="val/loss", save_top_k=-1, filename="{epoch}")
    fit = trainer(logger=logger, max_epochs=5, callbacks=[callback])
    fit.fit(tiny)
    fit.test(tiny, verbose=False)
    assert len(taken) == 5


def test_stopped_run_says_nothing_of_later_removals(host, trainer, tiny, logger, caplog):
    """What becomes of the files after ``stop()`` is not part of the run."""
    saves = saver(host, dirpath="kept")
    trainer(logger=logger, callbacks=[saves]).fit(tiny)
    logger.experiment.stop()
    shutil.rmtree("kept")
    logger.finalize("success")
    logger._checkpoints.settle()  # as at the end of the process
    assert "checkpoint" not in caplog.text


def test_remote_folder(host, trainer, tiny, logger, read):
    folder = f"memory://{logger.version}"
    callback = saver(host, dirpath=folder, filename="{epoch}", save_last=True)
    trainer(logger=logger, max_epochs=3, callbacks=[callback]).fit(tiny)
    there = sorted(fsspec.filesystem("memory").ls(f"/{logger.version}", detail=False))
    record = read(logger, FILES)
    assert [f"{Path(path).name}.ckpt" for path in record] == [Path(path).name for path in there]
    assert record[FILES + "/last"].value["ref"] == f"{folder}/last.ckpt"


def test_file_saved_on_exception(host, trainer, tiny, logger, check):
    """It is neither the best nor the last one."""
    try:
        callback = saver(host, save_on_exception=True, filename="{step}", save_top_k=-1)
    except TypeError:
        callback = saver(host, filename="{step}", save_top_k=-1)  # before 2.6 there is no such file
    tiny.at_step = lambda module: module.seen == 3 and 1 / 0
    with pytest.raises(ZeroDivisionError):
        trainer(logger=logger, max_epochs=3, callbacks=[callback]).fit(tiny)
    check(logger, callback.dirpath)


def test_nothing_is_recorded_when_switched_off(host, trainer, tiny, read):
    logger = SeamarkLogger(log_model_checkpoints=False, checkpoints="keep")
    trainer(logger=logger).fit(tiny)
    assert read(logger, "training/model") == {}


@pytest.mark.parametrize("first", ["save_dir", "another logger"])
def test_checkpoints_go_where_a_given_folder_says(host, trainer, tiny, first):
    """By Lightning's rule, ``save_dir/name/version/checkpoints``, of the first logger."""
    given = {"save_dir": "logs"} if first == "save_dir" else {}
    logger, other = SeamarkLogger(name="n", **given), host.loggers.CSVLogger("csv", name="c")
    fit = trainer(logger=[logger, other] if given else [other, logger])
    fit.fit(tiny)
    expected = f"logs/n/{logger.version}" if given else "csv/c/version_0"
    assert os.path.relpath(fit.checkpoint_callback.dirpath) == f"{expected}/checkpoints"


def test_trouble_with_a_file_does_not_stop_the_training(trainer, tiny, monkeypatch, read):
    logger = SeamarkLogger()

    def refuse(*given):
        msg = "no such luck"
        raise OSError(msg)

    monkeypatch.setattr(type(logger.experiment.session.content), "refer", refuse)
    trainer(logger=logger, max_epochs=2).fit(tiny)
    logger.experiment.stop()
    assert read(logger)["training/status"].value == "success"
    assert any(path.startswith("monitoring/seamark/dropped") for path in read(logger))
