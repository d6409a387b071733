from __future__ import annotations

from seamark.types import File
from seamark.utils import stringify_unsupported
from seamark.values import encode_atom, flatten


class Loss:
    """Can be called, and is printed all the same."""

    def __call__(self):
        pass

    def __str__(self):
        return "a loss"


def test_what_cannot_be_kept_becomes_text_and_the_rest_stays():
    plain = {"lr": 0.1, "f": File.from_content("x"), "n": None, "l": [1, 2]}
    found = stringify_unsupported({**plain, "loss": Loss(), "deep": {1: {"x": Loss()}}})
    assert found == {**plain, "loss": "a loss", "deep": {"1": {"x": "a loss"}}}
    assert stringify_unsupported(found) == found
    assert [stringify_unsupported(one) for one in (5, print, {})] == [5, "print", {}]
    cycle = {"x": object()}
    cycle["self"] = cycle
    for leaf in flatten(stringify_unsupported({"c": cycle, "l": [[object()]]}), "p").values():
        encode_atom(leaf)
