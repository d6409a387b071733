"""Table B of the journal's page in plain Python: slow, stateless, written apart from the fold."""

from __future__ import annotations

import math
from fractions import Fraction

NEVER = (-(1 << 70), b"", -1)
SERIES = {"points": "float_series", "texts": "string_series", "histograms": "histogram_series"}
CLEARED = {*SERIES.values(), "file_series", "string_set", "file_set", "statistic"}


def expected(journals, ends, attempt="latest"):
    """Return {path: (family, value)} of what is visible, given how much of each is there."""
    return _Oracle(journals, ends, attempt).visible()


def expected_points(journals, ends, path, attempt="latest"):
    """Return (step, value, time, attempt) of a float series, in order."""
    return _Oracle(journals, ends, attempt).points(path, "float_series")


def expected_records(journals, ends, path, family, attempt="latest"):
    """Return (step, value, time, attempt) of a series of texts, files or histograms, in order."""
    return _Oracle(journals, ends, attempt).points(path, family)


class _Oracle:
    def __init__(self, journals, ends, attempt):
        self.deletes = []
        self.clears = []
        self.ops = {}
        there = [(one, end) for one, end in zip(journals, ends, strict=True) if end >= one.ends[0]]
        for journal, end in there:
            cut = self._cut(journal, [one for one, _ in there], attempt)
            for said in journal.said:
                if said.offset < end:
                    hidden = said.offset >= cut or said.offset in journal.hidden
                    self._take(journal, said, hidden=hidden)

    @staticmethod
    def _cut(journal, others, attempt):
        own = journal.header["attempt"]
        if own is None or attempt == "all":
            return math.inf
        if isinstance(attempt, int) and own > attempt:
            return -1
        cuts = [
            other.header["positions"].get(journal.writer, 0)
            for other in others
            if other.header["attempt"] is not None
            and other.header["attempt"] > own
            and other.header["positions"] is not None
            and not (isinstance(attempt, int) and other.header["attempt"] > attempt)
        ]
        return min(cuts, default=math.inf)

    def _add(self, path, family, key, what, value):
        self.ops.setdefault((path, family), []).append((key, what, value))

    def _take(self, journal, said, *, hidden):
        def key(index):
            return (said.t, journal.uid, index)

        own = -1 if journal.header["attempt"] is None else journal.header["attempt"]
        if said.what == "points":
            for index, (path, step, value, time) in enumerate(said.value):
                point = (hidden, step, value, said.t if time is None else time, own)
                self._add(path, "float_series", key(index), "point", point)
        elif said.what in SERIES:
            for index, (step, *value, _) in enumerate(said.value["points"]):
                point = (hidden, step, value[0] if len(value) == 1 else value, said.t, own)
                self._add(said.value["path"], SERIES[said.what], key(index), "point", point)
        elif said.what == "op":
            self._take_op(said.value, key, (said.t, own), hidden=hidden)

    def _take_op(self, op, key, stamp, *, hidden):  # noqa: C901, PLR0912 - a case an op
        name, path = op["op"], op.get("path", "")
        if name == "assign":
            for index, (at, pair) in enumerate(op["atoms"].items()):
                self._add(at, "atom", key(index), "set", pair)
        elif name == "delete":
            self.deletes += [(key(index), at) for index, at in enumerate(op["paths"])]
        elif name == "clear":
            self.clears.append((key(0), path))
        elif name in ("add", "remove"):
            for index, value in enumerate(op["values"]):
                self._add(path, "string_set", key(index), name, value)
        elif name == "assign_set":
            self._add(path, "string_set", key(-1), "empty", None)
            for index, value in enumerate(op["values"]):
                self._add(path, "string_set", key(index), "add", value)
        elif name in ("file", "own"):
            self._add(path, "file", key(0), "set", (op["file"], op.get("token")))
        elif name == "digest":
            self._add(path, "file", key(0), "digest", (op["file"], op["token"]))
        elif name == "files":
            for index, (member, file) in enumerate(op["members"].items()):
                self._add(path, "file_set", key(index), "put", (member, file))
        elif name == "unfiles":
            for index, member in enumerate(op["names"]):
                self._add(path, "file_set", key(index), "put", (member, None))
        elif name == "artifact":
            self._add(path, "artifact", key(0), "set", op["hash"])
        elif name == "statistic":
            self._add(path, "statistic", key(0), "state", (hidden, op))
        elif name == "file_point":
            point = (hidden, op["step"], op["file"], *stamp)
            self._add(path, "file_series", key(0), "point", point)

    # ------------------------------------------------------------------ evaluation

    def _deleted(self, path):
        keys = [key for key, at in self.deletes if path == at or path.startswith(at + "/")]
        return max(keys, default=NEVER)

    def _after(self, path, family):
        cleared = [key for key, at in self.clears if at == path] if family in CLEARED else []
        return max([self._deleted(path), *cleared])

    def points(self, path, family):
        after = self._after(path, family)
        found = [
            ((point[1], key), point)
            for key, _, point in self.ops.get((path, family), [])
            if key > after and not point[0]
        ]
        return [point[1:] for _, point in sorted(found, key=lambda one: one[0])]

    def visible(self):
        shown = {}
        for (path, family), ops in self.ops.items():
            # a digest belongs to the upload that it completes and is no operation of its own
            alive = [key for key, what, _ in ops if key > self._deleted(path) and what != "digest"]
            if alive and max(alive) > shown.get(path, (NEVER, ""))[0]:
                shown[path] = (max(alive), family)
        return {path: (family, self._value(path, family)) for path, (_, family) in shown.items()}

    def _value(self, path, family):
        after = self._after(path, family)
        ops = sorted((op for op in self.ops[path, family]), key=lambda op: op[0])
        newer = [op for op in ops if op[0] > after]
        if family.endswith("_series"):
            return self._series(family, newer)
        if family == "file":
            return self._file(ops)
        if family in ("atom", "artifact"):
            return newer[-1][2]
        if family == "statistic":
            return self._statistic([value[1] for _, _, value in newer if not value[0]])
        found = {}
        for _, what, value in newer:
            if what == "empty":
                found = {}
            elif what == "add":
                found[value] = True
            elif what == "remove":
                found.pop(value, None)
            elif value[1] is None:
                found.pop(value[0], None)
            else:
                found[value[0]] = value[1]
        return set(found) if family == "string_set" else found

    @staticmethod
    def _statistic(ops):
        """Merge the newest state of each part, in the order in which these were written."""
        newest = {}
        for op in ops:
            newest.pop(op["part"], None)
            newest[op["part"]] = op
        if not newest:
            return None
        kind = list(newest.values())[-1]["kind"]
        states = [op["state"] for op in newest.values() if op["kind"] == kind]
        found = {"count": sum(state["count"] for state in states), "last": states[-1]["last"]}
        if kind == "ring":
            found["values"] = [each for state in states for each in state["values"]][-3:]
        return kind, found

    @staticmethod
    def _file(ops):
        file, token = [value for _, what, value in ops if what == "set"][-1]
        done = [value[0] for _, what, value in ops if what == "digest" and value[1] == token]
        if done:
            return done[-1]
        return file if "sha256" in file else {**file, "pending": True}

    @staticmethod
    def _series(family, ops):
        shown = [((point[1], key), point[2]) for key, _, point in ops if not point[0]]
        points = sorted(shown, key=lambda one: one[0])
        steps = [step for (step, _), _ in points]
        ends = (steps[0], steps[-1]) if steps else (math.nan, math.nan)
        last = points[-1][1] if points else None
        if family != "float_series":
            return {"last": last, "count": len(points), "steps": ends}
        values = [value for _, value in points]
        finite = [value for value in values if math.isfinite(value)]
        mean = float(sum(map(Fraction, finite)) / len(finite)) if finite else math.nan
        return {
            "last": math.nan if last is None else last,
            "min": min(finite, default=math.nan),
            "max": max(finite, default=math.nan),
            "mean": mean,
            "count": len(values),
            "nan": sum(map(math.isnan, values)),
            "inf": sum(map(math.isinf, values)),
            "steps": ends,
        }
