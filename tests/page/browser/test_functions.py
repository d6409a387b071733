"""Functions of the page's modules: names, numbers, ages and differences."""

from __future__ import annotations

import random

import pytest
from page_looking import opening


@pytest.fixture
def ask(tab, main_page):
    """Return a function that calls functions of a module in a page."""
    tab.goto(opening(main_page, "?screen=projects"))
    tab.get_by_role("main").get_by_role("table").first.wait_for()

    def call(module, code, given):
        return tab.evaluate(
            f"""async (given) => {{
              const place = document.querySelector("link[href$='/js/components.js']").href;
              const module = await import(new URL("{module}.js", place).href);
              return ({code})(module, given);
            }}""",
            given,
        )

    return call


def test_short_names_first_orders_and_ages(ask):
    wanted = {
        ("model/optimizer/lr", "model/optimizer/eps"): ["lr", "eps"],
        ("model/optimizer/lr", "model/scheduler/lr", "lr"): ["optimizer/lr", "scheduler/lr", "lr"],
        ("a/lr", "b/a/lr", "sys/name", "params/Name"): ["a/lr", "b/a/lr", "Name", "params/Name"],
        ("metrics/val/loss", "val/acc:min", "train"): ["val/loss", "val/acc:min", "train"],
        ("slash/", "/", "", "a//b", "b"): ["slash/", "/", "", "/b", "b"],
        ("x" * 200, f"p/{'x' * 200}"): ["x" * 200, f"p/{'x' * 200}"],
    }
    code = "(to, lists) => lists.map((paths) => paths.map((path) => to.endOf(path, paths)))"
    assert ask("columns", code, [list(one) for one in wanted]) == list(wanted.values())
    # Accuracies with the greatest first, losses with the least, texts from A.
    greatest = ["val/acc", "val_accuracy", "test/F1", "top1_acc5", "bbox/mAP", "r2", "val/acc:max"]
    least = ["val/loss", "rmse", "parameters/lr", "sys/name", "accident", "train/acc_loss", "lr"]
    code = "(to, paths) => paths.filter((path) => !to.ascendsFirst(path))"
    assert ask("columns", code, greatest + least) == greatest
    # The table of runs counts minutes, so that a row does not stand at 18 s for a minute.
    code = "(to, coarse) => [0, 29, 31, 100, 3600].map((s) => to.ago(0, 1000 * s, coarse))"
    seconds, minutes = ["0 s", "29 s", "31 s", "2 min", "60 min"], ["1 min", "2 min", "60 min"]
    assert ask("format", code, 0) == [f"{one} ago" for one in seconds]
    assert ask("format", code, 1) == ["just now"] * 2 + [f"{one} ago" for one in minutes]


FORMATTED = """
({ number, digitsBeside, exact }, numbers) => {
  const shown = numbers.map((one) => number(one));
  return { shown, exact: numbers.map(exact), beside: numbers.map((one, n) => {
    const near = [numbers[n - 1], numbers[n + 1]];
    return [one, ...near].map((x) => number(x, Math.max(5, digitsBeside(one, near))));
  }) };
}
"""
"""The texts of numbers: alone, in full, and beside their neighbours."""


def test_numbers_are_those_of_python(ask):
    """Five digits as Python rounds them, all digits in full, and more beside a near neighbour."""
    draw = random.Random(5)
    numbers = [draw.uniform(-1, 1) * 10.0 ** draw.randint(-300, 4) for _ in range(300)]
    numbers += [draw.uniform(1, 9) * 10.0 ** draw.randint(7, 300) for _ in range(100)]
    for _ in range(100):
        near = draw.uniform(1, 9) * 10.0 ** draw.randint(-12, 12)
        numbers += [near, near * (1 + 10.0 ** -draw.randint(3, 15))]
    told = ask("format", FORMATTED, numbers)
    for one, shown, exact in zip(numbers, told["shown"], told["exact"], strict=True):
        assert float(exact) == one
        if not 1e5 <= abs(one) < 1e7 and one != int(one):
            plain = shown.replace("\u2212", "-").replace(",", "")
            assert float(plain) == float(f"{one:.5g}")
    for n, (own, before, after) in enumerate(told["beside"]):
        for at, text in ((n - 1, before), (n + 1, after)):
            if 0 <= at < len(numbers):
                assert (text == own) == (numbers[at] == numbers[n])
    ranges = [[1e300, 2e300, False], [1e-300, 2e-300, True], [1e-300, 1e300, True]]
    ranges.append([-9e18, 1, False])
    code = "(to, all) => all.map(([low, high, log]) => to.marksOf(low, high, 6, log))"
    for (low, high, _), found in zip(ranges, ask("pointer", code, ranges), strict=True):
        assert 3 <= len(found) <= 12
        assert low <= found[0] <= found[-1] <= high
        assert found == sorted(set(found))
