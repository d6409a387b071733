"""LightningCLI with the logger named in its configuration."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from torch.utils.data import DataLoader, TensorDataset

import seamark

PROGRAM = """
import sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {tests!r})
import importlib
host = importlib.import_module({host!r})
import conftest, test_cli
test_cli.run_cli(host, conftest.module_class(host))
"""


def run_cli(host, tiny, arguments=None):
    """Call LightningCLI of one of the packages, with the arguments of this program by default."""
    cli = importlib.import_module(host.__name__ + ".cli")

    class Configured(tiny):
        def __init__(self, width: int = 2, fails: str = "", token: str = ""):
            super().__init__(width)
            self.fails = fails

        def setup(self, stage):
            if self.fails:
                raise RuntimeError(self.fails)

    class SaveToLogger(cli.SaveConfigCallback):
        def setup(self, trainer, pl_module, stage):
            super().setup(trainer, pl_module, stage)
            config = self.parser.dump(self.config, skip_none=False)
            trainer.logger.log_hyperparams({"config": config})

    class Data(host.LightningDataModule):
        def __init__(
            self, batch_size: int = 4, password: str = "", url: str = "", parts: dict | None = None
        ):
            super().__init__()
            self.batch_size = batch_size

        def train_dataloader(self):
            return DataLoader(TensorDataset(torch.ones(8, 4)), batch_size=self.batch_size)

        val_dataloader = train_dataloader

    class Stopping(cli.LightningCLI):
        def add_arguments_to_parser(self, parser):
            stopping = host.callbacks.EarlyStopping
            parser.add_lightning_class_args(stopping, "stopping")
            parser.set_defaults({"stopping.monitor": "val/loss"})

    has_stopping = any("--stopping" in one for one in arguments or ())
    (Stopping if has_stopping else cli.LightningCLI)(
        Configured,
        Data if any("--data" in one for one in arguments or ()) else None,
        save_config_callback=SaveToLogger,
        seed_everything_default=1,
        args=arguments,
    )


@pytest.fixture
def fit(host, helpers):
    """Return a function that fits as LightningCLI does with such arguments."""
    pytest.importorskip("jsonargparse")
    return lambda *arguments: run_cli(host, helpers.module_class(), ["fit", *arguments])


@pytest.fixture
def program(one_host):
    """Return a function that starts a program of its own with such arguments."""
    pytest.importorskip("jsonargparse")
    text = PROGRAM.format(tests=str(Path(__file__).parent), host=one_host.__name__)
    Path("program.py").write_text(text)

    def start(*arguments):
        command = [sys.executable, "program.py", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
        assert done.returncode == 0, done.stderr

    return start


def test_twice_in_one_folder(fit, cli_arguments):
    for width in ("2", "3"):
        fit(*cli_arguments, "--trainer.logger.project=cli", f"--model.width={width}")
    runs = [path.parent for path in Path(".seamark/cli").glob("*/journal")]
    assert len(runs) == 2
    for run in runs:
        assert (run / "files" / "config.yaml").is_file()
        assert len(list(run.glob("files/**/checkpoints/*.ckpt"))) == 1


def test_secret_in_the_configuration_of_a_stage_that_fails_early(fit, cli_arguments):
    """LightningCLI has saved its file then, and the logger was not asked for the graph yet."""
    key = "--trainer.logger.api_key=tok-5e1f"
    with pytest.raises(RuntimeError, match="in setup"):
        fit(*cli_arguments, key, "--model.fails=in setup")
    assert list(Path(".seamark/default").glob("*/journal/*"))
    for path in Path(".seamark").rglob("*"):
        assert path.is_dir() or b"tok-5e1f" not in path.read_bytes(), path


CONFIGURATION = """
trainer:
  logger:
    class_path: seamark.lightning.SeamarkLogger
    init_args:
      project: cli
      root: roots
      custom_run_id: mine
      mode: offline
      description: what it is for
      tags: [one, two]
      params: {{depth: 3}}
      git_ref: false
      source_files: [config.yaml]
      capture: {{packages: false}}
      ranks: zero
      {more}
"""


def test_arguments_of_a_run_are_arguments_of_the_logger(fit, cli_arguments):
    """Each by its name and with its type, in a file as on the command line."""
    Path("config.yaml").write_text(CONFIGURATION.format(more=""))
    fit(*cli_arguments[:-1], "--config=config.yaml", "--trainer.logger.tags+=three")
    run = seamark.init_run("cli", root="roots", custom_run_id="mine", mode="read-only")
    assert run["sys/tags"].fetch() == {"one", "two", "three"}
    assert run["sys/description"].fetch() == "what it is for"
    assert run["parameters/depth"].fetch() == 3
    assert not run.exists("source_code/git")
    assert [one["name"] for one in run["source_code/files"].list_fileset_files()] == ["config.yaml"]


@pytest.mark.parametrize("first", [["--trainer.logger.params={depth: 3, lr: 0.1}"], []])
def test_single_parameters_on_the_command_line(fit, cli_arguments, first):
    """Each is one parameter with its type, beside those that were given together."""
    more = [f"--trainer.logger.params.{one}" for one in ("y=4", "name=wide", "lr=0.5")]
    fit(*cli_arguments, *first, *more)
    wanted = {"y": 4, "name": "wide", "lr": 0.5} | ({"depth": 3} if first else {})
    assert recorded()["parameters"].fetch() == wanted


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ("mode: onlin", "mode"),
        ("capture: perhaps", "capture"),
        ("ranks: some", "ranks"),
        ("description: {a: b}", "description"),
        ("tag: [x]", "tag"),
    ],
)
def test_wrong_arguments_are_refused_by_name(fit, cli_arguments, capsys, wrong, named):
    """Before anything is trained or recorded, and by LightningCLI as it refuses others."""
    lines = [one for one in CONFIGURATION.splitlines() if not one.strip().startswith(f"{named}:")]
    Path("config.yaml").write_text("\n".join(lines).format(more=wrong))
    with pytest.raises(SystemExit):
        fit(*cli_arguments[:-1], "--config=config.yaml")
    assert named in capsys.readouterr().err
    assert not Path("roots").exists()


def test_help_tells_every_argument(fit, capsys):
    with pytest.raises(SystemExit):
        fit("--trainer.logger.help=seamark.lightning.SeamarkLogger")
    told = " ".join(capsys.readouterr().out.split())
    for name in inspect.signature(seamark.init_run).parameters:
        if name not in ("first", "others"):  # what has no name is for people
            assert f"--trainer.logger.{name} " in told, name
    assert "One string or several, for ``sys/tags``; or a mapping of keys to values" in told


def test_run_arguments_in_the_configuration(fit, cli_arguments):
    """What was given as ``dict_kwargs`` before there were such arguments is taken as it was."""
    Path("config.yaml").write_text(
        "trainer:\n  logger:\n    class_path: seamark.lightning.SeamarkLogger\n"
        "    init_args:\n      project: cli\n"
        "    dict_kwargs:\n      tags: [one, two]\n"
    )
    fit(*cli_arguments[:-1], "--config", "config.yaml")
    (journal,) = Path(".seamark/cli").glob("*/journal/*")
    assert b'"values":["one","two"]' in journal.read_bytes()


def recorded(project="default"):
    (folder,) = Path(".seamark", project).glob("*/journal")
    return seamark.init_run(project, with_id=folder.parent.name, mode="read-only")


def test_what_the_trainer_and_the_data_were_told_is_recorded(fit, cli_arguments):
    """Flat, with their types, beside what became of it; nothing that was left to its default."""
    told = ("trainer.gradient_clip_val=0.5", "trainer.deterministic=warn", "data.batch_size=2",
            "data.parts={a: {b: 1}}", "optimizer=Adam", "optimizer.lr=0.1")  # fmt: skip
    fit(*cli_arguments, *(f"--{one}" for one in told))
    torch.use_deterministic_algorithms(mode=False)
    run = recorded()
    trainer = run["training/trainer"].fetch()
    expected = {"max_epochs": 1, "gradient_clip_val": 0.5, "deterministic": "warn",
                "accelerator": "cpu", "accumulate_grad_batches": 1}  # fmt: skip
    assert expected.items() <= trainer.items()
    assert not trainer.keys() & {"logger", "callbacks", "max_time"}
    data = {"batch_size": 2, "password": "", "url": "", "parts": {"a": {"b": 1}}}
    assert run["training/data"].fetch() == data
    optimizer = run["training/optimizer"].fetch()
    assert (optimizer["lr"], optimizer["class_path"]) == (0.1, "torch.optim.Adam")
    assert run["training/seed_everything"].fetch() == 1
    assert run["training/hyperparams/width"].fetch() == 2


def test_a_section_that_was_added_is_recorded(fit, cli_arguments):
    fit(*cli_arguments, "--stopping.patience=7", "--stopping.min_delta=0.5")
    stopping = recorded()["training/stopping"].fetch()
    assert {"monitor": "val/loss", "patience": 7, "min_delta": 0.5}.items() <= stopping.items()


def test_the_configuration_is_kept_with_the_run(fit, cli_arguments):
    fit(*cli_arguments, "--model.width=3", "--data.batch_size=2")
    (blobs,) = Path(".seamark/default").glob("*/blobs")
    assert len(list(blobs.iterdir())) == 1  # nothing is uploaded again for what did not change
    run = recorded()
    run["training/config"].download("again.yaml")
    (saved,) = run.folder.files_dir.glob("config.yaml")
    assert yaml.safe_load(Path("again.yaml").read_text()) == yaml.safe_load(saved.read_text())
    fit("--config=again.yaml", "--data.batch_size=4")
    assert len(list(Path(".seamark/default").glob("*/journal"))) == 2


def test_secrets_of_the_configuration_are_in_no_record(fit, cli_arguments, capsys):
    url = "postgresql://me:s3cr3tw0rd@host/db"
    words = ["--data.password=hunter2hunter2", f"--data.url={url}"]
    fit(*cli_arguments, *words, "--trainer.logger.api_key=tok-5e1f")
    run = recorded()
    assert run["training/data/password"].fetch() == "*** (name looks like a secret)"
    assert run["training/data/url"].fetch() == "postgresql://***@host/db"
    run["training/config"].download("kept.yaml")
    kept = Path("kept.yaml").read_text()
    assert yaml.safe_load(kept)["data"]["password"] == "*** (name looks like a secret)"
    for secret in ("hunter2hunter2", "s3cr3tw0rd", "tok-5e1f"):
        assert secret not in kept
    for path in Path(".seamark").rglob("*"):
        assert path.is_dir() or b"tok-5e1f" not in path.read_bytes(), path


@pytest.mark.launches
def test_going_on_in_a_new_process(program, cli_arguments, monkeypatch):
    """A given run and its last checkpoint: the configuration of the first start gives way."""
    monkeypatch.setenv("SEAMARK_CUSTOM_RUN_ID", "one")
    Path("saver.yaml").write_text(
        "trainer:\n  callbacks:\n    - class_path: ModelCheckpoint\n"
        "      init_args:\n        save_last: true\n"
    )
    arguments = [*cli_arguments, "--config=saver.yaml", "--ckpt_path=last"]
    program("fit", *arguments)
    program("fit", *arguments, "--trainer.max_epochs=2")
    (config,) = Path(".seamark/default").glob("*/files/config.yaml")
    assert "max_epochs: 2" in config.read_text()
    (before,) = config.parent.glob("config-before-*.yaml")
    assert "max_epochs: 1" in before.read_text()
    run = seamark.init_run(with_id=config.parents[1].name, mode="read-only")
    assert run["training/epoch"].fetch_points().attempt.max() == 1
    assert run["sys/state"].fetch() == "completed"
