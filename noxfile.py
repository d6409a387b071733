"""Every check and chore of this repository, shown by ``nox --list``; see CONTRIBUTING.md.

Sessions without a Python in their name use the interpreter that runs nox. Nothing is skipped
because an interpreter is missing: ``core-3.12`` fails where there is no Python 3.12, and is not
among the default sessions.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_external_run = True
nox.options.error_on_missing_interpreters = True
nox.options.sessions = ["lint", "tests", "typing"]

ROOT = Path(__file__).parent
PYTHONS = nox.project.python_versions(nox.project.load_toml("pyproject.toml"))
ERAS = ["oldest", "latest"]


def tell_uv_what_pip_knows() -> None:
    """Give uv the settings of pip that say where packages are, and both a CPU build of torch.

    What the environment says already stays. Where pip has no ``find-links``, which may hold a build
    of torch, PyTorch's CPU index is asked; the build on PyPI is several gigabytes of CUDA.
    """
    asked = [sys.executable, "-m", "pip", "config", "list"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout  # noqa: S603
    known = dict(re.findall(r"^(?:global|install|:env:)\.([a-z-]+)='(.*)'$", said, re.MULTILINE))
    twins = {
        "find-links": "UV_FIND_LINKS",
        "index-url": "UV_DEFAULT_INDEX",
        "cert": "SSL_CERT_FILE",
    }
    for setting in twins.keys() & known.keys():
        os.environ.setdefault(twins[setting], ",".join(known[setting].split()))
    if "find-links" not in known:
        os.environ.setdefault("UV_TORCH_BACKEND", "cpu")
        os.environ.setdefault("PIP_EXTRA_INDEX_URL", "https://download.pytorch.org/whl/cpu")


tell_uv_what_pip_knows()
# For sessions that start many processes that import torch. pip compiles what it installs, uv only
# when told.
COMPILED = {"UV_COMPILE_BYTECODE": "1"}


def build_wheel(session: nox.Session) -> str:
    """Build the wheel into the session's own folder and return its path."""
    folder = Path(session.create_tmp()) / "dist"
    for old in folder.glob("*.whl"):
        old.unlink()
    session.install("build")
    session.run("python", "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT), silent=True)
    (wheel,) = folder.glob("*.whl")
    return str(wheel)


def run_pytest(session: nox.Session, *args: str, **env: str) -> None:
    """Run pytest in two processes, with what stood after ``--``; every skip is named at the end."""
    # Torch in one process would otherwise take the cores from the other.
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    options = ["--numprocesses=2", "--dist=worksteal", "-rfEs"]
    session.run("pytest", *options, *args, *session.posargs, env=one | env)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, formatting and the changelog fragments."""
    session.install("--group", "lint", "--group", "changelog")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("towncrier", "build", "--draft", "--version", "next", silent=True)


@nox.session
@nox.parametrize("extras", ["none", "all"], ids=["none", "all"])
def tests(session: nox.Session, extras: str) -> None:
    """Run the suite on the installed package: without any extra, then with all extras and hosts."""
    if extras == "none":
        session.install(".", "--group", "test")
        run_pytest(session)
    else:
        session.install(".[all]", "--group", "hosts", env=COMPILED)
        run_pytest(session, SEAMARK_REQUIRE="extras")


@nox.session(python=PYTHONS)
def core(session: nox.Session) -> None:
    """Run the torch-free suite on one Python, which must be there."""
    session.install(".", "--group", "test")
    run_pytest(session)


@nox.session
def typing(session: nox.Session) -> None:
    """Check the types of the package, strictly."""
    session.install(".[all]", "--group", "typing")
    session.run("mypy")


@nox.session
@nox.parametrize("checker", ["mypy", "pyright"], ids=["mypy", "pyright"])
def typing_api(session: nox.Session, checker: str) -> None:
    """Check the public names as a user's type checker sees them in the installed package."""
    session.install(".[all]", "--group", "typing")
    options = (
        ["--strict"] if checker == "mypy" else ["--pythonpath", session.virtualenv.bin + "/python"]
    )
    session.run(checker, *options, "tests/typing/api.py")


@nox.session
@nox.parametrize("era", ERAS, ids=ERAS)
@nox.parametrize("host", ["ignite", "lightning"], ids=["ignite", "lightning"])
def integration(session: nox.Session, host: str, era: str) -> None:
    """Prove the built wheel against one host; a missing host or another version of it fails."""
    project = f"integrations/{host}"
    wheel = build_wheel(session)
    session.install(wheel, "--group", f"{project}/pyproject.toml:{era}", env=COMPILED)
    run_pytest(session, project, SEAMARK_REQUIRE=f"{host}:{era}")


@nox.session
def example(session: nox.Session) -> None:
    """Train the examples on the embedded default, then show what was recorded."""
    session.install(".[ignite,lightning,pandas,image]", "--group", "example")
    session.run("python", "examples/lightning_digits.py")
    session.run("seamark", "ls", "--project", "digits")
    session.run("seamark", "show", "latest")
    session.run("seamark", "plot", "latest", "training/val/loss")
    session.run("python", "examples/ignite_digits.py")
    session.run("seamark", "ls", "--project", "digits")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documents; a warning or a reference to nowhere fails."""
    session.install(".[all]", "--group", "docs")
    for builder in ["html", "doctest"]:
        strict = ["--nitpicky", "--fail-on-warning", "--keep-going", "--quiet", "--fresh-env"]
        session.run("sphinx-build", *strict, "-b", builder, "docs", f"docs/_build/{builder}")


@nox.session
def bench(session: nox.Session) -> None:
    """Measure the targets of the design, beside peers; docs/benchmarks.md keeps the table."""
    session.install(".[all]", "--group", "bench")
    session.run("python", "benchmarks/run.py", *session.posargs)


@nox.session
def kill(session: nox.Session) -> None:
    """Kill a writer 1,000 times at random moments (on demand; the suite does a few)."""
    session.install(".", "--group", "test")
    run_pytest(session, "tests/faults", "-k", "sigkill", SEAMARK_KILLS="1000")


@nox.session
def build(session: nox.Session) -> None:
    """Build the sdist and the wheel into dist/."""
    session.install("build")
    session.run("python", "-m", "build", "--outdir", "dist")


@nox.session
def changelog(session: nox.Session) -> None:
    """Turn the fragments into a release's notes: ``nox -s changelog -- 0.1.0``."""
    session.install("--group", "changelog")
    session.run("towncrier", "build", "--yes", "--version", *session.posargs)
