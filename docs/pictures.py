"""Make the pictures of the documents anew: what real commands print, and what a profiler draws.

    python docs/pictures.py

Trains the examples a few times, in a temporary folder (about two minutes), and writes
``docs/pictures/*.svg`` and ``*.png``. Needs what the examples need, and the extra ``plot``.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
TRAININGS = (
    "lightning_digits.py --name tiny-steps --lr 0.0003",
    "lightning_digits.py --name baseline --lr 0.003",
    "lightning_digits.py --name quick --lr 0.01",
    "lightning_digits.py --name quicker --lr 0.03",
    "ignite_digits.py --name ignite",
)
TERMINALS = {
    "ls": ("seamark ls --sort training/val/loss:min",),
    "show": ("seamark show quick",),
    "plot": ("seamark plot quick baseline tiny-steps training/val/loss",),
    "compare": ("seamark compare quick tiny-steps",),
}
"""What each picture of a terminal shows, one command below the other."""
CELLS = 100
THEME = TerminalTheme(
    (24, 26, 31),
    (220, 223, 228),
    [
        (40, 44, 52),
        (224, 108, 117),
        (152, 195, 121),
        (229, 192, 123),
        (97, 175, 239),
        (198, 120, 221),
        (86, 182, 194),
        (220, 223, 228),
    ],
)
# Rich's own frame asks a web server for its font; a picture in a document asks nobody.
FRAME = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="-12 -10 {terminal_width} {terminal_height}">
<style>
.{unique_id}-matrix {{ font-family: "Fira Code", "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
<rect x="-12" y="-10" width="100%" height="100%" rx="8" fill="rgb(24,26,31)"/>
<g clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def on_terminal(words: list[str], folder: Path) -> str:
    """Run a program that writes to a terminal; return what it wrote, colours included."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, CELLS, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    # Of its own: neither a root above the folder nor the settings of who draws may show up.
    env = {name: value for name, value in env.items() if not name.startswith("SEAMARK_")}
    env |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "HOME": str(folder)}
    env |= {"SEAMARK_DIR": str(folder / ".seamark"), "XDG_CACHE_HOME": str(folder / "cache")}
    streams = {"stdin": subprocess.DEVNULL, "stdout": its, "stderr": its}
    with subprocess.Popen(words, env=env, cwd=folder, **streams) as process:  # noqa: S603 - ours
        os.close(its)
        printed = b""
        with suppress(OSError):  # how Linux says that the last writer has gone
            while part := os.read(ours, 1 << 16):
                printed += part
        os.close(ours)
    text = printed.decode().replace("\r\n", "\n")
    if process.returncode:
        sys.exit(f"{shlex.join(words)} ended with {process.returncode}:\n{text}")
    text = text.replace(str(folder.resolve()), "/home/you/digits")
    return re.sub(r"\x1b\[\?25[hl]|[^\n]*(\r|\n\r\x1b\[1A)\x1b\[2K", "", text)


def terminal_picture(commands: tuple[str, ...], folder: Path) -> str:
    """Return an SVG of a terminal in which these commands were typed."""
    console = Console(
        width=CELLS, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    for command in commands:
        printed = on_terminal([sys.executable, "-m", *shlex.split(command)], folder)
        console.print(Text.assemble(("$ ", "dim"), (command, "bold")))
        console.print(Text.from_ansi(printed.rstrip()), soft_wrap=True)
    picture = console.export_svg(theme=THEME, code_format=FRAME, unique_id="terminal")

    def wider(found: re.Match[str]) -> str:
        return f'viewBox="-12 -10 {float(found[1]) + 24:g} {float(found[2]) + 20:g}"'

    return re.sub(r'viewBox="-12 -10 (\S+) (\S+)"', wider, picture)


def main() -> None:
    """Train, then draw."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for example in (ROOT / "examples").glob("*.py"):
            shutil.copy(example, folder)
        for training in TRAININGS:
            on_terminal([sys.executable, *shlex.split(training)], folder)
        for name, commands in TERMINALS.items():
            picture = terminal_picture(commands, folder)
            (PICTURES / f"{name}.svg").write_text(picture, encoding="utf-8")
        code = (
            "import seamark; project = seamark.init_project('digits');"
            "row = project.fetch_runs_table(query='sys/name = \"ignite\"').to_rows()[0];"
            "run = seamark.init_run('digits', with_id=row['sys/id'], mode='read-only');"
            f"run['profiling/handlers/picture'].download({str(PICTURES / 'profiler.png')!r})"
        )
        on_terminal([sys.executable, "-c", code], folder)


if __name__ == "__main__":
    main()
