from __future__ import annotations

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
    plain = {"lr": 0.1, "f": file, "n": None, "l": [1, 2]}
    found = stringify_unsupported({**plain, "model": Model(), "deep": {1: {"x": Model()}}})
    assert found == {**plain, "model": "the model", "deep": {"1": {"x": "the model"}}}
    assert stringify_unsupported(found) == found
    assert [stringify_unsupported(one) for one in (5, Model(), Loss(), print, {})] == [
        *(5, "the model", "a loss", "print", {}),
    ]


def test_the_result_can_be_recorded():
    """Whatever goes in, every leaf that comes out is an atom."""
    cycle = {"x": object()}
    cycle["self"] = cycle
    for leaf in flatten(stringify_unsupported({"c": cycle, "l": [[object()]]}), "p").values():
        encode_atom(leaf)
