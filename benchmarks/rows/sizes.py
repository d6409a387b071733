"""Bytes a point: targets 5 and 6."""

from __future__ import annotations

from collections.abc import Iterator

from harness import Bench, Result, child


def bytes_in_the_journal(bench: Bench) -> Iterator[Result]:
    """Measure fixed key sets and subsets that never repeat."""
    cases = {
        "10 metrics a call": (10, bench.count(2_000), 10, 8 + 32 / 10),
        "100 metrics a call": (100, bench.count(1_000), 100, 8 + 32 / 100),
        "random 100 of 1,000 series a call": (100, bench.count(1_000), 1_000, 20.0),
        "random 10 of 1,000 series a call": (10, bench.count(2_000), 1_000, 20.0),
    }
    table, met, said = [], True, []
    for case, (metrics, calls, series, limit) in cases.items():
        size = child("sizes.py", "journal", metrics, calls, series)["bytes_a_point"]
        # The first rows of a key set are sparse and name the schema: a hundredth over thousands.
        met &= size <= limit * 1.01
        table.append([case, f"{calls:,}", f"{size:.2f}", f"{limit:.2f}"])
        said.append(f"{size:.1f}")
    yield Result(
        "journal-bytes",
        "Bytes a point in the journal",
        "8 and 32 a call; 1,000 series in random subsets ≤ 20",
        " / ".join(said),
        met,
        ["calls of", "calls", "bytes a point", "target"],
        table,
        "Without the frames that name paths, once each.",
    )


def bytes_folded(bench: Bench) -> Iterator[Result]:
    """Measure the chunks of losses that were born as float32."""
    size = child("sizes.py", "folded", bench.count(20_000))
    yield Result(
        "folded-bytes",
        "Bytes a point folded, float32-born losses, steps and times included",
        "≤ 5",
        f"{size['bytes_a_point']:.2f}",
        size["bytes_a_point"] <= 5,
        note=(
            f"{size['points']:,} points of 10 noisy, falling losses, one row a step. What is kept "
            f"of them for drawing takes {size['summaries_a_point']:.2f} more."
        ),
    )
