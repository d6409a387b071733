from __future__ import annotations

import argparse
from collections import OrderedDict, UserDict
from dataclasses import dataclass, field

import pytest

from seamark.errors import ArgumentError, ValueKindError
from seamark.values import flatten


@dataclass
class Optimizer:
    lr: float = 0.1
    betas: tuple[float, float] = (0.9, 0.99)
    late: int = field(init=False)


class Slotted:
    __slots__ = ("lr",)


def test_containers_become_paths():
    value = {
        "model": OrderedDict(width=3),
        "args": argparse.Namespace(a=1, b=argparse.Namespace(c=2)),
        "user": UserDict(y=2),
        "opt": Optimizer(),
        "layers": [1, 2],
        "empty": {},
        "none": argparse.Namespace(),
        1: "x",
        "a/b": "y",
    }
    assert flatten(value, "p") == {
        "p/model/width": 3,
        "p/args/a": 1,
        "p/args/b/c": 2,
        "p/user/y": 2,
        "p/opt/lr": 0.1,
        "p/opt/betas": (0.9, 0.99),
        "p/layers": [1, 2],
        "p/empty": {},
        "p/none": {},
        "p/1": "x",
        "p/a/b": "y",
    }
    assert flatten({"a": {"b": 1}}, "") == {"a/b": 1}


def test_two_keys_for_one_path_and_loops_are_refused():
    value: dict[str, object] = {}
    value["again"] = value
    with pytest.raises(ValueKindError, match="contains itself"):
        flatten(value, "p")
    with pytest.raises(ArgumentError, match="p/1"):
        flatten({1: "x", "1": "y"}, "p")
    with pytest.raises(ArgumentError, match="p/a/b"):
        flatten({"a": {"b": 1}, "a/b": 2}, "p")


def test_omegaconf_follows_nodes_and_calls_no_resolver(monkeypatch):
    omegaconf = pytest.importorskip("omegaconf")
    monkeypatch.setenv("SECRET", "hunter2")
    config = omegaconf.OmegaConf.create(
        {
            "lr": 0.1,
            "model": {
                "lr": "${lr}",
                "name": "net-${lr}",
                "token": "${oc.env:SECRET}",
                "sizes": [1, "${lr}"],
                "nothing": "${nowhere}",
                "loop": "${model.loop}",
            },
            "missing": "???",
        }
    )
    assert flatten(config.model, "p") == {
        "p/lr": 0.1,
        "p/name": "net-0.1",
        "p/token": "${oc.env:SECRET}",
        "p/sizes": [1, 0.1],
        "p/nothing": "${nowhere}",
        "p/loop": "${model.loop}",
    }
    assert flatten(config, "p")["p/missing"] == "???"
