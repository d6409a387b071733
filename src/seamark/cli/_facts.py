"""Facts about a run as lines of text, for ``seamark show`` and ``seamark watch``."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from seamark.cli._health import health_problems
from seamark.cli._screen import LABEL, STATE_STYLES, Cell, Column, Screen, dumps, listed, note
from seamark.paths import kind_of, model_key
from seamark.process.liveness import (
    GONE,
    LIKELY_OUT_OF_MEMORY,
    LOST,
    OUT_OF_MEMORY,
    REBOOTED,
    SEGMENTATION_FAULT,
)
from seamark.reading.attributes import CHANGES
from seamark.reading.contents import label_of, source_label
from seamark.reading.facts import health_of, is_parameter, machine_lines
from seamark.reading.names import generated_name
from seamark.reading.rank_text import rank_facts, rank_problems
from seamark.reading.text import (
    clean,
    csv_safe,
    duration_words,
    file_name,
    human_bytes,
    human_number,
    last_text,
    plural,
    seen_text,
    short_text,
    shorten,
    step_text,
    time_text,
    unit_of,
    value_text,
)
from seamark.remote.protocol import RemoteError
from seamark.values.aggregates import Keep

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from seamark.cli._runs import RunRef
    from seamark.process.liveness import Crash
    from seamark.reading.attributes import Attribute
    from seamark.reading.curves import Curve
    from seamark.reading.reader import Reader
    from seamark.reading.report import Report


CODE: Final = frozenset(
    f"source_code/{name}"
    for name in (
        *("entrypoint", "version"),
        *("git/branch", "git/commit", "git/dirty", "git/files_changed"),
    )
)
"""Attributes shown in the line about a run's code."""
_BAR_CHARACTERS: Final = "▁▂▃▄▅▆▇█"
_SPARK_CELLS: Final = 24
_SHORT_SPARK_CELLS: Final = 14
_WIDE_CELLS: Final = 100
"""Terminal width, in cells, from which the wider sparkline is drawn.
"""
_MAX_CURVES: Final = 100
"""Maximum number of series shown with a curve: reading points takes time."""
BEST: Final = "bold green"
_COMMIT_LENGTH: Final = 8
_CLUSTERS: Final = (
    ("slurm", "array_job_id", "array_task_id"),
    ("pbs", "array_job_id", "array_index"),
    ("lsf", "array_job_id", "array_index"),
    ("sge", "array_job_id", "task_id"),
)
"""Cluster systems, each with the attributes for the id and the index of an array job."""
_MAX_REASON_CHARACTERS: Final = 300
_HEARTBEAT: Final = "heartbeat lost"
_CRASHES: Final = {
    OUT_OF_MEMORY: "out of memory: the kernel killed its process ({who})",
    LIKELY_OUT_OF_MEMORY: "likely out of memory: its process ({who}) has ended, and since its "
    "start the kernel has killed a process of its job or container for lack of memory",
    SEGMENTATION_FAULT: "segmentation fault: an error in C code ended its process ({who})",
    REBOOTED: "host rebooted: {host} has restarted",
    LOST: f"{_HEARTBEAT}; whether its process ({{who}}) is alive cannot be checked from here",
    GONE: "its process ended without reporting why ({who}): killed (SIGKILL), os._exit, or an "
    "error in C code",
}


def exact_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return csv_safe(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list | tuple | Mapping):
        return dumps(value, indent=None)
    text = value_text(value, exact=True)
    return csv_safe(text) if isinstance(value, set | frozenset) else text


def full_text(view: Reader, attribute: Attribute) -> str:
    value = attribute.value
    if isinstance(value, str) or attribute.type == "text":
        return whole_text(view, value)
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str, indent=2)
    return short_text(attribute, exact=True)


def whole_text(view: Reader, text: str | Mapping[str, Any]) -> str:
    return text if isinstance(text, str) else view.contents.text(text)


def text_or_record(view: Reader, text: str | Mapping[str, Any], path: str) -> Any:
    """Return a text in full; if it cannot be read, print a warning and return its record."""
    try:
        return whole_text(view, text)
    except RemoteError:
        raise
    except OSError as error:
        note(f"{view.name}: {path}: {error}; its record is used instead", style="warning")
        return dict(text) if isinstance(text, Mapping) else text


def changes_of(view: Reader, attributes: Sequence[Attribute]) -> Mapping[str, Any]:
    """Return the changes of parameters, by path; nothing is read if there are no parameters."""
    found = view.attribute(CHANGES) if any(map(is_parameter, attributes)) else None
    return found.value if found is not None and isinstance(found.value, dict) else {}


def change_text(changes: Mapping[str, Any], path: str, *, exact: bool) -> str:
    """Return the previous value of a parameter; empty if it was never changed."""
    history = changes.get(path, ())
    if len(history) < 2:  # noqa: PLR2004 - one before and one after
        return ""
    was = value_text(history[-2]["value"], exact=exact)
    until = value_text(datetime.fromisoformat(history[-1]["time"]), exact=exact)
    more = f", {plural(len(history) - 1, 'change')}" if len(history) > 2 else ""  # noqa: PLR2004
    return f"was {was} until {until}{more}"


def extreme_text(value: float, number: Callable[[float], str]) -> str:
    return "—" if math.isnan(value) else number(value)


def span_text(summary: Any) -> str:
    """Return the first and last step of a series: ``"0…1,874"``."""
    if not summary.count:
        return ""
    first, last = step_text(summary.first_step), step_text(summary.last_step)
    return first if first == last else f"{first}…{last}"


def sparkline(values: NDArray[np.float64], width: int) -> str:
    """Return a curve as a line of up to ``width`` cells; ``·`` for parts without finite values."""
    import numpy as np

    if not len(values):
        return ""
    parts = np.array_split(values, min(width, len(values)))
    finite = [part[np.isfinite(part)] for part in parts]
    heights = [float((part / len(part)).sum()) if len(part) else math.nan for part in finite]
    known = [height for height in heights if math.isfinite(height)]
    if not known:
        return "·" * len(heights)
    low, span = min(known), (max(known) / 2 - min(known) / 2)
    top = len(_BAR_CHARACTERS) - 1
    return "".join(
        "·"
        if math.isnan(height)
        else _BAR_CHARACTERS[round((height / 2 - low / 2) / span * top) if span > 0 else 0]
        for height in heights
    )


def print_series(
    screen: Screen,
    curve_of: Callable[[str, int], Curve],
    attributes: Sequence[Attribute],
    best_of: Mapping[str, str] | None = None,
    *,
    indent: int = 0,
) -> None:
    """Print a table of series; ``best_of`` maps paths to the better of ``"min"`` and ``"max"``."""
    best_of = best_of or {}
    number_of_any: Callable[[float], str] = human_number if screen.terminal else repr
    units = [unit_of(attribute.path) for attribute in attributes]
    marked = any(attribute.path in best_of for attribute in attributes)
    drawn = screen.terminal and len(attributes) <= _MAX_CURVES
    spark = _SPARK_CELLS if screen.width >= _WIDE_CELLS else _SHORT_SPARK_CELLS
    columns = [
        Column("PATH", shrink=True, path=True),
        Column("LAST", right=True),
        Column("MIN", right=True, rank=2),
        Column("MAX", right=True, rank=2),
        *([Column("UNIT")] if any(units) else ()),
        *([Column("BEST", rank=3)] if marked else ()),
        Column("POINTS", right=True, rank=1),
        Column("STEPS", rank=4),
        *([Column("CURVE", rank=5)] if drawn else ()),
    ]
    rows = []
    for attribute, unit in zip(attributes, units, strict=True):
        summary, best = attribute.value, best_of.get(attribute.path, "")
        number = rounded if unit else number_of_any
        odd = summary.nan_count + summary.inf_count
        points = f"{summary.count:,}" + (f" ({odd:,} not finite)" if odd else "")
        row = [
            Cell(clean(attribute.path)),
            Cell(number(summary.last), "bold"),
            Cell(extreme_text(summary.min, number), BEST if best == "min" else ""),
            Cell(extreme_text(summary.max, number), BEST if best == "max" else ""),
            *([Cell(unit, "dim")] if any(units) else ()),
            *([Cell(best, BEST)] if marked else ()),
            Cell(points, "yellow" if odd else ""),
            Cell(span_text(summary), "dim"),
            *(
                [Cell(sparkline(curve_of(attribute.path, 4 * spark).mean, spark), "cyan")]
                if drawn
                else ()
            ),
        ]
        rows.append(row)
    screen.table(columns, rows, indent=indent)


def rounded(value: float) -> str:
    # for measurements of a machine: further digits are not significant
    return human_number(value, 4)


# Files


def file_words(view: Reader, attribute: Attribute) -> tuple[str, str, str]:
    """Return size, storage state and name of a file, a file set or an artifact.

    The state is ``kept`` (in the run folder), ``reference`` (at its original location), ``gone`` or
    ``changed`` (the target of a reference into the run folder, or of one from this host),
    ``pending`` (bytes copied, digest not recorded yet), or ``missing`` (stored, but not in the run
    folder). The name of a reference is its target.
    """
    value = attribute.value
    if attribute.family == "file_set":
        size = sum(member.get("size", 0) for member in value.values())
        return human_bytes(size), "kept", plural(len(value), "file")
    if attribute.family == "artifact":
        files = value.get("files", [])
        size = sum(member.get("size") or 0 for member in files)
        if "of" in value:
            return "", value.get("kind", "tracked"), _source_text(value["of"])
        words = plural(len(files) + len(value.get("references", [])), "file")
        return human_bytes(size), value.get("kind", "tracked"), words
    size = human_bytes(value["size"]) if isinstance(value.get("size"), int) else ""
    return (
        size,
        view.contents.whereabouts(value),
        view.contents.referred(value) or file_name(value),
    )


def details(view: Reader, attribute: Attribute) -> Iterator[tuple[str, str]]:
    yield "path", attribute.path
    yield "family", attribute.family.replace("_", " ")
    value = attribute.value
    if attribute.family == "string_set":
        yield "members", ", ".join(sorted(value))
    elif attribute.family == "file":
        yield from _file_details(view, value)
    elif attribute.family == "file_set":
        for name, member in sorted(value.items()):
            yield human_bytes(member.get("size", 0)), name
    elif attribute.family == "artifact":
        yield from _artifact_details(value)
    elif isinstance(value, Keep):
        for name, found in value.to_dict().items():
            numbers = found if isinstance(found, list) else [found]
            yield name.replace("_", " "), ", ".join(value_text(one, exact=True) for one in numbers)
    elif attribute.family == "file_series":
        for point in view.files(attribute.path):
            size, where = point.file.get("size") or 0, view.contents.whereabouts(point.file)
            words = f"{file_name(point.file)}  {human_bytes(size)}  {where}"
            yield f"step {step_text(point.step)}", words
    else:
        yield "points", f"{attribute.value.count:,}"
        yield "steps", span_text(attribute.value)
        yield "last", last_text(attribute.value)


def _source_text(of: Mapping[str, Any]) -> str:
    return f"{str(of['kind']).replace('_', ' ')} {source_label(of)}"


def _artifact_details(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "kind", str(value.get("kind", "tracked"))
    if "of" in value:
        yield "what", _source_text(value["of"])
        yield "digest", str(value.get("hash", ""))
        return
    for reference in value.get("references", []):
        yield "reference", str(reference)
    for member in value.get("files", []):
        yield human_bytes(member.get("size") or 0), str(member["path"])


def _file_details(view: Reader, record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    where = view.contents.whereabouts(record)
    yield "name", file_name(record)
    if isinstance(record.get("size"), int):
        yield "size", f"{record['size']:,} bytes"
    yield "where", where
    if "ref" in record:
        yield "refers to", str(record["ref"])
        if (place := view.contents.referred(record)) != str(record["ref"]):
            yield "is at", place
    if digest := record.get("sha256"):
        yield "sha256", str(digest)
        if "ref" not in record:
            yield "stored at", view.contents.stored_at(str(digest))
    for name, member in sorted((record.get("members") or {}).items()):
        yield human_bytes(member[0] or 0), name


# The run as a whole


def print_facts(
    screen: Screen,
    ref: RunRef,
    view: Reader,
    report: Report,
    attributes: Sequence[Attribute],
    more: Iterable[tuple[str, str]] = (),
) -> None:
    """Print the facts of a run; a failure is printed in bold."""
    kind = kind_of(*ref)
    state = str(report["state"] or ("unknown" if kind == "run" else ""))
    name = report["name"] or (ref.run if kind != "run" else None)
    detail = report["detail"]
    screen.styled(
        [
            (clean(str(name)), "bold") if name else (generated_name(ref.run), "dim"),
            ("  ", ""),
            (state, STATE_STYLES.get(state, "")),
            (f" ({clean(str(detail))})" if detail is not None else "", ""),
            ("  trashed" if report["trashed"] else "", "yellow"),
        ]
    )
    for problem in _end_lines(view, report["state"]):
        screen.line(f"! {problem}".replace("\n", "\n  "), style="bold red")
    for label, text in _fact_lines(screen, ref, view, report, attributes):
        screen.fact(label, text)
    for label, text in more:
        screen.fact(label, "\n".join(textwrap.wrap(clean(text), max(20, screen.width - LABEL))))


def _fact_lines(
    screen: Screen, ref: RunRef, view: Reader, report: Report, attributes: Sequence[Attribute]
) -> Iterator[tuple[str, str]]:
    yield from _version_lines(ref, report)
    yield from _given_lines(report)
    created, started = report["creation_time"], report["start_time"]
    if not (_is_moment(created, started) and started - created >= timedelta(seconds=1)):
        started = None  # shown only if the run started later than it was created
    moments = {"created": created, "started": started, "last record": report["last_record"]}
    moments["edited"] = report["edited"]
    for label, moment in moments.items():
        if _is_moment(moment):
            t_ns = round(moment.timestamp() * 1e9)
            yield label, seen_text(t_ns, view.now_ns) if screen.terminal else time_text(t_ns)
    if isinstance(report["running_time_s"], int | float):
        yield "ran for", duration_words(float(report["running_time_s"]))
    if report["progress"]:
        yield "progress", clean(report["progress"])
    if attempts := _attempts_text(report["attempts"]):
        yield "attempts", attempts
    if report["hostname"]:
        on = _device_text(report["distribution"])
        host = str(report["hostname"]) + (f" ({on})" if on else "")
        yield "host", " · ".join([host, *_environment_words(report["environment"])])
    yield from machine_lines(attributes, view.ranks())
    if code := _code_text(report["code"]):
        yield "code", code
    yield from rank_facts(view, str(report["state"]))
    if hidden := report["masked"]:
        yield "masked", f"{plural(len(hidden), 'value')} ({listed(hidden)})"
    yield view.contents.kind, view.contents.where


def _is_moment(*values: Any) -> bool:
    return all(isinstance(one, datetime) for one in values)


def _version_lines(ref: RunRef, report: Report) -> Iterator[tuple[str, str]]:
    kind = kind_of(*ref)
    yield kind.rpartition("_")[2], str(ref)
    if kind == "model_version":
        yield "number", f"{model_key(ref.project, ref.run)}-{report.get('number', '?')}"
        yield "stage", clean(str(report.get("stage", "none")))
    if kind == "artifact":
        aliases = ", ".join(report.get("aliases") or ())
        label = label_of(ref.project, ref.run, report.get("number"))
        yield "version", f"{label} ({clean(aliases)})" if aliases else label


def _given_lines(report: Report) -> Iterator[tuple[str, str]]:
    if by := report["claimed_by"]:
        gone = ", which crashed" if report["state"] == "crashed" else ""
        yield "claimed by", clean(str(by)) + gone
    if isinstance(number := report["revision"], int) and number > 1:
        yield "revision", f"{number}, with the parameters and code of an earlier run"
    for label, name in (("custom id", "custom_id"), ("description", "description")):
        if report[name]:
            yield label, str(report[name])
    inherited = [
        f"{key} = {value_text(one['value'], exact=False)} ({one['project']})"
        for key, one in sorted(report["inherited_tags"].items())
        if isinstance(one, dict) and {"value", "project"} <= one.keys()
    ]
    if inherited:
        yield "inherited", clean(", ".join(inherited))
    for name in ("tags", "groups"):
        if report[name]:
            yield name, ", ".join(report[name])


def _attempts_text(attempts: Mapping[str, Any]) -> str:
    if "resumed_after" in attempts:
        step = step_text(attempts["resumed_after"])
        step = f"{int(step):,}" if step.lstrip("-").isdecimal() else step
        return f"{attempts['count']:,} (resumed after step {step})"
    anew = " (the last one started from the beginning)" if attempts.get("anew") else ""
    return f"{attempts['count']:,}{anew}" if attempts else ""


def _code_text(code: Mapping[str, Any]) -> str:
    """Return a text for the code: ``"main.py · 3f2a91c0 (main, 2 files changed: diff kept)"``."""
    names = ("entrypoint", "commit", "branch", "version")
    script, commit, branch, version = (shorten(clean(code.get(one, "")), 60) for one in names)
    words = [branch] if branch else []
    if "files_changed" in code:
        kept = {"kept": ": diff kept", "partly": ": part of the diff kept"}
        diff = kept.get(code.get("diff", ""), "")
        words.append(f"{plural(code['files_changed'], 'file')} changed{diff}")
    elif code.get("dirty"):
        words.append("changed")
    if commit or branch:
        commit = (commit[:_COMMIT_LENGTH] or "no commit") + (
            f" ({', '.join(words)})" if words else ""
        )
    parts = (script, commit, f"version {version}" if version else "")
    return " · ".join(filter(None, parts))


def _device_text(found: Mapping[str, int | str]) -> str:
    size, nodes = found.get("world_size"), found.get("nodes")
    if not isinstance(size, int):
        return ""
    several = f" on {nodes:,} nodes" if isinstance(nodes, int) and nodes > 1 else ""
    words = [plural(size, "process", "processes") + several]
    shown = ("accelerator", "strategy") if size > 1 else ("accelerator",)
    words += [str(found[name]) for name in shown if name in found]
    if not str(found.get("precision", "32")).startswith("32"):
        words.append(f"precision {found['precision']}")
    return ", ".join(words)


def problems(view: Reader, state: str) -> Iterator[str]:
    yield from _end_lines(view, state)
    for one in health_problems(health_of(view)):
        yield one.text


def _environment_words(facts: Mapping[str, str]) -> Iterator[str]:
    for cluster, of_array, task in _CLUSTERS:
        array, index = (
            facts.get(f"{cluster}/{of_array}"),
            facts.get(f"{cluster}/{task}"),
        )
        if number := array or facts.get(f"{cluster}/job_id"):
            yield f"{cluster.upper()} {number}" + (f"_{index}" if array and index else "")
    if pod := facts.get("kubernetes/pod"):
        yield "/".join(filter(None, ("Kubernetes " + facts.get("kubernetes/namespace", ""), pod)))
    if container := facts.get("container"):
        yield " ".join(filter(None, (container, facts.get("container_image"))))
    if service := facts.get("service"):
        yield service
    if torch := facts.get("torch/version"):
        yield f"torch {torch}"


def _end_lines(view: Reader, state: str | None) -> Iterator[str]:
    if state == "crashed" and (crash := view.crash()) is not None:
        yield _crash_text(crash, view.now_ns)
    if state in {"failed", "interrupted"}:
        yield _ending_text(view, state)
    yield from rank_problems(view, str(state))


def _crash_text(crash: Crash, now_ns: int) -> str:
    host = crash.host or "its host"
    why = _CRASHES[crash.reason].format(who=f"pid {crash.pid} on {host}", host=host)
    if crash.detail and crash.reason in (GONE, LOST):
        why = f"{why if crash.reason == GONE else _HEARTBEAT}; {crash.detail}"
    return f"crashed: {why}; last sign of life {seen_text(crash.last_t, now_ns)}"


def _ending_text(view: Reader, state: str) -> str:
    reason, signal = view.reason, view.signal
    why = f" by {signal}" if signal else f": {reason}" if reason else ""
    path = view.traceback
    where = f" (seamark show {view.name} {path})" if path else ""
    return shorten(f"{state}{why}".splitlines()[0], _MAX_REASON_CHARACTERS) + where
