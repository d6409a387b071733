"""Fresh processes, contestants in turn, several rounds; medians, ratios, and a page of them.

A *row* of the design's targets is measured by a function in ``rows/`` that yields `Result`
objects. What is timed runs in a script in ``children/``: a process and a folder of its own each
time, whose last printed line is one JSON object.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["TRACKIO_PYTHON", "Bench", "Result", "Sample", "child", "middle", "page", "spread"]

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "src"
TRACKIO_PYTHON = os.environ.get("TRACKIO_PYTHON", "")
"""A Python that has Trackio installed, of which the page is measured beside ours."""

Sample = dict[str, Any]
"""What one child printed: figures by name."""


@dataclass
class Result:
    """One row of the targets, measured.

    Attributes:
        key: Short name, by which results are kept.
        what: The row, in words.
        target: What the design asks for.
        measured: What came out, in the target's terms.
        met: Whether that is within the target.
        columns: Head of the table with the contestants; empty if there is none.
        table: Its rows.
        note: How it was measured, where that needs a word.
        rounds: How often every contestant ran.
        load: Load average (one minute) before and after.
    """

    key: str
    what: str
    target: str
    measured: str
    met: bool
    columns: list[str] = field(default_factory=list)
    table: list[list[str]] = field(default_factory=list)
    note: str = ""
    rounds: int = 1
    load: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Bench:
    """How much to measure.

    Attributes:
        rounds: Rounds of every comparison.
        scale: Factor on the number of calls, points and runs; 1 is what the targets speak of.
    """

    rounds: int = 5
    scale: float = 1.0

    def count(self, full: int) -> int:
        """Return how many to do instead of ``full``."""
        return max(1, round(full * self.scale))

    @property
    def peer_rounds(self) -> int:
        """Rounds of peers that take seconds a call."""
        return min(2, self.rounds)

    def interleaved(
        self,
        contestants: Mapping[str, Callable[[], Sample]],
        rounds: int | None = None,
        *,
        peers: Mapping[str, Callable[[], Sample]] | None = None,
    ) -> dict[str, list[Sample]]:
        """Run every contestant once a round, each round starting with another one.

        A machine that is slower for a while is then slower for all of them. Peers run afterwards,
        fewer rounds.
        """
        names = list(contestants)
        taken: dict[str, list[Sample]] = {name: [] for name in names}
        for turn in range(rounds or self.rounds):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                taken[name].append(contestants[name]())
        return taken | self.interleaved(peers, self.peer_rounds) if peers else taken


def environment(folder: str) -> dict[str, str]:
    """Return an environment without settings of ours, with a cache of its own.

    Compiled bytecode is kept beside, so that imports cost what they cost a user.
    """
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("SEAMARK_", "NEPTUNE_")) and key != "PYTHONDONTWRITEBYTECODE"
    }
    path = os.pathsep.join(filter(None, [str(HERE), str(SOURCE), kept.get("PYTHONPATH")]))
    bytecode = Path(tempfile.gettempdir()) / f"seamark-bench-bytecode-{os.getuid()}"
    return kept | {
        "PYTHONPATH": path,
        "PYTHONPYCACHEPREFIX": str(bytecode),
        "XDG_CACHE_HOME": folder,
        "HOME": folder,  # no root is looked for above it
        "PYTHONWARNINGS": "ignore",
    }


def child(
    script: str,
    *arguments: object,
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
    python: str = sys.executable,
) -> Sample:
    """Run a script of ``children/`` in a fresh process and return the figures it printed.

    Args:
        script: File name.
        *arguments: Its arguments.
        folder: Where it runs; a new folder that is removed afterwards if left out.
        env: Further variables of its environment.
        python: Which interpreter runs it.
    """
    with tempfile.TemporaryDirectory(prefix="seamark-bench-") as new:
        where = str(folder or new)
        command = [python, str(HERE / "children" / script), *map(str, arguments)]
        done = subprocess.run(
            command,
            cwd=where,
            env={**environment(where), **(env or {})},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        msg = f"{script} {arguments} ended with {done.returncode}:\n{done.stderr[-4000:]}"
        raise RuntimeError(msg)
    sample: Sample = json.loads(done.stdout.splitlines()[-1])
    return sample


def middle(samples: Sequence[Sample], name: str) -> float:
    """Return the median of a figure."""
    return statistics.median(sample[name] for sample in samples)


def spread(samples: Sequence[Sample], name: str, form: str = ".2f") -> str:
    """Return a figure as ``median [min..max]`` over the rounds."""
    values = [sample[name] for sample in samples]
    low, high = min(values), max(values)
    return f"{statistics.median(values):{form}} [{low:{form}}..{high:{form}}]"


# ---------------------------------------------------------------- results and the page


def keep(results: Sequence[Result], path: Path, facts: Mapping[str, str]) -> None:
    """Add results to those in a file, replacing earlier ones of the same row."""
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    rows = kept.get("rows", {}) | {one.key: asdict(one) for one in results}
    kept = {"facts": dict(facts), "rows": rows}
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def section(row: Mapping[str, Any]) -> str:
    """Return one row's own section of the page."""
    low, high = sorted(row["load"])
    parts = [f"## {row['what']}"]
    if row["columns"]:
        parts.append(_table(row["columns"], row["table"]))
    verdict = "met" if row["met"] else "**missed**"
    parts.append(f"Target: {row['target']}. Measured: {row['measured']}; {verdict}.")
    parts.append(f"{row['note']} Rounds: {row['rounds']}; load average {low:.1f} to {high:.1f}.")
    return "\n\n".join(parts).replace("\n\n ", "\n\n")


def page(kept: Mapping[str, Any], order: Sequence[str]) -> str:
    """Return ``docs/benchmarks.md``."""
    rows = sorted(kept["rows"].values(), key=lambda row: order.index(row["key"]))
    facts = "\n".join(f"- {name}: {value}" for name, value in kept["facts"].items())
    summary = _table(
        ["what", "target", "measured", "met"],
        [[r["what"], r["target"], r["measured"], "yes" if r["met"] else "**no**"] for r in rows],
    )
    return PAGE.format(facts=facts, summary=summary, rows="\n\n".join(map(section, rows)))


PAGE = """\
<!-- Written by `python benchmarks/run.py --page`; edit benchmarks/, not this page. -->
# Benchmarks

The targets of the [design](explanation/design.md), measured by `nox -s bench` (which runs
`python benchmarks/run.py`, and takes names of rows). Every figure is the median over several
rounds. In each round every contestant runs once, in a fresh process, in a rotating order; what
writes does so into an empty folder, and what reads says what it found there. CPU is that of the
process and of the children it waited for, in user and kernel mode. Ratios are between medians. The
machine was shared with other work, as the load averages say, so that the ratios tell more than the
times.

{facts}

{summary}

{rows}
"""
