"""Drawings of very long series in a store, for which little is asked."""

from __future__ import annotations

import math

import numpy as np
import pytest

from seamark.reading.curves import Look
from seamark.store import groups

NAN, INF = math.nan, math.inf


@pytest.fixture(autouse=True)
def _small(set_groups, monkeypatch):
    """Groups and cells so small that a short series has many of them."""
    set_groups(256)
    monkeypatch.setattr(groups, "_CELL_POINTS", 64)


@pytest.fixture
def unpacked(monkeypatch):
    """The chunks of which values were unpacked so far."""
    found, unpack = [], groups.unpack_floats
    monkeypatch.setattr(groups, "unpack_floats", lambda data: found.append(data) or unpack(data))
    return found


def noisy(rng, size):
    value = rng.standard_normal(size)
    odd = rng.random(size) < 0.02
    value[odd] = rng.choice([NAN, INF, -INF, 0.0, 1e300], int(odd.sum()))
    return value


def in_frames(journal, step, value, rng):
    """Write a series as frames of any number of rows, and rows of their own."""
    start = 0
    while start < len(step):
        size = int(rng.choice([1, 100, 256, 700, 1500]))
        part = slice(start, start + size)
        if size == 1:
            journal.row({"loss": float(value[start])}, float(step[start]))
        else:
            journal.column("loss", step[part].tolist(), value[part].tolist())
        start += size


def test_a_curve_of_several_attempts_is_that_of_all_points(store, engines, builder, plain):
    rng = np.random.default_rng(1)
    step, value = np.arange(4000.0) * 7.0 - 100, noisy(rng, 4000)
    first = builder("one", attempt=0)
    in_frames(first, step[:2500], value[:2500], rng)
    there = first.offset
    in_frames(first, step[2500:3000], value[2500:3000], rng)
    second = builder("two", attempt=1, positions={first.writer: there}, t=first.t + 10**9)
    in_frames(second, step[2500:], value[2500:], rng)
    journals = [first, second]
    for share in (0.4, 0.8, 1.0):
        ends = [int(one.offset * share) for one in journals]
        engines.fold(store, "r", journals, ends)
    reader = engines.look(store, "r", journals)
    wanted = {
        "latest": (step, value),
        0: (step[:3000], value[:3000]),
        "all": (np.append(step[:3000], step[2500:]), np.append(value[:3000], value[2500:])),
    }
    for attempt, (steps, values) in wanted.items():
        order = np.argsort(steps, kind="stable")
        points = reader.points("loss", attempt)
        assert plain.same_bits(points.step, steps[order])
        assert plain.same_bits(points.value, values[order])
        for most in (9, 300):
            plain.check(reader.curve("loss", most, attempt), steps, values, most)
        look = Look(40, log_y=True, window=300.0, log_x=True)
        wanted = np.isfinite(values) & (values <= 0) & (steps > 0)
        assert reader.drawing("loss", look, attempt).not_positive == int(wanted.sum())


def test_whole_cells_ask_for_no_values_and_steps(store, engines, builder, unpacked, monkeypatch):
    """Also where a series has a value in every third row only: its steps are a progression too."""
    monkeypatch.setattr(groups._DrawingSeries, "group", None)
    step = np.arange(16_384.0)
    journal = builder().column("loss", step.tolist(), np.cos(step).tolist())
    for at in range(1500):
        journal.row({"often": float(at)} | ({"rare": float(-at)} if at % 3 == 0 else {}), at)
    reader = engines.fold(store, "r", [journal])
    found = reader.curve("loss", 64)
    assert (found.width, len(found)) == (512.0, 32)
    found = reader.curve("rare", 8)
    assert found.last_step[-1] == 1497
    assert int(found.count.sum()) == 500
    assert unpacked == []
