"""The script is kept, and what is executed has a version: the same one for the same code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from seamark.capture.code import Script, read_beginning
from seamark.capture.code.executed import CodeVersion

BEGIN = """
    import threading, seamark
    def recorded():
        done = threading.Event()
        facts = run.session.ending._capture._parts[0]
        facts._tasks.put(done.set)
        assert done.wait(60)
    run = seamark.init_run(capture=dict(git=False, packages=False))
    recorded()
"""
WHOLE = BEGIN + "    run.stop()\n"


def files_of(scripts, target: str = "out") -> dict[str, str]:
    """Return the files that the only run of some scripts keeps of its code."""
    run = scripts.reopened()
    if not run.exists("source_code/files"):
        return {}
    place = scripts.folder / target
    run["source_code/files"].download(str(place))
    paths = [path for path in place.rglob("*") if path.is_file()]
    return {path.relative_to(place).as_posix(): path.read_text() for path in paths}


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ("script=True), source_files=[]", {}),
        ("script=False)", {}),
        ("script=True), source_files='conf.py'", {"conf.py": 'password = "hunter2x"\n'}),
    ],
)
def test_script_is_kept_unless_switched_off_or_files_are_named(scripts, options, kept):
    """Files that are named stand in for it, as with Neptune, and are kept as they are."""
    (scripts.folder / "conf.py").write_text('password = "hunter2x"\n')
    assert scripts.run(WHOLE.replace("packages=False)", f"packages=False, {options}", 1)).code == 0
    assert files_of(scripts) == kept


def test_module_is_named_as_it_was_started_and_kept_under_its_path(scripts):
    (scripts.folder / "pack").mkdir()
    scripts.write("", "pack/__init__.py")
    for name, started in (("train", "pack.train"), ("__main__", "pack")):
        scripts.write(WHOLE, f"pack/{name}.py")
        assert scripts.start([sys.executable, "-m", started, "a"]).code == 0
        atoms = scripts.recorded().atoms
        assert atoms["source_code/entrypoint"] == f"-m {started}"
        assert atoms["source_code/arguments"] == ["a"]
        assert set(files_of(scripts, name)) == {f"pack/{name}.py"}
        shutil.rmtree(scripts.root)


@pytest.mark.once
def test_installed_entry_point_and_code_of_a_virtual_environment_are_not_kept(scripts):
    code = "def test_it():" + WHOLE
    (scripts.folder / "test_it.py").write_text(code)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    ended = scripts.start(command)
    assert ended.code == 0, ended.stdout
    assert scripts.recorded().atoms["source_code/entrypoint"] == "-m pytest"
    assert files_of(scripts) == {}
    assert scripts.recorded().atoms["source_code/version"]
    shutil.rmtree(scripts.root)
    command = [sys.executable, "-m", "venv", "--without-pip", "env"]
    subprocess.run(command, cwd=scripts.folder, check=True)
    scripts.write(WHOLE, "env/tool.py")
    packages = {"PYTHONPATH": os.pathsep.join(sys.path)}
    assert scripts.start(["env/bin/python", "env/tool.py"], packages).code == 0
    assert files_of(scripts) == {}


@pytest.mark.parametrize("how", ["-c", "-"])
def test_code_without_a_file_keeps_none(scripts, how):
    code = textwrap.dedent(WHOLE)
    command = [sys.executable, "-c", code] if how == "-c" else [sys.executable, "-"]
    subprocess.run(command, input=code, text=True, cwd=scripts.folder, check=True)
    assert files_of(scripts) == {}
    assert "source_code/version" not in scripts.recorded().atoms


def test_spawned_worker_keeps_the_script_of_its_parent(scripts):
    code = f"""
        import multiprocessing
        def work():
            {WHOLE.strip().replace(chr(10), chr(10) + " " * 8)}
        if __name__ == "__main__":
            process = multiprocessing.get_context("spawn").Process(target=work)
            process.start(); process.join()
    """
    ended = scripts.run(code, "--x")
    assert (ended.code, ended.stderr) == (0, "")
    assert set(files_of(scripts)) == {"script.py"}
    atoms = scripts.recorded().atoms
    assert atoms["source_code/entrypoint"] == "script.py"
    assert atoms["source_code/arguments"] == ["--x"]


def test_secrets_in_the_script_are_hidden_and_noted(scripts):
    code = WHOLE + '    token = str(1)\n    login(token="planted-1") if 0 else 0\n'
    assert scripts.run(code).code == 0
    written = (scripts.folder / "script.py").read_text()
    assert files_of(scripts) == {"script.py": written.replace("planted-1", "***")}
    kept = b"".join(path.read_bytes() for path in scripts.root.rglob("*") if path.is_file())
    assert b"planted" not in kept
    assert scripts.reopened()["sys/masked"].fetch() == {"source_code/files"}


@pytest.fixture
def version_in(monkeypatch):
    """Return a function that gives the version of a script in a folder, with what it imports."""

    def version_in(folder: Path, code: str, modules: dict[str, str]) -> str:
        for name, content in {"train.py": code, **modules}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content, newline="")
        for name in modules:
            module = ModuleType(name)
            module.__file__ = str(folder / name)
            monkeypatch.setitem(sys.modules, Path(name).stem, module)
        return CodeVersion(Script("train.py", (), folder / "train.py", folder)).now({})

    return version_in


def test_same_code_has_the_same_version_wherever_it_lies(version_in, tmp_path):
    first = version_in(tmp_path / "a", "import helper", {"helper.py": "x = 1\n"})
    assert len(first) == 16
    assert version_in(tmp_path / "b" / "deep", "import helper", {"helper.py": "x = 1\n"}) == first
    assert version_in(tmp_path / "c", "import helper", {"helper.py": "x = 1\r\n"}) == first
    assert version_in(tmp_path / "d", "import helper", {"helper.py": "x = 2\n"}) != first
    assert version_in(tmp_path / "e", "import other", {"helper.py": "x = 1\n"}) != first
    assert version_in(tmp_path / "f", "import helper", {}) != first


def test_version_is_that_of_imported_files_without_packages(version_in, tmp_path):
    first = version_in(tmp_path, "", {"helper.py": "x = 1\n"})
    (tmp_path / "other.py").write_text("y = 1\n")
    package = "venv/lib/python3/site-packages/package.py"
    assert version_in(tmp_path, "", {"helper.py": "x = 1\n", package: "z = 1\n"}) == first


def test_file_that_is_edited_later_counts_as_it_was_executed(tmp_path):
    (tmp_path / "train.py").write_text("x = 1\n")
    version = CodeVersion(Script("train.py", (), tmp_path / "train.py", tmp_path))
    first = version.now({})
    (tmp_path / "train.py").write_text("x = 2\n")
    assert version.now({}) == first


@pytest.mark.parametrize("end", ["    run.stop()\n", ""], ids=["stop", "exit"])
def test_version_counts_what_is_imported_while_the_run_goes_on(scripts, end):
    scripts.write("x = 1", "helper.py")
    assert scripts.run(BEGIN + "    import helper\n" + end).code == 0
    assert scripts.recorded().assigned.count("source_code/version") == 2


def test_too_much_code_has_no_version(scripts):
    code = "    import seamark.capture.code.executed as e, helper\n    e._MAX_MODULES = 1\n"
    scripts.write("x = 1", "helper.py")
    assert scripts.run(code + WHOLE).code == 0
    atoms = scripts.recorded().atoms
    assert atoms["source_code/version"] is None
    assert "more than 1 modules" in atoms["source_code/version_unknown"]


def test_no_module_is_asked_for_attributes_that_run_code(version_in, tmp_path, monkeypatch):
    class Odd(ModuleType):
        def __getattribute__(self, name):
            raise RuntimeError(name)

    for name, module in {"odd": Odd("odd"), "none": None, "number": 3}.items():
        monkeypatch.setitem(sys.modules, name, module)
    assert version_in(tmp_path, "", {})


def test_file_that_cannot_be_examined_is_closed(tmp_path, monkeypatch):
    """As a file of a network disk that was deleted there meanwhile (ESTALE)."""
    opened = []

    def fail(fd):
        opened.append(fd)
        raise OSError("stale file handle")

    file = tmp_path / "module.py"
    file.write_bytes(b"one = 1")
    assert read_beginning(file, 3) == b"one"
    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", fail)
        assert read_beginning(file, 3) is None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])
