"""What a run says of its machine, in words: in ``show``, ``watch``, ``plot`` and ``ls``."""

from __future__ import annotations

import re

import pytest

FACTS = {
    "cpu": "AMD EPYC 7763 64-Core Processor",
    "cpu_count": 128,
    "cpu_usable": 16.0,
    "memory": 503.5,
    "memory_limit": 64.0,
    "gpu": "NVIDIA H100 80GB HBM3",
    "gpu_count": 2,
    "gpu_memory": 80.0,
}
ROWS = [
    {"cpu": 20.0, "memory": 8.0, "gpu_0": 10.0, "gpu_1": 90.0, "gpu_memory_0": 9.0},
    {"cpu": 70.0, "memory": 12.5, "gpu_0": 30.0, "gpu_1": 94.0, "gpu_memory_0": 40.0},
]


def put(run, facts, rows):
    """Record what hardware metrics would be."""
    run["loss"].append(1.0)
    space = f"monitoring/{run.writer}"
    for name, value in facts.items():
        run[f"{space}/environment/{name}"] = value
    for row in rows:
        run.log_metrics({f"{space}/{name}": value for name, value in row.items()})


def lines_of(text):
    """Return the facts that ``show`` begins with, by label."""
    return dict(line.split(maxsplit=1) for line in text.splitlines() if " " in line.strip())


def test_show_has_a_line_for_the_machine_and_one_for_its_load(start, record, cli):
    run = start()
    put(run, FACTS, ROWS)
    run.stop()
    lines = lines_of(cli("show", run.id).output)
    assert lines["machine"] == (
        "16 of 128 CPUs (AMD EPYC 7763 64-Core Processor), 64 of 504 GiB, "
        "2 \N{MULTIPLICATION SIGN} NVIDIA H100 80GB HBM3"
    )
    assert lines["load"] == (
        "CPU 45 % on average, memory up to 12.5 of 64 GiB, 2 GPUs 20 to 92 % on average, "
        "up to 40 of 80 GiB"
    )
    assert "monitoring" not in cli("ls").output
    assert not {"machine", "load"} & set(lines_of(cli("show", record()).output))


def test_measurements_have_their_unit_and_few_digits(start, cli):
    run = start()
    rows = [{"cpu": 41.2345678, "memory": 2.1157875061035156, "gpu_power_0": 300.123456}]
    put(run, {"memory": 15.512345, "cpu_count": 8}, rows * 3)
    single = f"monitoring/{run.writer}/memory"
    run.stop()
    found = cli("show", run.id, "monitoring").stdout
    for line in (
        r"/cpu +41.23 +41.23 +41.23 +% ",
        r"/memory +2.116 +2.116 +2.116 +GiB ",
        r"/gpu_power_0 +300.1 +300.1 +300.1 +W ",
        r"environment/memory +15\.51 GiB$",
        r"environment/cpu_count +8$",
    ):
        assert re.search(line, found, re.MULTILINE), line
    assert "2.116 GiB" in cli("show", run.id, single).stdout
    assert "2.1157875061035156" in cli("show", run.id, "monitoring", "--json").stdout
    both = cli("plot", run.id, "monitoring/*/memory", "monitoring/*/cpu").stdout
    assert "/memory (GiB)" in both
    assert "/cpu (%)" in both


@pytest.mark.once
def test_watch_shows_the_current_load_while_the_run_is_live(start, screen, between):
    run = start(name="live")
    put(run, FACTS, ROWS)
    now = "CPU 70 %, memory 12.5 of 64 GiB, 2 GPUs 30 to 94 %, 40 of 80 GiB"
    between(run.stop)
    before, _, after = screen("watch", "live", columns=80).rpartition("completed")
    assert now in before
    assert now not in after
