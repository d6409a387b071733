"""The README and the documents say what is so: their code runs, and they leave no public name out.

How the blocks of one page are run, in order and in one empty folder:

- ``python`` blocks share one namespace. One whose first line is a comment with a file name (``#
  train.py``) is written into that file instead, and so is such a ``yaml`` block. A ``text`` block
  directly below a ``python`` block is what it prints.
- ``console`` blocks hold commands (after ``$``) and what they print. ``seamark`` and ``python`` are
  those of the tests.
- ``<!-- run: FILE -->`` runs that file of this repository in the same namespace. Readers do not see
  it: it makes what a short fragment needs, such as a model, or looks at what it recorded.
- Blocks of other languages are not run; ``py`` is for fragments of Python that are no program.

Commands write to a terminal 100 cells wide. Printed text is compared without regard to white space,
``...`` stands for anything, and run ids, generated names, times, host names and what leads to
``.seamark`` are all alike. Below ``<!-- numbers vary -->`` all numbers and curves are alike too.
"""

from __future__ import annotations

import contextlib
import doctest
import fcntl
import importlib.util
import inspect
import io
import os
import pty
import re
import shlex
import socket
import struct
import subprocess
import sys
import termios
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from recording import QUIET

import seamark
from seamark.journal.format import Kind
from seamark.options import run_options
from seamark.options.config import VARIABLES
from seamark.reading import names

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "seamark"
PAGES = sorted(
    path.relative_to(ROOT)
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if "_build" not in path.parts
)
FIRST_READ = {"README.md", "docs/index.md", "docs/tutorial.md"}  # the quick suite runs these
FENCE = re.compile(
    r"(?P<vary><!-- numbers vary -->\n+)?^```(?P<language>\w+)\n(?P<body>.*?)^```$"
    r"|^<!-- run: (?P<file>\S+) -->$",
    re.MULTILINE | re.DOTALL,
)
HOSTS = re.compile(
    r"\b(torch|accelerate|ignite|lightning|pytorch_lightning|pandas|sklearn|matplotlib|plotly|PIL)\b"
)
GENERATED = re.compile(r"\b({})-({})\b".format(*("|".join(words) for words in names._word_lists())))
ALIKE = (
    (re.compile(rf"(?<![a-z0-9]){re.escape(socket.gethostname())}(?![a-z0-9])"), "HOST"),
    (re.compile(r"(/[^\s/]+)+/(?=\.seamark\b)"), ""),
    (re.compile(r"\b[0-9a-v]{16}\b"), "RUN"),
    (GENERATED, "NAME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?(Z|[+-]\d\d:\d\d)?"), "TIME"),
    (re.compile(r"\bjust now\b|\b\d+(\.\d+)? ?(ns|µs|ms|s|min|h|d)\b( ago)?"), "TIME"),
)


class Block(NamedTuple):
    language: str
    body: str
    vary: bool
    line: int
    below: str  # language of the block directly above, with nothing but white space between


def blocks_of(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    found, end, above = [], 0, ""
    for match in FENCE.finditer(text):
        below = above if not text[end : match.start()].strip() else ""
        end, above = match.end(), match["language"] or ""
        if match["file"]:
            body = (ROOT / match["file"]).read_text(encoding="utf-8")
            found.append(Block("python", body, vary=False, line=0, below=""))
            continue
        line = text.count("\n", 0, match.start("language")) + 1
        found.append(Block(match["language"], match["body"], bool(match["vary"]), line, below))
    return found


def alike(text, *, vary):
    for pattern, word in ALIKE:
        text = pattern.sub(word, text)
    if vary:
        text = re.sub(r"[\u2500-\u257f\u2581-\u2588\u2800-\u28ff]+", " ", text)  # frames and curves
        text = re.sub(r"-?\d+(\.\d+)?(e[+-]\d+)?", "0", text)
        text = re.sub(r"0(\s+0)+(?!\S)", "0", text)
    return text


def assert_printed(got, block, wanted, where):
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    got, wanted = (alike(text.strip() + "\n", vary=block.vary) for text in (got, wanted))
    if not doctest.OutputChecker().check_output(wanted, got, options):
        pytest.fail(f"{where}\n--- the page says\n{wanted}\n--- printed was\n{got}", pytrace=False)


def commands_of(body):
    parts = re.split(r"^\$ ((?:.*\\\n)*.*)\n?", body, flags=re.MULTILINE)
    assert not parts[0].strip(), f"output without a command: {parts[0]!r}"
    return list(
        zip((command.replace("\\\n", " ") for command in parts[1::2]), parts[2::2], strict=True)
    )


def run_command(command):
    """Run one line of a console block on a terminal and return what it prints; an error fails."""
    program, *arguments = shlex.split(command)
    programs = {"seamark": [sys.executable, "-m", "seamark"], "python": [sys.executable]}
    assert program in programs, f"a page cannot run {program!r}: use another language"
    arguments = [str(ROOT / word) if word.startswith("examples/") else word for word in arguments]
    code, printed = on_terminal([*programs[program], *arguments])
    assert code == 0, f"{command} ended with {code}:\n{printed}"
    return printed


def on_terminal(words):
    """Run a program that writes to a terminal 100 cells wide; return its exit code and the text."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    env["SEAMARK_CAPTURE_GIT"] = "0"  # of this repository, in whatever state it is
    streams = {"stdin": subprocess.DEVNULL, "stdout": its, "stderr": its}
    with subprocess.Popen(words, env=env, **streams) as process:
        os.close(its)
        printed = b""
        with contextlib.suppress(OSError):  # how Linux tells that the last writer has gone
            while part := os.read(ours, 1 << 16):
                printed += part
        os.close(ours)
    text = printed.decode("utf-8", "replace").replace("\r\n", "\n")
    text = re.sub(r"\x1b\[\?25[hl]", "", text)  # the cursor
    text = re.sub(r"[^\n]*(\r|\n\r\x1b\[1A)\x1b\[2K", "", text)  # what was erased
    return process.returncode, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


@pytest.mark.usefixtures("captured")
@pytest.mark.once
@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=() if str(p) in FIRST_READ else pytest.mark.slow) for p in PAGES],
    ids=str,
)
def test_page_does_what_it_says(page):
    run = {"python", "console", "text", "yaml"}
    blocks = [block for block in blocks_of(page) if block.language in run]
    for name in sorted(
        {name for block in blocks for name in HOSTS.findall(block.body) if block.language != "text"}
    ):
        pytest.importorskip(name)
    namespace: dict[str, Any] = {"__name__": page.stem}
    printed = ""
    for block in blocks:
        where = f"{page}:{block.line}"
        if block.language == "console":
            for command, wanted in commands_of(block.body):
                assert_printed(run_command(command), block, wanted, f"{where}: {command}")
        elif block.language == "text" and block.below == "python":
            assert_printed(printed, block, block.body, where)
        elif name := re.match(r"# (\w+\.(?:py|yaml))\n", block.body):
            Path(name[1]).write_text(block.body, encoding="utf-8")
        elif block.language == "python":
            # Not a StringIO: what is printed to one is not recorded, as nobody sees it.
            output = io.TextIOWrapper(buffer := io.BytesIO(), encoding="utf-8", write_through=True)
            with contextlib.redirect_stdout(output):
                exec(compile("\n" * block.line + block.body, str(page), "exec"), namespace)
            printed = buffer.getvalue().decode("utf-8")


def test_ci_runs_the_test_command_of_the_readme():
    readme = (ROOT / "README.md").read_text("utf-8")
    commands = re.findall(r"^```sh\n(python3 -m venv .*-s tests)\n```$", readme, re.MULTILINE)
    assert len(commands) == 1
    assert commands[0] in (ROOT / ".ci" / "run").read_text("utf-8")


def test_every_environment_variable_is_documented():
    pattern = re.compile(r"\bSEAMARK_[A-Z][A-Z_]*[A-Z]\b")
    read = {
        name for path in SOURCE.rglob("*.py") for name in pattern.findall(path.read_text("utf-8"))
    }
    read |= {f"SEAMARK_{variable}" for variable in VARIABLES}
    page = (ROOT / "docs" / "reference" / "environment.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(SEAMARK_\w+)`", page, re.MULTILINE)) == read


def generator(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_references_are_what_options_and_commands_say():
    for name, text in generator("options_reference").pages().items():
        page = (ROOT / "docs" / "reference" / name).read_text("utf-8")
        assert page == text, "out of date: python docs/options_reference.py"
    page = (ROOT / "docs" / "reference" / "cli.md").read_text("utf-8")
    made = generator("cli_reference").page()
    assert page == made, "out of date: python docs/cli_reference.py > docs/reference/cli.md"


def test_every_record_is_documented():
    page = (ROOT / "docs" / "reference" / "journal.md").read_text("utf-8")
    sources = [path.read_text("utf-8") for path in SOURCE.rglob("*.py")]
    ops = {op for source in sources for op in re.findall(r'"op": "(\w+)"', source)}
    assert ops
    assert not [kind.name for kind in Kind if kind.name not in page]
    assert not [op for op in sorted(ops) if f"`{op}`" not in page]


def test_the_page_is_made_from_the_kept_results():
    code = "import run; print(run.page_now(), end='')"
    made = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT / "benchmarks",
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={"PYTHONIOENCODING": "utf-8", "PATH": ""},
        check=True,
    )
    assert made.stdout == (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


HOWTO = ROOT / "docs" / "howto"
RUN = re.compile(r"^```(?:python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`]+)`")
CALL = re.compile(r"([A-Za-z_][\w.]*)(?:\((.*)\))?\Z", re.DOTALL)
STATEMENT = re.compile(r"(?!seamark\.[\w.]+\Z)[a-z_]+(\.[a-z]|\[)(?!.*…)")
"""A call or an assignment, without a gap; no argument alone, and no command."""

NAMES = Path(__file__).parent / "data" / "counterparts.txt"
"""Names with the arguments that they take, as in the documents of each program: functions, and then
each class (with a colon; or a module or an enumeration, with a point) and its members."""
KNOWN = dict(
    re.findall(r"^== (\S+)\n(.*?)(?=^== |\Z)", NAMES.read_text("utf-8"), re.MULTILINE | re.DOTALL)
)


def rows_of(page):
    for line in (HOWTO / f"{page}.md").read_text("utf-8").splitlines():
        cells = re.split(r"(?<!\\)\|", line)
        if line.startswith("| ") and len(cells) == 4:
            yield cells[1].strip(), cells[2].strip()


def full_names(listing):
    """Yield the names in a list as above, members with that of their class."""
    owner = ""
    for word in listing.split():
        if word.endswith("."):
            owner = word
        elif word.endswith(":"):
            yield word.removesuffix(":")
            owner = word.partition("(")[0].removesuffix(":") + "."
        else:
            yield owner + word


def names_in(words):
    found = set()
    for word in words:
        if (match := CALL.match(word)) is None:
            continue
        name, given = match[1], match[2]
        found.add(name)
        for each in filter(None, (given or "").split(",")):
            found.add(f"{name}:{each.partition('=')[0].strip(' *…')}")
    return found


def plain(code):
    return re.sub(r",(?=[)\]}])", "", re.sub(r"\s+", "", code)).replace("'", '"')


@pytest.mark.parametrize("page", KNOWN)
def test_every_name_has_a_line_of_code_that_is_run(page):
    """The page names every name and argument; its tables have code of its programs, which run."""
    named = names_in(code for left, right in rows_of(page) if right for code in CODE.findall(left))
    assert sorted(names_in(full_names(KNOWN[page])) - named) == []
    run = plain("".join(RUN.findall((HOWTO / f"{page}.md").read_text("utf-8"))))
    lines = [code for _, right in rows_of(page) for code in CODE.findall(right)]
    code = [line for line in lines if STATEMENT.match(line)]
    assert code
    assert [line for line in code if plain(line) not in run] == []


def test_names_of_other_programs_are_errors_that_name_ours(tmp_path):
    """Methods, functions and arguments; the names in the messages exist."""
    run = seamark.init_run("p", name="given", root=tmp_path / "root", **QUIET)
    run.stop()
    for name, words in run_options.VERBS.items():
        with pytest.raises(AttributeError, match=re.escape(words)):
            getattr(run, name)
    for name, words in run_options.FUNCTIONS.items():
        with pytest.raises(AttributeError, match=re.escape(words)):
            getattr(seamark, name)
    verbs = [partial(seamark.init_run, "p", root=tmp_path), seamark.init_project]
    for name, ours in run_options.ARGUMENTS.items():
        known = [(verb, inspect.signature(verb).parameters) for verb in verbs]
        having = [verb for verb, names in known if ours in names and name not in names]
        assert having, ours
        for verb in having:
            with pytest.raises(TypeError, match=rf"{name!r}; did you mean {ours!r}\?"):
                verb(**{name: "x"})
    said = " ".join([*run_options.VERBS.values(), *run_options.FUNCTIONS.values()])
    for owner, name in re.findall(r"\b(seamark|run|project)\.(\w+)", said):
        home = {"seamark": seamark, "run": seamark.Run, "project": seamark.Project}[owner]
        assert hasattr(home, name), (owner, name)
