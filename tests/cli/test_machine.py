"""What a run says of its machine, in words: in ``show``, ``watch``, ``plot`` and ``ls``."""

from __future__ import annotations

import math
import re

import pytest

from seamark.reading.attributes import Attribute, SeriesSummary
from seamark.reading.facts import machine_lines, machine_now
from seamark.reading.ranks import RankStatus

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
    refused = cli("plot", run.id).output
    assert refused.index("loss") < refused.index("monitoring")
    drawn = cli("plot", run.id, "monitoring/*/cpu")
    assert drawn.exit_code == 0
    assert "80" in drawn.output or "70" in drawn.output
    run = start()
    facts = {"cpu": "A CPU", "cpu_count": 8, "cpu_usable": 8.0, "memory": 15.5}
    put(run, facts, [{"cpu": 100.0, "memory": 3.0, "process_memory": 2.0}])
    run.stop()
    lines = lines_of(cli("show", run.id).output)
    assert lines["machine"] == "8 CPUs (A CPU), 15.5 GiB"
    assert lines["load"] == "CPU 100 % on average, memory up to 3 of 15.5 GiB"
    assert not {"machine", "load"} & set(lines_of(cli("show", record()).output))


@pytest.mark.once
def test_watch_shows_the_current_load_while_the_run_is_live(start, screen, between):
    run = start(name="live")
    put(run, FACTS, ROWS)
    now = "CPU 70 %, memory 12.5 of 64 GiB, 2 GPUs 30 to 94 %, 40 of 80 GiB"
    between(run.stop)
    before, _, after = screen("watch", "live", columns=80).rpartition("completed")
    assert now in before
    assert now not in after


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
    drawn = cli("plot", run.id, "monitoring/*/memory").stdout
    assert drawn.splitlines()[0].strip() == "GiB"
    assert re.search(r"\d\d:\d\d", drawn)
    assert not re.search(r"\d\d:\d\d", cli("plot", run.id, single, "-x", "step").stdout)
    both = cli("plot", run.id, "monitoring/*/memory", "monitoring/*/cpu").stdout
    assert "/memory (GiB)" in both
    assert "/cpu (%)" in both


def summary(values):
    low, high = min(values), max(values)
    mean = sum(values) / len(values)
    return SeriesSummary(values[-1], low, high, mean, len(values), 0, 0, 0.0, len(values) - 1.0)


def attributes_of(facts, rows, writer="w"):
    """Yield what a run would hold, as readers return it."""
    for name, value in facts.items():
        yield Attribute(f"monitoring/{writer}/environment/{name}", "atom", "float", value)
    for name in rows[0] if rows else ():
        values = [row[name] for row in rows]
        yield Attribute(f"monitoring/{writer}/{name}", "float_series", "float", summary(values))


def test_machine_of_the_newest_process_of_rank_0_is_shown():
    attributes = [
        *attributes_of({"cpu_count": 4}, [{"cpu": 10.0}], "old"),
        *attributes_of({"cpu_count": 8}, [{"cpu": 20.0}], "new"),
        *attributes_of({"cpu_count": 16}, [{"cpu": 30.0}], "other"),
    ]
    ranks = [
        RankStatus(number, "host", 1, (writer,), "running", "", 1, 2, 3, None)
        for number, writer in enumerate(("new", "other"))
    ]
    shown = {"machine": "8 CPUs", "load": "CPU 20 % on average; 2 more processes"}
    assert dict(machine_lines(attributes, ranks)) == shown
    # With monitoring_namespace="monitoring/old" no writer has that name.
    shown = {"machine": "4 CPUs", "load": "CPU 10 % on average"}
    assert dict(machine_lines(attributes[:2], ranks)) == shown


def test_unexpected_facts_are_left_out_or_shortened():
    texts = ["many", "x" * 10_000, "a\nb", {"a": 1}, [1]]
    for odd in (*texts, True, None, -1, 0, math.nan, math.inf, 1e308, 10**300, 1e-320):
        for _, text in machine_lines(list(attributes_of(dict.fromkeys(FACTS, odd), [])), []):
            assert len(text) < (140 if isinstance(odd, int | float) else 300), odd
            assert "\n" not in text
            assert "e-" not in text


def test_unexpected_measurements_are_left_out():
    for odd in (-1.0, math.nan, math.inf, -math.inf, 1e308):
        series = list(attributes_of({}, [dict.fromkeys(ROWS[0], odd)]))
        assert list(machine_lines(series, [])) == []
        assert machine_now(series, []) == ""
    texts = [Attribute("monitoring/w/cpu", "string_series", None, None)]
    assert list(machine_lines(texts, [])) == []
    rows = [{"cpu": 5e-324, "memory": 1e-320, "gpu_\u0661": 50.0, "gpu_1": 60.0}]
    shown = {"load": "CPU 0 % on average, memory up to 0 GiB, GPU 60 % on average"}
    assert dict(machine_lines(list(attributes_of({}, rows)), [])) == shown
