from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from journals import Kind, journals

import seamark


@pytest.fixture(autouse=True)
def _captured(captured: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Record what is recorded by default, and let git take its time on a busy machine."""
    monkeypatch.setattr("seamark.capture.code.code.TIMEOUT_S", 60.0)


@dataclass
class Recorded:
    """What the journals of one run hold, read frame by frame: no store stands in between."""

    states: list[dict] = field(default_factory=list)
    atoms: dict[str, object] = field(default_factory=dict)
    assigned: list[str] = field(default_factory=list)
    journals: int = 0

    def one(self, ending: str) -> object:
        (value,) = (value for path, value in self.atoms.items() if path.endswith(ending))
        return value

    def below(self, prefix: str) -> dict[str, object]:
        return {path: value for path, value in self.atoms.items() if path.startswith(prefix)}


@dataclass
class Ended:
    """How a script ended; ``stderr`` without the lines that tell where the run is."""

    code: int
    stdout: str
    stderr: str


def read_journals(root: Path) -> list[Recorded]:
    found = []
    for folder in root.glob("*/[!.]*/journal"):
        found.append(recorded := Recorded())
        ops = []
        for journal in journals(folder.parent):
            recorded.journals += 1
            ops += [(frame.t, frame.record) for frame in journal.frames if frame.kind == Kind.OP]
        for _, op in sorted(ops, key=lambda one: one[0]):  # names of journals have no order
            if op["op"] == "state":
                recorded.states.append(op)
            elif op["op"] == "assign":
                for path, (kind, value) in op["atoms"].items():
                    recorded.assigned.append(path)
                    recorded.atoms[path] = json.loads(value) if kind == "json" else value
    return found


class Scripts:
    """Runs scripts as a person would: as processes of their own, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / ".seamark"

    def write(self, code: str, name: str = "script.py") -> Path:
        path = self.folder / name
        path.write_text(textwrap.dedent(code), encoding="utf-8")
        return path

    def run(self, code: str, *arguments: str, env: dict[str, str] | None = None) -> Ended:
        return self.start([sys.executable, self.write(code).name, *arguments], env)

    def start(self, command: list[str], env: dict[str, str] | None = None) -> Ended:
        given = {"cwd": self.folder, "env": {**os.environ, **(env or {})}, "timeout": 240}
        done = subprocess.run(command, capture_output=True, text=True, check=False, **given)
        lines = done.stderr.splitlines(keepends=True)
        others = "".join(line for line in lines if not line.startswith("seamark: "))
        return Ended(done.returncode, done.stdout, others)

    def recorded(self) -> Recorded:
        (only,) = self.all_recorded()
        return only

    def reopened(self) -> seamark.Run:
        (folder,) = (self.root / "default").glob("[!.]*")
        return seamark.init_run(with_id=folder.name, root=self.root, mode="read-only")

    def all_recorded(self) -> list[Recorded]:
        return read_journals(self.root)


@pytest.fixture
def scripts(tmp_path: Path) -> Scripts:
    return Scripts(tmp_path)
