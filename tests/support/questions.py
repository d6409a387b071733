"""A good question for every read of a server."""

from __future__ import annotations


def of_run(file, prefix=""):
    """Return the arguments of each read of one run, beside its project and id."""
    loss, lr, text = (f"{prefix}{name}" for name in ("loss", "lr", "text"))
    lines = {"file": file, "paths": [text]}
    plain = ("attributes", "facts", "families", "journals", "opening", "overview", "ranks")
    return {key: {} for key in (*plain, "stragglers")} | {
        "attribute": {"path": lr},
        "curve": {"path": loss, "points": 100},
        "drawing": {"path": loss, "look": {"window": 3}},
        "files": {"path": f"{prefix}f"},
        "has": {"path": lr},
        "histograms": {"path": f"{prefix}h"},
        "last": {"path": text},
        "log": {"path": [text]},
        "points": {"paths": [loss]},
        "some": {"paths": [loss, lr]},
        "text_begin": {**lines, "lines": 1},
        "text_page": lines,
        "texts": {"path": text},
    }


def of_many(project, run, prefix=""):
    """Return the arguments of each read of many runs; where some are named, of one."""
    loss, lr = f"{prefix}loss", f"{prefix}lr"
    refs = {"refs": [[project, run]]}
    everything = ("changes", "fields", "names", "paths", "projects", "select", "shared")
    return (
        {key: {} for key in everything}
        | dict.fromkeys(("crash_reasons", "losses", "series_paths"), refs)
        | {key: {**refs, "paths": [loss]} for key in ("attempts", "curves")}
        | {
            "group_curves": {"groups": [refs], "paths": [loss]},
            "groups": {"by": [lr], "columns": [f"{loss}:mean"]},
            "series": {**refs, "paths": ["*"]},
            "table": {"columns": [lr, loss, "sys/tags"]},
        }
    )
