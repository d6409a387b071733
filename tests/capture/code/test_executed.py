"""The script is kept, and what is executed has a version: the same one for the same code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

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


def version_of(scripts) -> object:
    found = scripts.recorded().atoms.get("source_code/version")
    shutil.rmtree(scripts.root)
    return found


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
    first = version_of(scripts)
    assert first
    (scripts.folder / "test_it.py").write_text(code + "\n# changed\n")
    scripts.start(command)
    assert version_of(scripts) != first
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
    assert version_of(scripts) is None


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


def version_in(scripts, folder: Path, code: str, *, helper: str = "x = 1\n", **kwargs) -> object:
    """Return the version of a script with a helper that lie in a folder."""
    (folder / "lib").mkdir(parents=True, exist_ok=True)
    (folder / "lib" / "__init__.py").write_text("")
    (folder / "lib" / "helper.py").write_text(helper, newline="")
    scripts.write(code, str(folder / "train.py"))
    ended = scripts.start([sys.executable, str(folder / "train.py")], **kwargs)
    assert (ended.code, ended.stderr) == (0, "")
    return version_of(scripts)


IMPORTS = "    import lib.helper\n" + WHOLE


@pytest.mark.once
@pytest.mark.thorough
def test_same_code_has_the_same_version_wherever_it_lies(scripts, tmp_path):
    first = version_in(scripts, tmp_path / "a", IMPORTS)
    assert isinstance(first, str)
    assert len(first) == 16
    assert version_in(scripts, tmp_path / "b" / "deep", IMPORTS) == first
    assert version_in(scripts, tmp_path / "c", IMPORTS, helper="x = 1\r\n") == first
    assert version_in(scripts, tmp_path / "d", IMPORTS, helper="x = 2\n") != first
    assert version_in(scripts, tmp_path / "e", IMPORTS + "    y = 1\n") != first
    assert version_in(scripts, tmp_path / "f", WHOLE) != first


@pytest.mark.once
def test_version_is_that_of_imported_files_without_packages(scripts, tmp_path):
    first = version_in(scripts, tmp_path / "a", IMPORTS)
    (tmp_path / "a" / "other.py").write_text("y = 1\n")
    site = tmp_path / "a" / "venv" / "lib" / "python3" / "site-packages"
    site.mkdir(parents=True)
    (site / "package.py").write_text("z = 1\n")
    code = f"    import sys; sys.path.append({str(site)!r}); import package\n" + IMPORTS
    with_package = version_in(scripts, tmp_path / "a", code)
    (site / "package.py").write_text("z = 2\n")
    assert version_in(scripts, tmp_path / "a", code) == with_package
    assert version_in(scripts, tmp_path / "a", IMPORTS) == first


@pytest.mark.once
@pytest.mark.parametrize("end", ["    run.stop()\n", ""], ids=["stop", "exit"])
def test_version_counts_what_is_imported_or_edited_while_the_run_goes_on(scripts, tmp_path, end):
    late = BEGIN + "    import lib.helper\n" + end
    first = version_in(scripts, tmp_path / "a", late)
    assert version_in(scripts, tmp_path / "b", late, helper="x = 2\n") != first
    edited = "    import lib.helper, pathlib\n" + BEGIN
    edit = "    pathlib.Path(lib.helper.__file__).write_text('x = 3\\n')\n"
    unchanged = version_in(scripts, tmp_path / "c", edited + "    pass\n" + end)
    changed = version_in(scripts, tmp_path / "c", edited + edit + end)
    again = version_in(scripts, tmp_path / "d", edited + edit + end)
    assert changed == again != unchanged


def test_too_much_code_has_no_version(scripts, tmp_path):
    code = "    import seamark.capture.code.executed as e\n    e._MAX_MODULES = 1\n" + IMPORTS
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "__init__.py").write_text("")
    (tmp_path / "lib" / "helper.py").write_text("")
    assert scripts.run(code).code == 0
    atoms = scripts.recorded().atoms
    assert atoms["source_code/version"] is None
    assert "more than 1 modules" in atoms["source_code/version_unknown"]


def test_no_module_is_asked_for_attributes_that_run_code(scripts):
    code = """
    import sys, types
    class Odd(types.ModuleType):
        def __getattribute__(self, name):
            print("asked for", name)
            raise RuntimeError(name)
    sys.modules["odd"] = Odd("odd")
    sys.modules["none"] = None
    sys.modules["number"] = 3
    """
    ended = scripts.run(code + WHOLE)
    assert (ended.code, ended.stdout) == (0, "")
    assert version_of(scripts)
