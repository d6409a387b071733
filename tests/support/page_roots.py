"""Runs of every kind for tests of the page, recorded through the public API.

    python page_roots.py KIND ROOT

Kinds are the functions whose names follow ``record_``.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import struct
import subprocess
import sys
import zlib
from pathlib import Path

from page_process import page_environment
from recording import QUIET

import seamark
from seamark.run.run import make_run
from seamark.types import File

LONG = 20_000
"""Points of the long series of `record_main`."""
SPIKES = 1_000
"""The number of points that stand out, and of those that are NaN."""
HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\">&amp;<script>document.title='owned'</script>"
)
ARABIC = "\u202eتجربة <b>x</b>"
LENGTHY = "w" * 5_000
SEEDS = 5
SWEEP = 210


def environment(home):
    """Return the environment in which this file is started, of somebody with a home."""
    given = page_environment(**home)
    return {**given, "PYTHONPATH": f"{Path(__file__).parent}{os.pathsep}{given['PYTHONPATH']}"}


def begin(root, project, name, **given):
    """Begin a run; its id is its name where that may be one."""
    return seamark.init_run(project, name=name, root=root, **{**QUIET, **given})


def spiky(length=LONG, seed=7):
    """Return a series, the steps at which it has a spike, and those at which it is NaN."""
    draw = random.Random(seed)  # the same numbers each time
    chosen = draw.sample(range(length), 2 * SPIKES)
    spikes, holes = sorted(chosen[:SPIKES]), sorted(chosen[SPIKES:])
    values = [1.0 + 0.1 * draw.random() for _ in range(length)]
    for step in spikes:
        values[step] = 50.0 + step / length
    for step in holes:
        values[step] = float("nan")
    return values, spikes, holes


def png(*colour, side=24):
    def chunk(kind, data):
        whole = kind + data
        return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))

    rows = (b"\0" + bytes(colour) * side) * side
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def record_main(root):
    resumed(root)
    record_heron(root)
    crashed(root)
    ranked(root)
    hostile(root)
    damaged(root)
    record_sweep(root)
    record_box(root)


def resumed(root):
    """A run of two attempts, the second from step 4,000: 412 points of the first are replaced."""
    first = begin(root, "vision/digits", "quick-otter", custom_run_id="otter", tags=["best"])
    first["parameters"] = {"lr": 0.01, "layers": 3, "optimizer": "Adam"}
    first["sys/description"] = "The one that we keep."
    for step in range(4_000):
        first.log_metrics({"train/loss": 3 / (1 + step / 100)}, step=step)
    state = first.checkpoint_state()
    for step in range(4_000, 4_412):
        first.log_metrics({"train/loss": 5.0}, step=step)
    first.stop()
    again = make_run(project="vision/digits", name="quick-otter", root=root, **QUIET)
    second = again.resumed(state)
    for step in range(4_000, 5_000):
        second.log_metrics({"train/loss": 3 / (1 + step / 100)}, step=step)
    for step in range(0, 5_000, 500):
        values = {"val/loss": 2 / (1 + step / 100), "val/acc": 1 - 1 / (2 + step)}
        second.log_metrics(values, step=step)
    second.stop()


def record_heron(root):
    """A run with everything: a long series, one of epochs, pictures, a log, a checkpoint."""
    values, _, _ = spiky()
    with begin(root, "vision/digits", "calm-heron", custom_run_id="heron", tags=["old"]) as run:
        run["parameters"] = {"lr": 0.1, "layers": 2, "optimizer": "SGD"}
        for step, value in enumerate(values):
            run.log_metrics({"spiky": value}, step=step)
        for step in range(1_000):
            run.log_metrics({"train/loss": 4 / (1 + step), "train/epoch": step // 100}, step=step)
        for step in range(3):
            run["val/loss"].append(1 / (1 + step), step=step)
            run["pictures"].append(
                File.from_content(png(80 * step, 40, 120), extension="png"), step=step
            )
            run["logs/note"].append(f"epoch {step} done <b>bold</b>", step=step)
        run["model/checkpoints/last"].upload(File.from_content(b"\0" * 2_000, extension="ckpt"))
        run["report"].upload(
            File.from_content("<script>top.document.title='owned'</script>", extension="html")
        )


def crashed(root):
    run = begin(root, "vision/digits", "sad-crab", custom_run_id="crab")
    run["parameters"] = {"lr": 1.0, "layers": 2, "optimizer": "SGD"}
    run.log_metrics({"val/loss": float("nan"), "train/loss": float("inf")}, step=0)
    with contextlib.suppress(ValueError), run:
        float("the loss is <i>not</i> finite")


def ranked(root):
    code = f"""
import sys, seamark
rank = int(sys.argv[2])
with seamark.init_run("vision/digits", name="twin-ranks", root=sys.argv[1], custom_run_id="twins",
                      ranks="all", **{QUIET!r}) as run:
    for step in range(30):
        took = 0.02 + 0.03 * rank
        run.log_metrics({{"train/loss": 1 / (1 + step), "profiling/step_time_s": took}}, step)
"""
    for rank in ("0", "1"):
        environment = {**os.environ, "RANK": rank, "WORLD_SIZE": "2"}
        subprocess.run(
            [sys.executable, "-c", code, root, rank], check=True, env=environment, timeout=120
        )


def hostile(root):
    """Runs whose names, values and files would be elements or code if they were taken for that."""
    with begin(root, "vision/digits", HOSTILE, custom_run_id="hostile", tags=[HOSTILE]) as run:
        run["sys/description"] = HOSTILE
        run["parameters/text"] = HOSTILE
        run["parameters/arabic"] = ARABIC
        run["parameters/long"] = LENGTHY
        run["<img src=x>/loss"].append(1.0)
        run["train/loss"].append(2.0)
        run["logs/out"].append(HOSTILE)
        run["drawing"].upload(
            File.from_content(
                "<svg xmlns='http://www.w3.org/2000/svg' onload=\"top.document.title='owned'\"/>",
                extension="svg",
            )
        )
    with begin(root, "vision/digits", ARABIC + LENGTHY, custom_run_id="lengthy") as run:
        run["train/loss"].append(2.0)


def damaged(root):
    """One run with a byte that the disk turned, and one whose last write was cut."""
    for name in ("bad-disk", "torn-tail"):
        with begin(root, "vision/digits", name, custom_run_id=name) as run:
            for step in range(600):
                run.log_metrics({"train/loss": 1 / (1 + step)}, step=step)
        path = max(
            (each.path for each in run.folder.journals()), key=lambda each: each.stat().st_size
        )
        data = bytearray(path.read_bytes())
        if name == "bad-disk":
            data[len(data) // 2] ^= 0xFF
        else:
            del data[-37:]
        path.write_bytes(data)


def record_hurt(root):
    damaged(root)
    for name in ("closed-book", "shut-door", "quiet-hare"):
        with begin(root, "vision/digits", name, custom_run_id=name) as run:
            for step in range(5):
                run.log_metrics({"train/loss": 1 / (1 + step)}, step=step)


def record_sweep(root, count=SWEEP):
    """Record a project of many small runs, more than a page of the table."""
    for number in range(count):
        with begin(root, "sweep", f"sweep-{number:03}", custom_run_id=f"s{number:03}") as run:
            run["parameters"] = {"lr": 10.0 ** -(1 + number % 4), "seed": number % SEEDS}
            for step in range(5):
                run.log_metrics({"val/loss": number + 1 / (1 + step)}, step=step)


def record_extremes(root):
    with begin(root, "extremes", "beyond", custom_run_id="beyond") as run:
        for step in range(20):
            far = {"huge": 1e300 * (1 + step), "tiny": 1e-300 * (1 + step), "near": 1 / (1 + step)}
            run.log_metrics({**far, "both": 1e300 if step % 2 else 1e-300}, step=step)


def record_box(root):
    """Record runs whose paths have the same ends, and whose names look like queries."""
    for number in range(12):
        name = f"resnet-{number:02} Base" if number % 2 else f"vgg-{number:02}"
        tags = ["baseline"] if number < 2 else []
        with begin(root, "box", name, custom_run_id=f"b{number:02}", tags=tags) as run:
            rate = 10.0 ** -(1 + number % 4)
            run["parameters"] = {"lr": rate, "width": 16 * (1 + number % 3)}
            run["model/encoder/depth"], run["model/decoder/depth"] = number % 5, number % 7
            for step in range(3):
                run.log_metrics({"lr": 1e-5, "val/loss": number + 1 / (1 + step)}, step=step)
    with contextlib.suppress(ValueError), begin(root, "box", "lr=0.5,seed=3 (copy)") as run:
        run["parameters"] = {"lr": 0.5}
        float("not a number")


def record_saved(root):
    """Record four runs of ten series each, with holes, and with names that would be code."""
    names = [
        "]]></style><script>document.title='owned'</script>",
        ARABIC + LENGTHY,
        "plain",
        "twin",
    ]
    for number, name in enumerate(names):
        with begin(root, "saved", name, custom_run_id=f"n{number}") as run:
            run["parameters"] = {"width": 16 * (1 + number % 2), "rate": 0.1 / 3**number}
            if number:
                run["parameters/near"] = float("nan") if number == 1 else 0.1 + number / 1e9
            for step in range(40):
                value = float("nan") if step in (7, 8) else (number + 1) / (1 + step)
                if step == 20:
                    value = -value
                run.log_metrics({f"part{n % 2}/m{n}": value * 3**n for n in range(9)}, step=step)
                run.log_metrics({"<b>]]>&amp;": value}, step=step)


def record_compared(root):
    """Record runs to compare: two of the same, two with other code and pictures, and twelve."""
    for number in range(2):
        with seamark.init_run("same", name=f"same-{number}", root=root) as run:
            run["parameters/lr"] = 0.1
            run.log_metrics({"train/loss": 0.5}, step=0)
    code = Path(root).parent / "code"
    code.mkdir()
    for number, name in enumerate(["left-hand", "right-hand"]):
        lines = [f"line {n}" for n in range(60)]
        lines[30:31] = [f"lr = {number} {HOSTILE}", ARABIC][: 1 + number]
        (code / "train.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (code / "same.py").write_text("pass\n", encoding="utf-8")
        (code / "data.bin").write_bytes(bytes([0, number]))
        with begin(root, "code", name, custom_run_id=name, source_files=[str(code)]) as run:
            run["parameters/lr"] = number
            run["settings"].upload(File.from_content(f"a: 1\nb: {number}\n", extension="yaml"))
            for step in range(0, 30, 10 + 5 * number):
                for path in ("samples/one", "samples/two"):
                    run[path].append(
                        File.from_content(png(8 * step, 99 * number, 0), extension="png"), step=step
                    )
    for number in range(12):
        with begin(root, "many", f"many-{number:02}", custom_run_id=f"m{number:02}") as run:
            run["parameters"] = {"lr": 10.0 ** -(1 + number % 4), "seed": number}
            for step in range(3):
                values = {"val/loss": (7 * number) % 12 + 1 / (1 + step), "val/acc": number - step}
                run.log_metrics(values, step=step)


def record_pictures(root):
    """Record a small sweep that looks like one, for the pictures of the documents."""
    names = ["quick-otter", "calm-heron", "brave-lynx", "shy-swan", "bold-ibis", "warm-crow"]
    names += ["pale-moth", "keen-newt"]
    for number, name in enumerate(names):
        draw = random.Random(number)
        rate, width = (0.03, 0.01, 0.003, 0.001)[number % 4], (64, 128)[number // 4]
        tags = {0: ["best"], 4: ["wide"]}.get(number, [])
        run = begin(root, "vision/digits", name, custom_run_id=name, tags=tags)
        run["parameters"] = {"lr": rate, "width": width, "optimizer": "Adam", "epochs": 20}
        run["sys/description"] = "Digits of scikit-learn, a small convolutional net."
        floor, pace = 0.02 + 0.4 * abs(rate - 0.01) / (1 + width / 64), 40 + 2 / rate
        again = None
        for step in range(900 if number == 3 else 2_000):
            if number == 5 and step == 1_200:
                again = run.checkpoint_state()
            noise = draw.gauss(0, 0.15)
            loss = (2.3 * math.exp(-step / pace) + floor) * math.exp(noise)
            run.log_metrics({"train/loss": loss, "train/epoch": step // 100}, step=step)
            if step % 100 == 99:
                val = (2.3 * math.exp(-step / pace) + 1.3 * floor) * math.exp(noise / 5)
                run.log_metrics({"val/loss": val, "val/acc": math.exp(-val / 2)}, step=step)
        if number == 3:
            run.set_state("failed", error=RuntimeError("the loss is not finite at step 900"))
        run.stop()
        if again is not None:
            went_on = make_run(project="vision/digits", name=name, root=root, **QUIET)
            run = went_on.resumed(again)
            for step in range(1_200, 2_000):
                loss = 0.8 * floor * math.exp(draw.gauss(0, 0.12))
                run.log_metrics({"train/loss": loss}, step=step)
            run.stop()
    ranked(root)


def record_few(root):
    record_sweep(root, 3)


def record_wide(root, name="wide", count=1_000):
    with begin(root, name, name, custom_run_id=name) as run:
        for step in range(3):
            run.log_metrics({f"part{n // 100}/m{n:04}": n + step for n in range(count)}, step=step)


def record_thousands(root):
    record_wide(root, "thousands", 3_000)


def record_live(root):
    """Log a step for each line that is read, until the input ends."""
    with begin(root, "live", "live", custom_run_id="live") as run:
        run.log_metrics({"train/loss": 1.0}, step=0)
        print("ready", flush=True)  # noqa: T201
        for step, _ in enumerate(sys.stdin, 1):
            run.log_metrics({"train/loss": 1.0 + step}, step=step)


if __name__ == "__main__":
    globals()[f"record_{sys.argv[1]}"](sys.argv[2])
