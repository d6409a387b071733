"""``python -m seamark.neptune`` and ``seamark.neptune.install()`` replace ``neptune``."""

from __future__ import annotations

import contextlib
import os
import runpy
import subprocess
import sys

import pytest

CHECKS = """
import importlib.metadata, importlib.util, multiprocessing, os, subprocess, sys

def imported(_=None):
    import neptune
    return neptune.__name__

if __name__ == "__main__":
    found = importlib.util.find_spec("neptune")
    assert found is not None and found.name == "neptune", found
    import neptune
    import neptune.new
    import neptune.types.series.float_series
    import seamark
    from neptune.common.exceptions import NeptuneException
    from neptune.exceptions import NeptuneOfflineModeFetchException
    from neptune.integrations.python_logger import NeptuneHandler
    from neptune.internal.utils import verify_type
    from neptune.management.exceptions import ProjectAlreadyExists
    from neptune.new.handler import Handler
    from neptune.new.integrations.utils import expect_not_an_experiment
    from neptune.new.internal.utils.paths import join_paths
    from neptune.new.metadata_containers.run import Run as OfAModule
    from neptune.new.run import Run
    from neptune.new.types import File
    from neptune.new.types.atoms.datetime import Datetime
    from neptune.types import FileSeries
    from neptune.types.series import FloatSeries

    assert neptune is neptune.new is seamark
    assert neptune.types is neptune.new.types is seamark.types
    assert neptune.types.File is File is seamark.types.File
    assert neptune.types.series.FloatSeries is FloatSeries is seamark.types.FloatSeries
    assert neptune.types.Datetime is Datetime
    assert neptune.Run is neptune.new.Run is Run is OfAModule is seamark.Run
    assert neptune.new.handler.Handler is Handler is seamark.Handler
    assert neptune.exceptions.NeptuneException is NeptuneException is seamark.errors.SeamarkError
    assert verify_type is seamark.integrations.utils.verify_type
    assert join_paths is seamark.integrations.utils.join_paths
    # What the import system writes into modules is as it was.
    assert seamark.__spec__.name == "seamark" and seamark.types.__spec__.name == "seamark.types"
    import datetime
    assert seamark.types.datetime is datetime.datetime
    import seamark.run.run
    assert seamark.run.run.Run is seamark.Run

    for name in ("neptune", "neptune-client", "neptune_client"):
        assert importlib.metadata.version(name) == "1.14.0"
    named = {one.metadata["Name"] for one in importlib.metadata.distributions()}
    assert "neptune" not in named  # nobody installed it
    for name in ("neptune.nothing", "neptune.integrations.nothing", "neptune.types.series.nothing"):
        try:
            __import__(name)
        except ModuleNotFoundError as error:
            assert error.name == name, error.name
        else:
            assert name == "neptune.types.series.nothing", name

    with neptune.init_run(project="team/moved") as run:
        run["lr"] = 0.1
        run["plots"] = FileSeries([File.from_content("a")])
        assert isinstance(run, neptune.Run) and isinstance(run["lr"], Handler)
        assert run["source_code/entrypoint"].fetch() == sys.argv[1]

    assert sys.argv[2:] == ["-x", "two words"], sys.argv
    is_script = sys.argv[1].endswith(".py")  # which is started with options of Python's
    assert sys.warnoptions == (["error::ResourceWarning"] if is_script else []), sys.warnoptions
    assert sys.dont_write_bytecode or not is_script
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(imported, [1]), flush=True)
    code = "import neptune; print(neptune.__name__)"
    subprocess.run([sys.executable, "-c", code], check=True)
    from package.inner import beside
    print(beside)
    sys.exit(3)
"""


def python(*words, **env):
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "SEAMARK_QUIET": "1", "SEAMARK_CAPTURE_GIT": "0", **env},
    )


@pytest.mark.parametrize("how", ["script", "module"])
def test_a_script_runs_as_python_runs_it(how, captured, tmp_path, monkeypatch):
    """Every way to import neptune gives Seamark, also in the processes that it starts."""
    folder = tmp_path / "scripts"  # not the working one
    for name in ("package", "site", "sites"):
        (folder / name).mkdir(parents=True)
    for name in ("train.py", "package/train.py"):
        (folder / name).write_text(CHECKS)
    (folder / "package" / "__init__.py").touch()
    (folder / "package" / "inner.py").write_text("beside = 'beside the script'")
    (folder / "site" / "sitecustomize.py").write_text(
        "import os, pathlib; pathlib.Path(os.environ['SITES'], str(os.getpid())).touch()"
    )
    if how == "script":
        options = ["-W", "error::ResourceWarning", "-Bm"]
        words = [str(folder / "train.py"), str(folder / "train.py")]
    else:
        monkeypatch.chdir(folder)
        options = ["-m"]
        words = ["-m", "package.train", "-m package.train"]
    path = os.pathsep.join(filter(None, (str(folder / "site"), os.environ.get("PYTHONPATH"))))
    more = {"PYTHONPATH": path, "SITES": str(folder / "sites")}
    done = python(*options, "seamark.neptune", *words, "-x", "two words", **more)
    assert done.stderr == ""
    assert done.returncode == 3
    assert done.stdout.splitlines() == ["['seamark']", "seamark", "beside the script"]
    # The environment is unchanged here, in a worker and in a process of its own.
    assert len(list((folder / "sites").iterdir())) >= 3


@pytest.mark.parametrize("words", [[], ["--nothing"], ["-m"], ["--help"]], ids=str)
def test_arguments_without_a_script_print_the_usage(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["seamark.neptune", *words])
    is_asked = words == ["--help"]
    with contextlib.nullcontext() if is_asked else pytest.raises(SystemExit, match=r"^2$"):
        runpy.run_module("seamark.neptune", run_name="__main__")
    told = capsys.readouterr()
    assert (told.out if is_asked else told.err).startswith("usage: python -m seamark.neptune")


def test_a_program_may_run_it_in_its_own_process(tmp_path):
    """With `runpy`; the arguments of that program are no options of Python's."""
    script = tmp_path / "script.py"
    script.write_text("import sys, neptune\nprint(neptune.__name__, sys.argv[1:])\n")
    program = f"""
import runpy, sys
sys.argv = ["program", {str(script)!r}, "-x"]
runpy.run_module("seamark.neptune", run_name="__main__", alter_sys=True)
"""
    done = python("-c", program)
    assert done.stdout == "seamark ['-x']\n", done.stderr


def test_an_imported_neptune_is_not_replaced(tmp_path):
    """The error names its file; after that is unloaded, install() can be called twice."""
    (tmp_path / "neptune").mkdir()
    (tmp_path / "neptune" / "__init__.py").write_text("")
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    code = (
        "import sys, neptune, seamark.neptune\n"
        "before = [*sys.meta_path]\n"
        "try: seamark.neptune.install()\n"
        "except seamark.errors.LoadedAlreadyError as error: print(error)\n"
        "assert sys.meta_path == before\n"
        "assert issubclass(seamark.errors.LoadedAlreadyError, ImportError)\n"
        "del sys.modules['neptune']\n"
        "for _ in range(2): seamark.neptune.install()\n"
        "import neptune; print(neptune.__name__, len(sys.meta_path) - len(before))\n"
    )
    done = python("-c", code, PYTHONPATH=path)
    assert done.stderr == ""
    said, then = done.stdout.splitlines()
    assert "before anything imports neptune" in said
    assert said.endswith(str(tmp_path / "neptune" / "__init__.py"))
    assert then == "seamark 1"
