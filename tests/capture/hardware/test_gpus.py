"""GPUs, without one: the real ``pynvml`` loads a library that answers what was recorded.

``tests/support/nvml.c`` is compiled into a ``libnvidia-ml.so.1`` that the dynamic loader finds in
the place of the driver's. What a real driver answers in real trouble is not shown by this.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("g++")
SOURCE = Path(__file__).parents[2] / "support" / "nvml.c"
GIB = 2**30

SIZE = {"name": "NVIDIA H100 80GB HBM3", "total": 80 * GIB, "used": 40 * GIB}
H100 = {**SIZE, "busy": 93, "milliwatts": 612345, "degrees": 61, "divided": 0}
ONE = {"count": 1, "driver": "550.54.15", "cuda": 12040, "0": {**H100}, "GPU-aa01": "0"}
TWO = {**ONE, "count": 2, "1": {**H100, "busy": 12, "used": 5 * GIB}, "GPU-bb02": "1"}
FACTS = {
    "gpu": "NVIDIA H100 80GB HBM3",
    "gpu_count": 1,
    "gpu_memory": 80.0,
    "driver": "550.54.15",
    "cuda_driver": "12.4",
}
READ = {
    "gpu": 93.0,
    "gpu_memory": 40.0,
    "gpu_power": pytest.approx(612.345),
    "gpu_temperature": 61.0,
}

PROBE = """
import json, os, sys, pynvml
from seamark.capture.hardware.gpus import NvidiaGpus
for line in sys.stdin:
    os.environ.clear()
    os.environ.update(json.loads(line))
    gpus = NvidiaGpus(pynvml)
    said = {"numbers": gpus.numbers, "facts": gpus.facts, "reads": [gpus.read()]}
    if os.environ.get("THEN"):
        os.replace(os.environ["THEN"], os.environ["NVML_RECORDED"])
        said["reads"] += [gpus.read(), gpus.read()]
    gpus.close()
    print(json.dumps(said), flush=True)
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """Return the folder of a library that answers in the place of the driver's."""
    if COMPILER is None:
        pytest.skip("no C compiler is here")
    place = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    made = [COMPILER, "-x", "c", "-O1", "-shared", "-fPIC", "-o", str(place), str(SOURCE)]
    subprocess.run(made, check=True)
    return place.parent


def recorded(answers, place):
    lines = []
    for name, value in answers.items():
        more = value.items() if isinstance(value, dict) else ()
        lines += [f"{name}.{key} {each}" for key, each in more] or [f"{name} {value}"]
    place.write_text("\n".join(lines) + "\n")
    return place


@pytest.fixture
def environment(library, tmp_path, monkeypatch):
    """Return a function that gives the variables under which a machine has recorded GPUs."""
    for name in [name for name in os.environ if "VISIBLE" in name]:
        monkeypatch.delenv(name)

    def of(answers, **more):
        place = str(recorded(answers, tmp_path / "answers"))
        own = {"LD_LIBRARY_PATH": str(library), "PYTHONPATH": os.pathsep.join(sys.path)}
        return {**os.environ, **own, "NVML_RECORDED": place, **more}

    return of


@pytest.fixture(scope="module")
def probe(library):
    """A process that says what it finds, each time it is told the variables of a machine."""
    variables = {"LD_LIBRARY_PATH": str(library), "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", PROBE]
    with subprocess.Popen(command, env={**os.environ, **variables}, **pipes) as process:
        yield process


@pytest.fixture
def ask(environment, probe, tmp_path):
    """Return a function that says what is found on a machine with recorded GPUs."""

    def ask(answers, then=None, **more):
        if then is not None:
            more["THEN"] = str(recorded(then, tmp_path / "later"))
        probe.stdin.write(json.dumps(environment(answers, **more)) + "\n")
        probe.stdin.flush()
        said = json.loads(probe.stdout.readline())
        reads = [{int(at): one for at, one in read.items()} for read in said["reads"]]
        return {**said, "reads": reads}

    return ask


def test_gpu_tells_what_it_does_and_is(ask):
    said = ask(ONE)
    assert (said["reads"], said["facts"]) == ([{0: READ}], FACTS)


@pytest.mark.parametrize(
    ("visible", "numbers"),
    [
        *((None, [0, 1]), ("1", [1]), (" 1 , 0 ", [1, 0]), ("1,1", [1]), ("", []), ("none", [])),
        *(("1,-1,0", [1]), ("0,7,1", [0]), ("GPU-bb02", [1]), ("GPU-b", []), ("GPU-cc,0", [])),
    ],
)
def test_only_gpus_that_cuda_would_use_are_asked(visible, numbers, ask):
    """CUDA's rules: up to the first that is none; a UUID is given whole."""
    more = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert ask(TWO, **more)["numbers"] == numbers


@pytest.mark.parametrize("error", [9, 999])
def test_without_a_driver_there_are_no_gpus(error, ask):
    said = ask({**ONE, "init": f"!{error}"})
    assert (said["numbers"], said["facts"], said["reads"]) == ([], {}, [{}])


def test_numbers_that_a_gpu_does_not_give_are_left_out(ask):
    said = ask({**ONE, "0": {**H100, "milliwatts": "!3", "degrees": "!4"}})
    assert said["reads"] == [{0: {"gpu": 93.0, "gpu_memory": 40.0}}]
    said = ask({**ONE, "0": {**H100, "busy": "!10"}}, then=ONE)
    assert "gpu" not in said["reads"][0][0]
    assert said["reads"][1] == {0: READ}
    gone = dict.fromkeys(("total", "used", "busy", "milliwatts", "degrees"), "!15")
    said = ask(TWO, then={**TWO, "0": {**H100, **gone}})
    assert said["numbers"] == [0, 1]
    assert said["reads"][0][0] == READ
    for later in said["reads"][1:]:
        assert later[0] == {}
        assert later[1]["gpu"] == 12.0


def test_part_of_a_gpu_is_asked_for_its_own_memory_only(ask):
    part = {"name": "NVIDIA H100 MIG 1g.10gb", "total": 10 * GIB, "used": 4 * GIB}
    divided = {**ONE, "0": {**H100, "divided": 1, "busy": "!3"}, "0m2": part, "MIG-5ca1": "0m2"}
    said = ask(divided, CUDA_VISIBLE_DEVICES="MIG-5ca1")
    assert said["reads"] == [{0: {"gpu_memory": 4.0}}]
    assert said["facts"]["gpu"] == "NVIDIA H100 MIG 1g.10gb"
    assert ask(divided, CUDA_VISIBLE_DEVICES="MIG-0000")["numbers"] == []


TRAINING = """
import os, threading
import seamark
from seamark.capture import hardware
from seamark.capture.hardware import machine
from seamark.run.ending import Captured
hardware.BEGIN_S = hardware.FIRST_S = hardware.LAST_S = 0.0
machine._DRIVER_TIMEOUT_S = 0.1
"""
RECORDS = """
recorded = threading.Event()
append = Captured.append_numbers
def watched(self, numbers):
    append(self, numbers)
    recorded.set()
Captured.append_numbers = watched
run = seamark.init_run()
run["loss"].append(1.0)
assert recorded.wait(60)
print(run.writer)
run.stop()
"""
HANGS = """
hung, writing = os.pipe()
os.environ["NVML_HANGS"] = str(writing)
first = seamark.init_run()
first["a"] = 1
assert os.read(hung, 1) == b"!"
first.stop()
second = seamark.init_run()
second["a"] = 1
second.stop()
while len(threads := [one for one in threading.enumerate() if "hardware" in one.name]) > 1:
    threads[-1].join()
print("ended")
"""


def test_run_records_its_gpus(scripts, environment):
    ended = scripts.run(TRAINING + RECORDS, env=environment(TWO))
    assert (ended.code, ended.stderr) == (0, "")
    run, space = scripts.reopened(), f"monitoring/{ended.stdout.strip()}"
    assert not run.exists(f"{space}/gpu")
    numbers = {
        "gpu_1": 12.0,
        "gpu_memory_0": 40.0,
        "gpu_power_1": 612.345,
        "gpu_temperature_0": 61.0,
    }
    assert {name: run[f"{space}/{name}"].fetch_last() for name in numbers} == numbers
    assert {**FACTS, "gpu_count": 2}.items() <= run[f"{space}/environment"].fetch().items()


def test_driver_that_hangs_does_not_keep_a_training_from_its_end(scripts, environment):
    ended = scripts.run(TRAINING + HANGS, env=environment({**ONE, "init": "hang"}))
    assert (ended.code, ended.stdout, ended.stderr) == (0, "ended\n", "")
