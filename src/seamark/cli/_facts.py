"""What is known about one run or one attribute, in words."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

from seamark.cli._health import ailments, listed
from seamark.cli._json import dumps
from seamark.cli._machine import machine_lines
from seamark.cli._ranks import rank_facts, rank_troubles, seen_text
from seamark.cli._screen import STATE_STYLES, Screen, note
from seamark.cli._text import (
    clean,
    csv_safe,
    human_age,
    human_bytes,
    human_duration,
    human_number,
    human_time,
    int_text,
    plural,
    shorten,
    step_text,
)
from seamark.paths import kind_of, model_key
from seamark.process.crashes import (
    LIKELY_OUT_OF_MEMORY,
    LOST,
    OUT_OF_MEMORY,
    REBOOTED,
    SEGMENTATION_FAULT,
)
from seamark.reading.artifacts import label_of, source_label
from seamark.reading.attributes import DETAIL
from seamark.reading.names import generated_name
from seamark.reading.points import time_of
from seamark.reading.progress import PROGRESS, loops_of, progress_words
from seamark.store.read.rank_status import owning_processes, process_of
from seamark.values.keeping import Keep
from seamark.values.statistics import Statistics

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from seamark.cli._runs import RunRef
    from seamark.process.crashes import Crash
    from seamark.reading.attributes import Attribute
    from seamark.reading.reader import Reader

__all__ = [
    "CODE",
    "details",
    "ends",
    "exact_text",
    "extreme_text",
    "file_place",
    "file_words",
    "full_text",
    "indented",
    "last_text",
    "print_facts",
    "short_text",
    "span_text",
    "sparkline",
    "text_or_record",
    "time_text",
    "troubles",
    "value_text",
    "whole_text",
]

_SETS: Final = ("sys/tags", "sys/group_tags", "sys/masked")
CODE: Final = frozenset(
    f"source_code/{name}"
    for name in (
        *("entrypoint", "version"),
        *("git/branch", "git/commit", "git/dirty", "git/files_changed"),
    )
)
"""What the line about the code of a run tells."""
_BARS: Final = "▁▂▃▄▅▆▇█"
_LABEL: Final = 12
_COMMIT: Final = 8
_AROUND: Final = "/environment/"
"""Stands between the namespace of a process, which has its pid too, and what is around it."""
_CLUSTERS: Final = (
    ("slurm", "array_job_id", "array_task_id"),
    ("pbs", "array_job_id", "array_index"),
    ("lsf", "array_job_id", "array_index"),
    ("sge", "array_job_id", "task_id"),
)
"""Clusters, and what is shown of a job that is one of an array."""
_LONGEST_REASON: Final = 300


def value_text(value: Any, *, exact: bool) -> str:
    """Return a value in one line, safe to print.

    Args:
        value: A decoded atom, or a set of strings.
        exact: Numbers with all their digits, times as ISO 8601, instead of what is quickly read.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if exact else human_number(value, 6)
    if isinstance(value, int):
        return int_text(value) if exact else human_number(value)
    if isinstance(value, datetime):
        return value.isoformat() if exact else human_time(value)
    if isinstance(value, set | frozenset):
        return ", ".join(clean(str(item)) for item in sorted(value))
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Statistics) and value.count:
        mean, std = (value_text(one, exact=exact) for one in (value.mean, value.std))
        return f"{mean} ± {std}, {plural(value.count, 'observation')}"
    if isinstance(value, Keep):
        last = value_text(value.last, exact=exact)
        return f"{last}, {plural(value.count, 'observation')}"
    return clean(json.dumps(value, ensure_ascii=False, default=str))


def exact_text(value: Any) -> str:
    """Return a value for a CSV file: texts `csv_safe`, numbers with all digits, "" for None."""
    if value is None:
        return ""
    if isinstance(value, str):
        return csv_safe(value)
    if isinstance(value, list | tuple | Mapping):
        return dumps(value, indent=None)
    text = value_text(value, exact=True)
    return csv_safe(text) if isinstance(value, set | frozenset) else text


def short_text(attribute: Attribute, *, exact: bool) -> str:
    """Return the value of an atom or a string set in one line."""
    if attribute.type == "text" and isinstance(attribute.value, Mapping):
        return f"text of {human_bytes(attribute.value.get('size', 0))}"
    return value_text(attribute.value, exact=exact)


def full_text(view: Reader, attribute: Attribute) -> str:
    """Return the value of an atom as lines: JSON indented, texts with their line feeds."""
    value = attribute.value
    if isinstance(value, str) or attribute.type == "text":
        return whole_text(view, value)
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str, indent=2)
    return short_text(attribute, exact=True)


def time_text(time_ns: int) -> str:
    """Return a time, given in nanoseconds since the Unix epoch, in this computer's time zone."""
    return human_time(datetime.fromtimestamp(time_ns / 1e9, tz=timezone.utc))


def whole_text(view: Reader, text: str | Mapping[str, Any]) -> str:
    """Return a text in full; a very long one is kept as a file of the run.

    Raises:
        FileMissingError: If that file is not there.
    """
    if isinstance(text, str):
        return text
    return view.contents.text(text)


def text_or_record(view: Reader, text: str | Mapping[str, Any], path: str) -> Any:
    """Return a text in full; where it is not there, what stands for it, and say so."""
    try:
        return whole_text(view, text)
    except OSError as error:
        note(f"{view.name}: {path}: {error}; its record is used instead", style="warning")
        return dict(text) if isinstance(text, Mapping) else text


def extreme_text(value: float, number: Callable[[float], str]) -> str:
    """Return the smallest or largest finite value of a series; a dash where none is finite."""
    return "—" if math.isnan(value) else number(value)


def span_text(summary: Any) -> str:
    """Return the first and last step of a series: ``"0…1,874"``."""
    if not summary.count:
        return ""
    first, last = step_text(summary.first_step), step_text(summary.last_step)
    return first if first == last else f"{first}…{last}"


def last_text(attribute: Attribute) -> str:
    """Return the last point of a series of texts, files or histograms in one line."""
    last = attribute.value.last
    if isinstance(last, str):
        return clean(last)
    if isinstance(last, Mapping):
        return clean(str(last.get("name") or last.get("ext") or "file"))
    if isinstance(last, Sequence) and last:
        return f"{len(last[-1])} bins"
    return ""


def sparkline(values: NDArray[np.float64], width: int) -> str:
    """Return a curve as one line of up to ``width`` cells; ``·`` where nothing is finite."""
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
    top = len(_BARS) - 1
    return "".join(
        "·"
        if math.isnan(height)
        else _BARS[round((height / 2 - low / 2) / span * top) if span > 0 else 0]
        for height in heights
    )


# Files


def file_words(view: Reader, attribute: Attribute) -> tuple[str, str, str]:
    """Return size, whereabouts and name of a file, a file set or an artifact.

    The whereabouts are ``kept`` (in the run folder), ``reference`` (where it was recorded),
    ``gone`` or ``changed`` (a reference into the run folder, or one that you recorded on this host,
    to something that is no longer the same; of others nothing is looked at), ``pending``
    (bytes taken, digest not written yet), or ``missing`` (should be kept and is not).
    The name of a reference is where it leads: into the run folder as it is now, if it was recorded
    there, wherever the folder has been moved or copied since.
    """
    value = attribute.value
    if attribute.family == "file_set":
        size = sum(member.get("size", 0) for member in value.values())
        return human_bytes(size), "kept", plural(len(value), "file")
    if attribute.family == "artifact":
        files = value.get("files", [])
        size = sum(member.get("size") or 0 for member in files)
        if "of" in value:
            return "", value.get("kind", "tracked"), _source(value["of"])
        words = plural(len(files) + len(value.get("references", [])), "file")
        return human_bytes(size), value.get("kind", "tracked"), words
    size = human_bytes(value["size"]) if isinstance(value.get("size"), int) else ""
    return (
        size,
        view.contents.whereabouts(value),
        view.contents.referred(value) or _file_name(value),
    )


def file_place(view: Reader, name: str) -> str:
    """Return where a file is, relative to the run's folder if it lies in there."""
    return view.contents.shorter(name)


def _file_name(record: Mapping[str, Any]) -> str:
    name, ending = str(record.get("name") or "file"), record.get("ext")
    return name if not ending or name.endswith(f".{ending}") else f"{name}.{ending}"


def details(view: Reader, attribute: Attribute) -> Iterator[tuple[str, str]]:
    """Yield what is known about an attribute other than an atom or a series of numbers or texts."""
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
        yield from _kept_details(value)
    elif attribute.family == "file_series":
        for point in view.files(attribute.path):
            size, where = (
                human_bytes(point.file.get("size") or 0),
                view.contents.whereabouts(point.file),
            )
            yield f"step {step_text(point.step)}", f"{_file_name(point.file)}  {size}  {where}"
    else:
        yield "points", f"{attribute.value.count:,}"
        yield "steps", span_text(attribute.value)
        yield "last", last_text(attribute)


def _source(of: Mapping[str, Any]) -> str:
    return f"{str(of['kind']).replace('_', ' ')} {source_label(of)}"


def _artifact_details(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "kind", str(value.get("kind", "tracked"))
    if "of" in value:
        yield "what", _source(value["of"])
        yield "digest", str(value.get("hash", ""))
        return
    for reference in value.get("references", []):
        yield "reference", str(reference)
    for member in value.get("files", []):
        yield human_bytes(member.get("size") or 0), str(member["path"])


def _kept_details(value: Keep) -> Iterator[tuple[str, str]]:
    for name, found in value.to_dict().items():
        numbers = found if isinstance(found, list) else [found]
        yield name.replace("_", " "), ", ".join(value_text(one, exact=True) for one in numbers)


def _file_details(view: Reader, record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    where = view.contents.whereabouts(record)
    yield "name", _file_name(record)
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
    screen: Screen, ref: RunRef, view: Reader, more: Iterable[tuple[str, str]] = ()
) -> None:
    """Print the facts of a run, and in bold how it ended if that was bad.

    Args:
        screen: Where to print.
        ref: The run.
        view: What reads it.
        more: Labels and texts of further facts; they are broken into lines, not cut short.
    """
    facts = {one.path: one.value for one in view.attributes("sys") if _is_fact(one)}
    now = datetime.now(timezone.utc)
    kind = kind_of(ref.project, ref.run)
    state = str(facts.get("sys/state", "unknown" if kind == "run" else ""))
    name = facts.get("sys/name") or (ref.run if kind != "run" else None)
    screen.styled(
        [
            (clean(str(name)), "bold") if name else (generated_name(ref.run), "dim"),
            ("  ", ""),
            (state, STATE_STYLES.get(state, "")),
            (f" ({clean(str(facts[DETAIL]))})" if DETAIL in facts else "", ""),
            ("  trashed" if facts.get("sys/trashed") else "", "yellow"),
        ]
    )
    for trouble in ends(view, facts):
        screen.line(f"! {indented(trouble, 2)}", style="bold red")
    for label, text in _fact_lines(screen, ref, view, facts, now):
        screen.styled([(f"{label:<{_LABEL}}", "dim"), (indented(text, _LABEL), "")])
    for label, text in more:
        lines = textwrap.wrap(clean(text), max(20, screen.width - _LABEL)) or [""]
        for at, line in enumerate(lines):
            screen.styled([(f"{'' if at else label:<{_LABEL}}", "dim"), (line, "")])


def indented(text: str, width: int) -> str:
    """Return a text whose further lines are indented, so that none looks like a line of ours."""
    return text.replace("\n", "\n" + " " * width)


def _is_fact(attribute: Attribute) -> bool:
    """Whether what is below ``sys`` is what belongs there; anybody may have written it."""
    wanted = "string_set" if attribute.path in _SETS else "atom"
    return attribute.family == wanted


def _fact_lines(
    screen: Screen, ref: RunRef, view: Reader, facts: Mapping[str, Any], now: datetime
) -> Iterator[tuple[str, str]]:
    kind = kind_of(ref.project, ref.run)
    yield kind.rpartition("_")[2], str(ref)
    if kind == "model_version":
        yield "number", f"{model_key(ref.project, ref.run)}-{facts.get('sys/version', '?')}"
        yield "stage", clean(str(facts.get("sys/stage", "none")))
    if kind == "artifact":
        aliases = ", ".join(facts.get("sys/aliases") or ())
        told = label_of(ref.project, ref.run, facts.get("sys/version"))
        yield "version", f"{told} ({clean(aliases)})" if aliases else told
    yield from _given_lines(facts)
    moments = {"created": facts.get("sys/creation_time"), **_started(facts)}
    moments |= _changes(view, facts)
    for label, moment in moments.items():
        if isinstance(moment, datetime):
            yield (
                label,
                f"{human_time(moment)} ({human_age(moment, now)})"
                if screen.terminal
                else human_time(moment),
            )
    yield from _time_lines(facts)
    if attempts := _attempts(view):
        yield "attempts", attempts
    if facts.get("sys/hostname"):
        on = _devices(view)
        host = str(facts["sys/hostname"]) + (f" ({on})" if on else "")
        yield "host", " · ".join([host, *_surroundings(view)])
    yield from machine_lines(view.attributes("monitoring"), view.ranks())
    if code := _code(view):
        yield "code", code
    yield from rank_facts(view, str(facts.get("sys/state")))
    if hidden := sorted(facts.get("sys/masked") or ()):
        yield "masked", f"{plural(len(hidden), 'value')} ({listed(hidden)})"
    yield view.contents.kind, view.contents.where


def _time_lines(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if isinstance(facts.get("sys/running_time"), int | float):
        yield "ran for", human_duration(float(facts["sys/running_time"]))
    loops = loops_of(facts.get(PROGRESS)) if facts.get("sys/state") == "running" else []
    if loops:
        yield "progress", clean(progress_words(loops))


def _started(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return when a run began that was recorded a while before; nothing of others."""
    created, started = facts.get("sys/creation_time"), facts.get("sys/start_time")
    if not isinstance(created, datetime) or not isinstance(started, datetime):
        return {}
    return {"started": started} if started - created >= timedelta(seconds=1) else {}


def _changes(view: Reader, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return when the run itself last recorded something, and when others changed it after that.

    A tag that somebody adds to a dead run does not make it look alive.
    """
    modified = facts.get("sys/modification_time")
    headers = [(one.header, one.last_t) for one in view.journals()]
    own = [t_ns for head, t_ns in headers if head.get("owner", True) or head.get("rank")]
    last = time_of(max(own)) if own else modified
    edited = isinstance(modified, datetime) and modified != last
    return {"last record": last, **({"edited": modified} if edited else {})}


def _given_lines(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what people gave the run beside its name."""
    if by := facts.get("sys/claimed_by"):
        gone = ", which crashed" if facts.get("sys/state") == "crashed" else ""
        yield "claimed by", clean(str(by)) + gone
    if isinstance(number := facts.get("sys/revision"), int) and number > 1:
        yield "revision", f"{number}, as begun with the parameters and code of an earlier run"
    for label, path in (("custom id", "sys/custom_run_id"), ("description", "sys/description")):
        if facts.get(path):
            yield label, str(facts[path])
    if isinstance(inherited := facts.get("sys/inherited_tags"), dict):
        told = [
            f"{key} = {value_text(one['value'], exact=False)} ({one['project']})"
            for key, one in sorted(inherited.items())
            if isinstance(one, dict) and {"value", "project"} <= one.keys()
        ]
        if told:
            yield "inherited", clean(", ".join(told))
    for label, path in (("tags", "sys/tags"), ("groups", "sys/group_tags")):
        if facts.get(path):
            yield label, ", ".join(sorted(facts[path]))


def _attempts(view: Reader) -> str:
    """Return how often the training was begun, and where the last attempt went on; "" if once."""
    headers = [one.header for one in view.journals()]
    numbers = {
        one for header in headers if isinstance(one := header.get("attempt"), int) and one >= 0
    }
    if len(numbers) < 2:  # noqa: PLR2004 - once
        return ""
    last = max(numbers)
    if not any(one.get("positions") for one in headers if one.get("attempt") == last):
        return f"{len(numbers):,} (the last began anew)"
    series = [one for one in view.attributes() if one.family == "float_series" and one.value.count]
    longest = max(series, key=lambda one: (one.value.last_step, one.value.count), default=None)
    if longest is None:
        return f"{len(numbers):,}"
    points = view.points(longest.path)
    before = points.step[(points.attempt >= 0) & (points.attempt < last)]
    kept = f" (resumed after step {_step(before.max())})" if len(before) else ""
    return f"{len(numbers):,}{kept}"


def _step(step: float) -> str:
    """Return a step to be read: ``4,000``."""
    text = step_text(step)
    return f"{int(text):,}" if text.lstrip("-").isdecimal() else text


def _code(view: Reader) -> str:
    """Return what was executed: ``"main.py · 3f2a91c0 (main, 2 files changed: diff kept) · ..."``.

    Empty if none of it was recorded.
    """
    found = {one.path: one for one in view.attributes("source_code")}

    def text(name: str) -> str:
        one = found.get(f"source_code/{name}")
        return shorten(clean(one.value), 60) if one and isinstance(one.value, str) else ""

    words = [text("entrypoint"), _commit(found, text)]
    if version := text("version"):
        words.append(f"version {version}")
    return " · ".join(word for word in words if word)


def _commit(found: Mapping[str, Attribute], text: Callable[[str], str]) -> str:
    """Return commit, branch and what has changed since; empty outside of a repository."""
    commit, branch = text("git/commit")[:_COMMIT], text("git/branch")
    if not commit and not branch:
        return ""
    values = {path: one.value for path, one in found.items() if one.family == "atom"}
    files = values.get("source_code/git/files_changed")
    words = [branch] if branch else []
    if isinstance(files, int) and files > 0:
        diff = found.get("source_code/diff")
        kept = ": diff kept" if diff is not None and diff.family == "file" else ""
        part = ", not all of it" if kept and "source_code/diff_left_out" in values else ""
        words.append(f"{plural(files, 'file')} changed{kept}{part}")
    elif values.get("source_code/git/dirty") is True:
        words.append("changed")
    return f"{commit or 'no commit'}" + (f" ({', '.join(words)})" if words else "")


def _devices(view: Reader) -> str:
    """Return what a training ran on: ``"1 process, cpu"``; "" if that was not recorded."""
    found = {
        one.path.rpartition("/")[2]: one.value
        for one in view.attributes("distributed")
        if one.family == "atom" and isinstance(one.value, int | str)
    }
    size, nodes = found.get("world_size"), found.get("nodes")
    if not isinstance(size, int):
        return ""
    words = [plural(size, "process", "processes")]
    if isinstance(nodes, int) and nodes > 1:
        words[0] += f" on {nodes:,} nodes"
    words += [str(found[name]) for name in ("accelerator",) if name in found]
    if size > 1 and "strategy" in found:
        words.append(str(found["strategy"]))
    if not str(found.get("precision", "32")).startswith("32"):
        words.append(f"precision {found['precision']}")
    return ", ".join(words)


def troubles(view: Reader, facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each thing that a reader must know: a bad end, losses, damage."""
    yield from ends(view, facts)
    for one in ailments(view):
        yield one.text


def _surroundings(view: Reader) -> Iterator[str]:
    """Yield what the process that trained the run was in: a job, a container, a service, torch."""
    told = _environment(view)
    for cluster, of_array, task in _CLUSTERS:
        if number := told.get(f"{cluster}/{of_array}") or told.get(f"{cluster}/job_id"):
            index = told.get(f"{cluster}/{task}", "")
            whole = f"{number}_{index}" if index and told.get(f"{cluster}/{of_array}") else number
            yield f"{cluster.upper()} {whole}"
    if pod := told.get("kubernetes/pod"):
        yield "/".join(filter(None, ("Kubernetes " + told.get("kubernetes/namespace", ""), pod)))
    if container := told.get("container"):
        image = told.get("container_image")
        yield f"{container} {image}" if image else container
    if service := told.get("service"):
        yield service
    if torch := told.get("torch/version"):
        yield f"torch {torch}"


def _environment(view: Reader) -> dict[str, str]:
    """Return what the process told of where it ran that spoke for the run last, by name."""
    journals = {one.writer: one for one in view.journals()}
    owners = owning_processes(one.header for one in journals.values())
    families = view.families()
    paths = [path for path in families if f"{path.partition(_AROUND)[0]}/pid" in families]
    found: dict[str, dict[str, str]] = {}
    for one in view.some([path for path in paths if _AROUND in path]):
        space, _, name = one.path.partition(_AROUND)
        if isinstance(one.value, str):
            found.setdefault(space, {})[name] = one.value

    def order(space: str) -> tuple[bool, int, int]:
        """Return what puts owners last, and of them the newest; a chosen namespace before ranks."""
        one = journals.get(space.rpartition("/")[2])
        owner = one is not None and process_of(one.header) in owners
        rank = one.header.get("rank") if one is not None else 0
        return owner, -rank if isinstance(rank, int) else 0, one.last_t if one is not None else 0

    return found[max(found, key=order)] if found else {}


def ends(view: Reader, facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each bad end: that of the run, and those of its ranks."""
    state = facts.get("sys/state")
    if state == "crashed" and (crash := view.crash()) is not None:
        yield _crash(crash, view.now_ns)
    if state in {"failed", "interrupted"}:
        yield _ending(view, state)
    yield from rank_troubles(view, str(state))


def _crash(crash: Crash, now_ns: int) -> str:
    """Return how a run ended that did not say so; no more than is known."""
    host = crash.host or "its host"
    who = f"pid {crash.pid} on {host}"
    seen = f"last sign of life {seen_text(crash.last_t, now_ns)}"
    if crash.reason == OUT_OF_MEMORY:
        why = f"out of memory: the kernel killed its process ({who})"
    elif crash.reason == LIKELY_OUT_OF_MEMORY:
        why = (
            f"likely out of memory: its process ({who}) is gone, and since it began the kernel has "
            "killed one in its job or container because there was no memory left"
        )
    elif crash.reason == SEGMENTATION_FAULT:
        why = f"segmentation fault: an error in C code ended its process ({who})"
    elif crash.reason == REBOOTED:
        why = f"host rebooted: {host} has been started again since"
    elif crash.reason == LOST:
        where = crash.detail or f"whether its process ({who}) lives cannot be seen from here"
        why = f"heartbeat lost: not heard from since; {where}"
    else:
        why = (
            f"its process ended without reporting why ({who}): killed (SIGKILL), os._exit, or an "
            "error in C code"
        ) + (f"; {crash.detail}" if crash.detail else "")
    return f"crashed: {why}; {seen}"


def _ending(view: Reader, state: str) -> str:
    """Return how a run ended, and where to read more."""
    reason, signal = view.reason, view.signal
    why = f" by {signal}" if signal else f": {reason}" if reason else ""
    path = view.traceback
    where = f" (seamark show {view.name} {path})" if path else ""
    return shorten(f"{state}{why}".splitlines()[0], _LONGEST_REASON) + where
