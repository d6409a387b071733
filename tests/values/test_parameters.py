from __future__ import annotations

import argparse
import functools
import json
import math
import weakref
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.journal.format import dump_json
from seamark.paths import check_path
from seamark.values import decode_atom, parameters


def values(params, path="p"):
    """The parameters as a reader gets them; every one has to be legal on its way."""
    found = parameters(params, path)
    for each, atom in found.items():
        check_path(each)
        assert json.loads(dump_json(list(atom))) == list(atom)
    return {path: decode_atom(*atom) for path, atom in found.items()}


class Explodes:
    def __getattribute__(self, name):
        raise RuntimeError(name)

    def __repr__(self):
        raise RuntimeError

    __str__ = __repr__
    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError


class Called:
    def __call__(self):
        raise AssertionError

    @property
    def lr(self):
        raise AssertionError


class Model:
    pass


def train():
    raise AssertionError


def test_containers_nest_and_types_stay():
    """What Lightning hands over as hyperparameters reads back as it was."""
    params = {
        "lr": 0.1,
        "epochs": 3,
        "amp": False,
        "seed": None,
        "name": "net",
        "layers": [1, (2, 3)],
        "data": argparse.Namespace(root="/d", empty={}),
        "huge": 10**5000,
        "nan": math.nan,
    }
    found = values(params)
    assert math.isnan(found.pop("p/nan"))
    assert found == {
        "p/lr": 0.1,
        "p/epochs": 3,
        "p/amp": False,
        "p/seed": None,
        "p/name": "net",
        "p/layers": [1, [2, 3]],
        "p/data/root": "/d",
        "p/data/empty": {},
        "p/huge": 10**5000,
    }


def test_nothing_is_called_and_callables_are_their_names():
    here = __name__
    found = values(
        {
            "function": train,
            "class": Model,
            "object": Called(),
            "builtin": len,
            "method": "".join,
            "module": math,
            "partial": functools.partial(train, 1, loss="mse"),
            "lambda": lambda: 1 / 0,
            "inside": [train],
        }
    )
    assert found["p/function"] == f"{here}.train"
    assert found["p/class"] == "Model"
    assert found["p/object"] == f"{here}.Called"
    assert found["p/builtin"] == "len"
    assert found["p/module"] == "math"
    assert found["p/partial"] == f"functools.partial({here}.train, 1, loss='mse')"
    assert found["p/lambda"].endswith("<lambda>")
    assert found["p/inside"] == [f"{here}.train"]


def test_text_of_objects_holds_no_addresses():
    one, other = values({"model": Model()}), values({"model": Model()})
    assert one == other
    assert one["p/model"] == f"<{__name__}.Model object>"
    assert " at 0x" not in values({"it": iter([1])})["p/it"]


def test_small_tensors_and_arrays_are_values_and_large_ones_a_summary():
    """What is cut short says so: type, shape, dtype, extremes."""
    found = values({"small": np.arange(3), "large": np.arange(1000.0).reshape(10, 100)})
    assert found["p/small"] == [0, 1, 2]
    assert found["p/large"] == {
        "type": "numpy.ndarray",
        "shape": [10, 100],
        "dtype": "float64",
        "min": 0.0,
        "max": 999.0,
        "mean": 499.5,
    }


def test_torch_objects():
    torch = pytest.importorskip("torch")
    found = values(
        {
            "small": torch.tensor([1, 2]),
            "large": torch.ones(1000),
            "meta": torch.ones(3, device="meta"),
            "device": torch.device("cpu"),
            "dtype": torch.float32,
            "loss": torch.nn.MSELoss(),
            "size": torch.Size([1, 2]),
            "complex": torch.tensor([1j]),
        }
    )
    assert found["p/small"] == [1, 2]
    assert found["p/large"]["shape"] == [1000]
    assert found["p/large"]["mean"] == 1.0
    assert found["p/meta"] == {
        "type": "torch.Tensor",
        "shape": [3],
        "dtype": "float32",
        "device": "meta",
    }
    assert found["p/device"] == "cpu"
    assert found["p/dtype"] == "torch.float32"
    assert found["p/loss"] == "torch.nn.modules.loss.MSELoss"
    assert found["p/size"] == [1, 2]
    assert found["p/complex"] == ["1j"]


def test_odd_objects_never_raise():
    target = Model()
    dead = weakref.proxy(target)
    del target
    exploding = type("Weird", (dict,), {"items": lambda self: 1 / 0})(a=1)

    class Mine(argparse.Namespace):
        def __repr__(self):
            raise RuntimeError

    found = values(
        {"bad": Explodes(), "dead": dead, "own": exploding, "mine": Mine(x=1), "b": b"\xff"}
    )
    assert found["p/bad"] == f"<{__name__}.Explodes>"
    assert "weakproxy" in found["p/dead"]
    assert found["p/own/a"] == 1
    assert found["p/mine/x"] == 1
    assert found["p/b"] == "b'\\xff'"
    assert values(Explodes()) == {"p": f"<{__name__}.Explodes>"}


def test_cycles_and_depth_end():
    cycle: dict[str, object] = {"a": 1}
    cycle["self"] = cycle
    cycle["list"] = [cycle]
    deep: dict[str, object] = {}
    inner = deep
    for _ in range(3000):
        inner["k"] = inner = {}
    nested: list[object] = []
    for _ in range(3000):
        nested = [nested]
    found = values({"cycle": cycle, "nested": nested})
    assert found["p/cycle/a"] == 1
    assert found["p/cycle/self"] == "<dict that holds itself>"
    assert found["p/nested"][0][0]
    assert len(values(deep)) == 1
    assert len(values({"d": deep, "x": 1})) == 2


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("a/b", "p/a/b"),
        ("/data", "p/%2Fdata"),
        ("a//b", "p/a%2F%2Fb"),
        ("", "p/(empty)"),
        ("a\0b\n", "p/a%00b%0A"),
        ("\ud800", "p/%ED%A0%80"),
        (1, "p/1"),
        (None, "p/None"),
        (("a", 1), "p/('a', 1)"),
        (train, f"p/{__name__}.train"),
    ],
)
def test_keys_that_are_no_paths_become_some_visibly(key, path):
    assert values({key: 5}) == {path: 5}


def test_keys_that_meet_are_both_kept():
    assert values({1: "a", "1": "b", "x": {"y": 1}, "x/y": 2}) == {
        "p/1": "a",
        "p/1~2": "b",
        "p/x/y": 1,
        "p/x/y~2": 2,
    }


def test_a_key_too_long_for_a_path_is_kept_whole_in_the_value():
    """Nothing is cut short: the path is, the value holds the key."""
    key = "k" * 3000
    found = values({key: 5, "lr": 0.1})
    assert found.pop("p/lr") == 0.1
    assert list(found.values()) == [{key: 5}]


def test_an_attribute_of_a_dataclass_that_is_a_property_is_not_read():
    @dataclass
    class Config:
        lr: float = 0.1

    Config.lr = property(lambda self: 1 / 0)
    config = object.__new__(Config)
    config.__dict__["lr"] = 0.5
    assert values(config) == {"p/lr": 0.5}


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.sampled_from([train, Model, Called(), 1j, {1}, np.float32(1)]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers() | st.none(), inner),
    max_leaves=30,
)


@given(anything)
def test_anything_at_all_can_be_recorded(params):
    """The encoder is total: legal paths, legal JSON, never an exception."""
    values(params)
