"""What runs recorded of what was printed, read from journals: no store stands in between."""

from __future__ import annotations

from collections import defaultdict

from journals import Kind, journals


def points(root, run=None):
    """Return the texts of each string series by path, of the run with this id or of all runs."""
    found = defaultdict(list)
    for kind, record in _records(root, run):
        if kind == Kind.TEXT:
            found[record["path"]] += [text for _, text, _ in record["points"]]
    return dict(found)


def printed(root):
    """Return what was recorded at ``stdout`` and ``stderr``, by these names; of one process."""
    found = {path.rpartition("/")[2]: "".join(texts) for path, texts in points(root).items()}
    return {name: text for name, text in found.items() if name in {"stdout", "stderr"}}


def in_order(root):
    """Return the points of all series by the time at which they were recorded, with their names."""
    return [
        (record["path"].rpartition("/")[2], text)
        for kind, record in _records(root, None)
        if kind == Kind.TEXT
        for _, text, _ in record["points"]
    ]


def left_out(root):
    found = defaultdict(list)
    for kind, record in _records(root):
        if kind == Kind.OP and record["op"] == "assign":
            for path, (_, value) in record["atoms"].items():
                if path.endswith("_left_out"):
                    found[path.rpartition("/")[2]].append(value)
    return dict(found)


def _records(root, run=None):
    """Return texts and ops in the order of their times: a run that rested has several journals."""
    found = []
    for folder in sorted(one.parent for one in root.glob("**/journal")):
        if folder.name.startswith(".") or run not in (None, folder.name):
            continue
        found += [
            (frame.t, frame.kind, frame.record)
            for journal in journals(folder)
            for frame in journal.frames
            if frame.kind in (Kind.TEXT, Kind.OP)
        ]
    return [(kind, record) for _, kind, record in sorted(found, key=lambda each: each[0])]
