from __future__ import annotations

import argparse
import types
from collections import OrderedDict, UserDict
from dataclasses import dataclass, field

import pytest

from seamark.errors import ArgumentError, ValueKindError
from seamark.values import flatten, is_container


@dataclass
class Optimizer:
    lr: float = 0.1
    betas: tuple[float, float] = (0.9, 0.99)
    late: int = field(init=False)


class Slotted:
    __slots__ = ("lr",)


@dataclass
class Watching:
    lr: float
    reads: int = 0

    @property
    def cost(self):
        raise AssertionError


def test_containers_become_paths():
    """Every kind of named container nests; lists stay values."""
    value = {
        "model": OrderedDict(width=3),
        "args": argparse.Namespace(a=1, b=argparse.Namespace(c=2)),
        "space": types.SimpleNamespace(x=1),
        "user": UserDict(y=2),
        "opt": Optimizer(),
        "layers": [1, 2],
    }
    assert flatten(value, "p") == {
        "p/model/width": 3,
        "p/args/a": 1,
        "p/args/b/c": 2,
        "p/space/x": 1,
        "p/user/y": 2,
        "p/opt/lr": 0.1,
        "p/opt/betas": (0.9, 0.99),
        "p/layers": [1, 2],
    }


def test_the_root_of_a_run_is_the_empty_path():
    """Assigning to the run itself puts keys at the top."""
    assert flatten({"a": {"b": 1}}, "") == {"a/b": 1}


def test_an_empty_container_is_a_value_of_its_own():
    """Nothing vanishes, also not an empty dictionary."""
    assert flatten({"a": {}, "b": argparse.Namespace()}, "p") == {"p/a": {}, "p/b": {}}


def test_keys_are_text_and_slashes_go_down():
    """Keys become path parts as Neptune made them."""
    assert flatten({1: "x", "a/b": "y"}, "p") == {"p/1": "x", "p/a/b": "y"}


def test_two_keys_for_one_path_are_a_mistake():
    """Neither of two values is dropped silently."""
    with pytest.raises(ArgumentError, match="p/1"):
        flatten({1: "x", "1": "y"}, "p")
    with pytest.raises(ArgumentError, match="p/a/b"):
        flatten({"a": {"b": 1}, "a/b": 2}, "p")


def test_a_container_that_holds_itself_is_a_mistake():
    """A cycle raises instead of recursing without end."""
    value: dict[str, object] = {}
    value["again"] = value
    with pytest.raises(ValueKindError, match="holds itself"):
        flatten(value, "p")


def test_fields_are_read_without_running_properties():
    """Looking at an object does not run its code."""
    assert flatten(Watching(0.5), "p") == {"p/lr": 0.5, "p/reads": 0}


def test_leaves_are_not_gone_into():
    """Single values, classes and lists are no containers."""
    for leaf in (1, "x", [1], Optimizer, None, Slotted(), {1, 2}):
        assert not is_container(leaf)
        assert flatten(leaf, "p") == {"p": leaf}
    for container in ({}, Optimizer(), argparse.Namespace()):
        assert is_container(container)


def test_omegaconf_follows_nodes_and_calls_no_resolver(monkeypatch):
    """References inside a configuration are values; what would be called stays as written."""
    omegaconf = pytest.importorskip("omegaconf")
    monkeypatch.setenv("SECRET", "hunter2")
    config = omegaconf.OmegaConf.create(
        {
            "lr": 0.1,
            "model": {
                "lr": "${lr}",
                "again": "${model.lr}",
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
        "p/again": 0.1,
        "p/name": "net-0.1",
        "p/token": "${oc.env:SECRET}",
        "p/sizes": [1, 0.1],
        "p/nothing": "${nowhere}",
        "p/loop": "${model.loop}",
    }
    assert flatten(config, "p")["p/missing"] == "???"
