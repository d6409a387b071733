"""LightningCLI with the logger named in its configuration."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import seamark

PROGRAM = """
import sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {tests!r})
import importlib
import conftest, test_cli
host = importlib.import_module({host!r})
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

    cli.LightningCLI(
        Configured, save_config_callback=SaveToLogger, seed_everything_default=1, args=arguments
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
        done = subprocess.run(
            [sys.executable, "program.py", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done

    return start


def test_twice_in_one_folder(fit, cli_arguments):
    """The second run has a log_dir of its own; each configuration lies beside its checkpoints."""
    for width in ("2", "3"):
        fit(*cli_arguments, "--trainer.logger.project=cli", f"--model.width={width}")
    runs = [path.parent for path in Path(".seamark/cli").glob("*/journal")]
    assert len(runs) == 2
    for run in runs:
        assert (run / "files" / "config.yaml").is_file()
        assert len(list(run.glob("files/**/checkpoints/*.ckpt"))) == 1


def test_saved_configuration_can_be_used_again(fit, cli_arguments):
    """What LightningCLI writes for the logger is what it reads."""
    fit(*cli_arguments, "--trainer.logger.name=again", "--trainer.logger.prefix=p")
    (config,) = Path(".seamark/default").glob("*/files/config.yaml")
    assert "seamark.lightning" in config.read_text()
    fit("--config", str(config))
    assert len(list(Path(".seamark/default").glob("*/journal"))) == 2


def test_secret_in_the_configuration_is_nowhere_in_the_root(program, cli_arguments):
    """Neither in what the callback above logs, nor in the file that LightningCLI saves."""
    program("fit", *cli_arguments, "--trainer.logger.api_key=tok-5e1f")
    (journal,) = Path(".seamark/default").glob("*/journal/*")
    assert b"max_epochs" in journal.read_bytes()
    for path in Path(".seamark").rglob("*"):
        assert path.is_dir() or b"tok-5e1f" not in path.read_bytes(), path
    (config,) = Path(".seamark/default").glob("*/files/config.yaml")
    program("fit", "--config", str(config))


def test_a_parameter_named_like_a_secret_is_nowhere_in_the_root(program, cli_arguments):
    """It is an argument, and stands in what is logged and in the file that LightningCLI saves.

    Checkpoints are Lightning's own: it keeps the module's parameters in them as they are.
    """
    done = program("fit", *cli_arguments, "--model.token=tok-5e1f")
    (config,) = Path(".seamark/default").glob("*/files/config.yaml")
    assert 'token: "*** (name looks like a secret)"' in config.read_text()
    assert "'sys/masked'" in done.stderr
    for path in Path(".seamark").rglob("*"):
        own = path.suffix == ".ckpt"
        assert own or path.is_dir() or b"tok-5e1f" not in path.read_bytes(), path
    program("fit", "--config", str(config))


def test_secret_in_the_configuration_of_a_stage_that_fails_early(fit, cli_arguments):
    """LightningCLI has saved its file then, and the logger was not asked for the graph yet."""
    key = "--trainer.logger.api_key=tok-5e1f"
    with pytest.raises(RuntimeError, match="in setup"):
        fit(*cli_arguments, key, "--model.fails=in setup")
    assert list(Path(".seamark/default").glob("*/journal/*"))
    for path in Path(".seamark").rglob("*"):
        assert path.is_dir() or b"tok-5e1f" not in path.read_bytes(), path


def test_run_arguments_in_the_configuration(fit, cli_arguments):
    """What the signature does not spell out is given as ``dict_kwargs``."""
    Path("config.yaml").write_text(
        "trainer:\n  logger:\n    class_path: seamark.lightning.SeamarkLogger\n"
        "    init_args:\n      project: cli\n"
        "    dict_kwargs:\n      tags: [one, two]\n"
    )
    fit(*cli_arguments[:-1], "--config", "config.yaml")
    (journal,) = Path(".seamark/cli").glob("*/journal/*")
    assert b'"values":["one","two"]' in journal.read_bytes()


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
