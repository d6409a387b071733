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


def test_show_tells_the_machine_and_its_load_in_two_lines(start, cli):
    """What a container may use, of what its host has; means of shares, the most of amounts."""
    run = start()
    put(run, FACTS, ROWS)
    run.stop()
    told = lines_of(cli("show", run.id).output)
    assert told["machine"] == (
        "16 of 128 CPUs (AMD EPYC 7763 64-Core Processor), 64 of 504 GiB, "
        "2 \N{MULTIPLICATION SIGN} NVIDIA H100 80GB HBM3"
    )
    assert told["load"] == (
        "CPU 45 % on average, memory up to 12.5 of 64 GiB, 2 GPUs 20 to 92 % on average, "
        "up to 40 of 80 GiB"
    )


def test_a_machine_without_gpus_or_limits_is_told_shortly(start, cli):
    """Nothing is said of what is not there."""
    run = start()
    facts = {"cpu": "A CPU", "cpu_count": 8, "cpu_usable": 8.0, "memory": 15.5}
    put(run, facts, [{"cpu": 100.0, "memory": 3.0, "process_memory": 2.0}])
    run.stop()
    told = lines_of(cli("show", run.id).output)
    assert told["machine"] == "8 CPUs (A CPU), 15.5 GiB"
    assert told["load"] == "CPU 100 % on average, memory up to 3 of 15.5 GiB"


def test_a_run_that_recorded_nothing_of_it_says_nothing(record, cli):
    """No empty lines, no dashes."""
    told = lines_of(cli("show", record()).output)
    assert not {"machine", "load"} & set(told)


@pytest.mark.once
def test_watch_tells_what_is_so_now_in_a_line_that_fits(start, terminal, monkeypatch):
    """Beside the curves, as long as the run goes on."""
    run = start(name="live")
    put(run, FACTS, ROWS)
    now = "CPU 70 %, memory 12.5 of 64 GiB, 2 GPUs 30 to 94 %, 40 of 80 GiB"
    monkeypatch.setattr("seamark.cli.watch._wait", lambda _: run.stop())
    code, shown = terminal("watch", "live", columns=80)
    assert code == 0
    before, _, after = shown.rpartition("completed")
    assert now in before
    assert now not in after


def test_tables_and_plots_leave_it_aside_until_it_is_asked_for(start, cli):
    """A pattern names it on all machines."""
    run = start()
    put(run, FACTS, ROWS)
    run.stop()
    assert "monitoring" not in cli("ls").output
    refused = cli("plot", run.id).output
    assert refused.index("loss") < refused.index("monitoring")
    drawn = cli("plot", run.id, "monitoring/*/cpu")
    assert drawn.exit_code == 0
    assert "80" in drawn.output or "70" in drawn.output


def test_what_is_measured_has_its_unit_and_few_digits(start, cli):
    """In a table, for one series, in facts, and above a curve, which runs over the time."""
    run = start()
    rows = [{"cpu": 41.2345678, "memory": 2.1157875061035156, "gpu_power_0": 300.123456}]
    put(run, {"memory": 15.512345, "cpu_count": 8}, rows * 3)
    run.stop()
    found = cli("show", run.id, "monitoring").stdout
    for name, value, unit in (
        ("cpu", "41.23", "%"),
        ("memory", "2.116", "GiB"),
        ("gpu_power_0", "300.1", "W"),
    ):
        assert re.search(rf"/{name} +{value} +{value} +{value} +{unit} ", found), found
    assert re.search(r"environment/memory +15\.51 GiB$", found, re.MULTILINE)
    assert re.search(r"environment/cpu_count +8$", found, re.MULTILINE)
    paths = [path for path in found.split() if path.endswith("/memory")]
    single = next(path for path in paths if "environment" not in path)
    assert "2.116 GiB" in cli("show", run.id, single).stdout
    assert "2.1157875061035156" in cli("show", run.id, "monitoring", "--json").stdout
    drawn = cli("plot", run.id, "monitoring/*/memory").stdout
    assert drawn.splitlines()[0].strip() == "GiB"
    assert re.search(r"\d\d:\d\d", drawn)
    assert not re.search(r"\d\d:\d\d", cli("plot", run.id, single, "-x", "step").stdout)
    both = cli("plot", run.id, "monitoring/*/memory", "monitoring/*/cpu").stdout
    assert "/memory (GiB)" in both
    assert "/cpu (%)" in both


# ------------------------------------------------------------------ whose machine, and a stranger's


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


def rank(number, *writers):
    return RankStatus(number, "host", 1, writers, "running", "", 1, 2, 3, None)


def test_of_several_processes_rank_0_speaks_and_others_are_counted():
    """The newest process of it: an older one was on another machine, perhaps."""
    attributes = [
        *attributes_of({"cpu_count": 4}, [{"cpu": 10.0}], "old"),
        *attributes_of({"cpu_count": 8}, [{"cpu": 20.0}], "new"),
        *attributes_of({"cpu_count": 16}, [{"cpu": 30.0}], "other"),
    ]
    told = dict(machine_lines(attributes, [rank(0, "new"), rank(1, "other")]))
    assert told == {"machine": "8 CPUs", "load": "CPU 20 % on average; 2 more processes"}


def test_a_namespace_of_ones_own_is_found():
    """``monitoring_namespace="monitoring/one"`` names no writer."""
    attributes = list(attributes_of({"cpu_count": 4}, [{"cpu": 10.0}], "one"))
    told = dict(machine_lines(attributes, [rank(0, "w")]))
    assert told == {"machine": "4 CPUs", "load": "CPU 10 % on average"}


@pytest.mark.parametrize(
    "odd",
    [
        "many",
        True,
        None,
        -1,
        0,
        math.nan,
        math.inf,
        {"a": 1},
        [1],
        "x" * 10_000,
        "a\nb",
        1e308,
        10**300,
        1e-320,
    ],
)
def test_what_a_stranger_wrote_there_breaks_nothing(odd):
    """What is no number of a sensible size is passed over, and no name is longer than a line."""
    attributes = list(attributes_of(dict.fromkeys(FACTS, odd), []))
    for _, text in machine_lines(attributes, []):
        assert len(text) < 300
        assert "\n" not in text
        assert "e-" not in text
        assert len(text) < 140 or not isinstance(odd, int | float)


@pytest.mark.parametrize("odd", [-1.0, math.nan, math.inf, -math.inf, 1e308])
def test_shares_and_amounts_that_cannot_be_are_not_told(odd):
    """A NaN in a series is one in its mean, too."""
    series = list(attributes_of({}, [dict.fromkeys(ROWS[0], odd)]))
    assert list(machine_lines(series, [])) == []
    assert machine_now(series, []) == ""


def test_only_plain_digits_number_a_gpu_and_nothing_tiny_is_spelled_out():
    """Other scripts have digits too; a number that small is none."""
    rows = [{"cpu": 5e-324, "memory": 1e-320, "gpu_\u0661": 50.0, "gpu_1": 60.0}]
    told = dict(machine_lines(list(attributes_of({}, rows)), []))
    assert told == {"load": "CPU 0 % on average, memory up to 0 GiB, GPU 60 % on average"}


def test_texts_where_series_are_expected_are_passed_over():
    """Anybody may write a text called ``cpu``."""
    texts = [Attribute("monitoring/w/cpu", "string_series", None, None)]
    assert list(machine_lines(texts, [])) == []
