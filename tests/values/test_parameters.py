from __future__ import annotations

import argparse
import functools
import json
import math
import weakref

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
    same = {"lr": 0.1, "epochs": 3, "amp": False, "seed": None, "name": "net", "huge": 10**5000}
    data = argparse.Namespace(root="/d", empty={})
    found = values({**same, "layers": [1, (2, 3)], "data": data, "nan": math.nan})
    assert math.isnan(found.pop("p/nan"))
    assert found == {
        **{f"p/{name}": value for name, value in same.items()},
        "p/layers": [1, [2, 3]],
        "p/data/root": "/d",
        "p/data/empty": {},
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((train, f"{__name__}.train"), (Called(), f"{__name__}.Called"), (Model, "Model")),
        *((len, "len"), ("".join, "str.join"), (math, "math")),
        (lambda: 1 / 0, f"{__name__}.<lambda>"),
        (
            functools.partial(train, 1, loss="a"),
            f"functools.partial({__name__}.train, 1, loss='a')",
        ),
        ([train], [f"{__name__}.train"]),
    ],
)
def test_nothing_is_called_and_callables_are_their_names(value, text):
    assert values({"x": value}) == {"p/x": text}


def test_text_of_objects_holds_no_addresses():
    one, other = values({"model": Model()}), values({"model": Model()})
    assert one == other
    assert one["p/model"] == f"<{__name__}.Model object>"
    assert " at 0x" not in values({"it": iter([1])})["p/it"]


def test_small_arrays_are_values_and_large_ones_a_summary():
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
    meta = {"type": "torch.Tensor", "shape": [3], "dtype": "float32", "device": "meta"}
    for value, expected in (
        (torch.tensor([1, 2]), [1, 2]),
        (torch.ones(3, device="meta"), meta),
        (torch.device("cpu"), "cpu"),
        (torch.float32, "torch.float32"),
        (torch.nn.MSELoss(), "torch.nn.modules.loss.MSELoss"),
        (torch.Size([1, 2]), [1, 2]),
        (torch.tensor([1j]), ["1j"]),
    ):
        assert values({"x": value}) == {"p/x": expected}
    large = values({"x": torch.ones(1000)})["p/x"]
    assert (large["shape"], large["mean"]) == ([1000], 1.0)


def test_odd_objects_never_raise():
    target = Model()
    dead = weakref.proxy(target)
    del target
    exploding = type("Weird", (dict,), {"items": lambda self: 1 / 0})(a=1)

    class Mine(argparse.Namespace):
        def __repr__(self):
            raise RuntimeError

    given = {"bad": Explodes(), "dead": dead, "own": exploding, "mine": Mine(x=1), "b": b"\xff"}
    found, bad = values(given), f"<{__name__}.Explodes>"
    assert "weakproxy" in found.pop("p/dead")
    assert found == {"p/bad": bad, "p/own/a": 1, "p/mine/x": 1, "p/b": "b'\\xff'"}
    assert values(Explodes()) == {"p": bad}


def test_cycles_and_depth_end():
    cycle: dict[str, object] = {"a": 1}
    cycle["self"] = cycle
    cycle["list"] = [cycle]
    deep: dict[str, object] = {}
    inner = deep
    for _ in range(3000):
        inner["k"] = inner = {}
    found = values({"cycle": cycle})
    assert found["p/cycle/a"] == 1
    assert found["p/cycle/self"] == "<dict that holds itself>"
    assert len(values({"d": deep, "x": 1})) == 2


@pytest.mark.parametrize(
    ("key", "path"),
    [
        *(("a/b", "p/a/b"), ("/data", "p/%2Fdata"), ("a//b", "p/a%2F%2Fb"), ("", "p/(empty)")),
        *(("a\0b\n", "p/a%00b%0A"), ("\ud800", "p/%ED%A0%80"), (1, "p/1"), (None, "p/None")),
        *((("a", 1), "p/('a', 1)"), (train, f"p/{__name__}.train")),
    ],
)
def test_keys_that_are_no_paths_are_escaped_visibly(key, path):
    assert values({key: 5}) == {path: 5}


def test_keys_that_give_one_path_are_both_kept():
    given = {1: "a", "1": "b", "x": {"y": 1}, "x/y": 2}
    assert values(given) == {"p/1": "a", "p/1~2": "b", "p/x/y": 1, "p/x/y~2": 2}


def test_key_too_long_for_a_path_is_kept_whole_in_the_value():
    key = "k" * 3000
    found = values({key: 5, "lr": 0.1})
    assert found.pop("p/lr") == 0.1
    assert list(found.values()) == [{key: 5}]


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
anything = st.recursive(
    plain | st.sampled_from([train, Model, Called(), 1j, {1}, np.float32(1)]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers() | st.none(), inner),
    max_leaves=30,
)


@given(anything)
def test_anything_at_all_can_be_recorded(params):
    values(params)
