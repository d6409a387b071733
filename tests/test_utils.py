from __future__ import annotations

import argparse

import numpy as np

from seamark.types import File
from seamark.utils import stringify_unsupported
from seamark.values import encode_atom, flatten


class Model:
    def __str__(self):
        return "the model"


class Loss(Model):
    """Can be called, and is printed all the same."""

    def __call__(self):
        pass

    def __str__(self):
        return "a loss"


def test_what_cannot_be_kept_becomes_text_and_the_rest_stays():
    """Containers stay nested, so that every leaf gets a path of its own."""
    file = File.from_content("x")
    found = stringify_unsupported(
        {
            "lr": 0.1,
            "model": Model(),
            "deep": {1: {"x": Model()}},
            "f": file,
            "n": None,
            "l": [1, 2],
        }
    )
    assert found == {
        "lr": 0.1,
        "model": "the model",
        "deep": {"1": {"x": "the model"}},
        "f": file,
        "n": None,
        "l": [1, 2],
    }


def test_doing_it_twice_changes_nothing_more():
    """Lightning and the user may both do it."""
    once = stringify_unsupported({"a": [1, Model()], "b": argparse.Namespace(c=np.ones(2), d=1j)})
    again = stringify_unsupported(once)
    assert once["a"] == again["a"] == [1, "the model"]
    assert again["b"]["d"] == "1j"


def test_the_result_can_be_recorded():
    """Whatever goes in, every leaf that comes out is an atom."""
    cycle = {"x": object()}
    cycle["self"] = cycle
    for leaf in flatten(stringify_unsupported({"c": cycle, "l": [[object()]]}), "p").values():
        encode_atom(leaf)


def test_single_values():
    """Leaves are handled like leaves of a container."""
    assert stringify_unsupported(5) == 5
    assert stringify_unsupported(Model()) == "the model"
    assert stringify_unsupported(Loss()) == "a loss"
    assert stringify_unsupported(print) == "print"
    assert stringify_unsupported({}) == {}
