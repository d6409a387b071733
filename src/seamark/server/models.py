"""Models of answers, for the API description; `seamark.reading.wire` makes and checks answers."""

from __future__ import annotations

from types import GenericAlias
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

__all__ = ["MODELS", "Failure", "answers"]


_model: Any = create_model  # whose fields no type checker can know


def _list(kind: Any) -> Any:
    """Return the type of lists of what was made at run time, which no type checker can know."""
    return GenericAlias(list, (kind,))


def _dict(kind: Any) -> Any:
    """Return the type of what is kept by name."""
    return GenericAlias(dict, (str, kind))


class _Wire(BaseModel):
    model_config = ConfigDict(extra="allow", arbitrary_types_allowed=False)


class Failure(_Wire):
    """Reason why a request failed.

    Attributes:
        error: A short code for programs.
        hint: A sentence that says what to do.
    """

    error: str
    hint: str


def _shape(name: str, about: str, /, **fields: Any) -> Any:
    """Return the model of a class of `seamark.reading.wire`, all of whose fields are there."""
    tag = (Literal[name], Field(alias="$"))
    given = {key: (kind, ...) for key, kind in fields.items()}
    return _model(name, __base__=_Wire, __doc__=about, tag=tag, **given)


def _envelope(name: str, about: str, /, **fields: Any) -> Any:
    """Return the model of an answer."""
    given = {key: (kind, ...) for key, kind in fields.items()}
    return _model(name, __base__=_Wire, __doc__=about, **given)


Value: Any = Annotated[
    Any,
    Field(
        description=(
            "A text, a boolean, null, a finite float, an int below 2**53, a list or an object of "
            'these, or an object with the key "$": see the fields `$` and `v` of Special.'
        )
    ),
]
Ref: Any = Annotated[list[str], Field(min_length=2, max_length=2, description="Project, run id.")]
Special: Any = _model(
    "Special",
    __base__=_Wire,
    __doc__="What JSON cannot write by itself.",
    tag=(
        Literal["float", "int", "datetime", "set", "strings", "tuple", "dict", "f8", "i8"],
        Field(alias="$"),
    ),
    v=(Any, ...),
)
Number: Any = float | int | Special
Floats: Any = _model(
    "Floats",
    __base__=_Wire,
    __doc__="float64 values: base64 of little-endian bytes; a list with ?arrays=json.",
    tag=(Literal["f8"], Field(alias="$")),
    v=(str | list[float | str], ...),
)
Ints: Any = _model(
    "Ints",
    __base__=_Wire,
    __doc__="int64 values: base64 of little-endian bytes; a list with ?arrays=json.",
    tag=(Literal["i8"], Field(alias="$")),
    v=(str | list[int], ...),
)
_at: Final = {"step": Number, "time_ns": int | Special, "attempt": int}
Attribute: Any = _shape(
    "Attribute", "What a path shows.", path=str, family=str, type=str, value=Value
)
JournalInfo: Any = _shape(
    "JournalInfo",
    "What is known of one journal; offsets in bytes, times in ns since the Unix epoch.",
    writer=str,
    file=str,
    header=dict[str, Any],
    offset=int,
    last_t=int | Special,
    closed=bool,
    gaps=list[Any],
    dropped=dict[str, int],
    errors=int,
    notes=list[Any],
    stopped=str | None,
    unknown=dict[str, int],
)
Points: Any = _shape(
    "Points", "Points of a float series.", step=Floats, value=Floats, time_ns=Ints, attempt=Ints
)
TextPoint: Any = _shape("TextPoint", "A text of a series.", **_at, text=str | dict[str, Any])
FilePoint: Any = _shape(
    "FilePoint",
    "A file of a series.",
    **_at,
    file=dict[str, Any],
    name=str | None,
    description=str | None,
)
HistogramPoint: Any = _shape(
    "HistogramPoint", "n + 1 edges and n counts.", **_at, edges=_list(Number), counts=_list(Number)
)
TextPage: Any = _shape("TextPage", "Texts of a journal.", points=list[Any], end=int, more=bool)
Curve: Any = _shape(
    "Curve",
    "A series in parts; see seamark.reading.curves.Curve.",
    width=Number,
    **dict.fromkeys(
        ("first_step", "last_step", "min", "max", "min_step", "max_step", "mean"), Floats
    ),
    **dict.fromkeys(("count", "nan_count", "inf_count"), Ints),
)
Drawing: Any = _shape(
    "Drawing",
    "A series along an axis; see seamark.reading.curves.Drawing.",
    curve=Curve,
    x=Floats,
    mean=Floats | None,
    plus_inf=Floats,
    minus_inf=Floats,
    left_out=int,
    not_positive=int,
    falls=bool,
    ends=Value,
    kept=int,
)
RunCurve: Any = _shape(
    "RunCurve",
    "One series; cursor: to ask with for what changed since.",
    project=str,
    run=str,
    path=str,
    drawing=Drawing,
    cursor=str,
)
GroupCurve: Any = _shape(
    "GroupCurve",
    "What a series of several runs comes to; see seamark.reading.drawn.GroupCurve.",
    path=str,
    by=dict[str, Any],
    runs=list[Any],
    width=Number,
    n=Ints,
    **dict.fromkeys(("x", "mean", "std", "min", "max"), Floats),
)
RunNames: Any = _model(
    "RunNames",
    __base__=_Wire,
    __doc__="What runs are called, a list a field.",
    tag=(Literal["rows"], Field(alias="$")),
    of=(Literal["RunName"], ...),
    v=(
        _model(
            "RunNameColumns",
            __base__=_Wire,
            __doc__="The columns of RunNames: creation in ns since the Unix epoch.",
            project=(list[str], ...),
            run=(list[str], ...),
            name=(list[str | None], ...),
            created_ns=(Ints | list[int], ...),
            trashed=(list[bool], ...),
            sys_id=(list[str | None], ...),
        ),
        ...,
    ),
)
Crash: Any = _shape(
    "Crash",
    "How a process ended that did not say so.",
    reason=str,
    host=str | None,
    pid=int | None,
    last_t=int | Special,
    detail=str,
)
RankStatus: Any = _shape(
    "RankStatus",
    "How a rank is doing; times in ns since the Unix epoch.",
    rank=int,
    host=str | None,
    pid=int | None,
    writers=Value,
    state=str,
    why=str,
    first_t=int | Special,
    last_t=int | Special,
    row_t=int | Special | None,
    end_t=int | Special | None,
)
RankTiming: Any = _shape(
    "RankTiming",
    "How long the steps of a rank take, seconds.",
    rank=int,
    host=str | None,
    pid=int | None,
    state=str | None,
    why=str,
    last_seen=Special | None,
    last_step=Special | None,
    steps=int,
    **dict.fromkeys(("mean_s", "p50_s", "p95_s", "max_s", "own_s", "slowdown"), Number),
)
RunsTable: Any = _shape(
    "RunsTable",
    "Runs: for each column a list with a value a run, null where it has none.",
    columns=list[str],
    cells=list[list[Any]],
    refs=_list(Ref),
    total=int | None,
    offset=int,
    cursor=str,
)
SeriesTable: Any = _shape("SeriesTable", "[run id, path, Points] of series.", parts=list[Any])
CurveTable: Any = _shape("CurveTable", "[run id, path, Curve] of series.", parts=list[Any])

_of_run: Final = {"project": str, "run": str}
_page: Final = {"total": int}
MODELS: Final[dict[str, Any]] = {
    "overview": _envelope(
        "Overview",
        "How a run is doing.",
        **_of_run,
        name=str,
        state=str,
        reason=str,
        signal=str,
        traceback=str | None,
        failed=bool,
        crash=Crash | None,
        troubles=dict[str, Any],
    ),
    "ranks": _envelope("Ranks", "Every rank.", ranks=_list(RankStatus)),
    "stragglers": _envelope("Stragglers", "The slowest first.", ranks=_list(RankTiming)),
    "opening": _envelope(
        "Opening",
        "What has to be known before a run is gone on with.",
        largest_t=int | Special,
        journals=dict[str, dict[str, Any]],
        families=dict[str, str],
        last_steps=dict[str, float],
        trained=list[str],
        failed=bool,
        resumable=bool,
    ),
    "writers": _envelope("Writers", "Every journal.", journals=_list(JournalInfo)),
    "attributes": _envelope("Attributes", "By path.", attributes=_list(Attribute), **_page),
    "attribute": _envelope("OneAttribute", "Null: nothing.", attribute=Attribute | None),
    "has": _envelope("Has", "Whether anything is there.", has=bool),
    "families": _envelope("Families", "By path.", families=dict[str, str]),
    "points": _envelope("PointsOfSeries", "By path.", points=_dict(Points), total=dict[str, int]),
    "points-part": _envelope(
        "PartOfSeries",
        "Its next points; null after the last ones, and both null where it is to be read anew.",
        points=Points | None,
        next=str | None,
    ),
    "curve": _envelope("OneCurve", "One curve.", curve=Curve),
    "drawing": _envelope("OneDrawing", "One drawing.", drawing=Drawing),
    "texts": _envelope("Texts", "By step.", points=_list(TextPoint), **_page),
    "files": _envelope("Files", "By step.", points=_list(FilePoint), **_page),
    "histograms": _envelope("Histograms", "By step.", points=_list(HistogramPoint), **_page),
    "last": _envelope("Last", "Of a series.", last=Value),
    "log": _envelope("Log", "[time_ns, path, text] by time.", texts=list[list[Any]]),
    "text-page": _envelope("OneTextPage", "A page.", page=TextPage),
    "text-begin": _envelope("TextBegin", "Where, bytes.", begin=int),
    "projects": _envelope(
        "Projects",
        "What may be read.",
        projects=_list(
            _envelope(
                "Project",
                "Counts of runs; the last record in ns since the Unix epoch.",
                project=str,
                runs=int,
                running=int,
                crashed=int,
                trashed=int,
                last_record_ns=int | Special | None,
            )
        ),
    ),
    "runs": _envelope(
        "Runs",
        "A table; names: what its runs are called, of at most 1,000 of them.",
        table=RunsTable,
        names=list[str],
        told=list[str],
        cursor=str,
    ),
    "select": _envelope("Selected", "In order.", refs=_list(Ref), total=int | None, told=list[str]),
    "fields": _envelope(
        "Fields",
        "What the first of the chosen runs have.",
        fields=_list(
            _envelope(
                "FieldOfRuns",
                "A number, a text or a series of numbers.",
                path=str,
                series=bool,
                runs=int,
                differs=bool,
                longest=int,
            )
        ),
        of=int,
        told=list[str],
    ),
    "run-fields": _envelope(
        "RunFields",
        "By path.",
        fields=_list(
            _shape(
                "RunField",
                "A path that some of the runs show.",
                path=str,
                family=str,
                count=int,
                differing=bool,
            )
        ),
        of=int,
        told=list[str],
    ),
    "groups": _envelope(
        "Groups",
        "Runs that show the same.",
        groups=_list(
            _shape(
                "RunGroup",
                "What its runs show, and what their numbers come to.",
                by=dict[str, Any],
                refs=Value,
                values=_dict(
                    _shape(
                        "Spread",
                        "Of the finite numbers; odd: how many show another one. std with n - 1.",
                        n=int,
                        odd=int,
                        **dict.fromkeys(("mean", "std", "min", "max"), Number | None),
                    )
                ),
            )
        ),
        total=int,
        told=list[str],
    ),
    "names": _envelope("Names", "The newest first.", names=RunNames),
    "paths": _envelope("Paths", "Sorted.", paths=list[str]),
    "losses": _envelope("Losses", "[project, run, counts].", losses=list[list[Any]]),
    "reasons": _envelope("Reasons", "[project, run, reason].", reasons=list[list[Any]]),
    "series": _envelope(
        "Series",
        "What fits of the series; apart: project, run id and paths of one that is to be asked for "
        "by itself.",
        table=SeriesTable | CurveTable,
        told=list[str],
        left=_list(Ref),
        apart=list[Any] | None,
    ),
    "series-paths": _envelope("SeriesPaths", "[project, run, paths].", paths=list[list[Any]]),
    "curves": _envelope(
        "Curves",
        "What is drawn.",
        curves=_list(RunCurve),
        cursor=str,
    ),
    "group-curves": _envelope("GroupCurves", "What is drawn.", groups=_list(GroupCurve)),
    "attempts": _envelope(
        "Attempts",
        "[project, run, number of attempts], of runs that were gone on with; openings: how often "
        "runs were opened to record, of those more often than once; begins: [project, run, path, "
        "[[attempt, step, time in ns, x]]], where attempts begin in the series asked for.",
        attempts=list[list[Any]],
        openings=list[list[Any]],
        begins=list[list[Any]],
    ),
    "changes": _envelope(
        "Changes",
        "What changed since a cursor; reset: everything may have.",
        cursor=str,
        reset=bool,
        more=bool,
        looked_ns=int | Special,
        left=int,
        runs=_list(
            _shape(
                "ChangedRun",
                "A run, and where something was recorded lately.",
                **_of_run,
                state=str | None,
                gone=bool,
                paths=list[str],
            )
        ),
    ),
    "claimed": _envelope(
        "Claimed",
        "Which was claimed, and which claim of it that is; position: up to where it is to be read "
        "before it is looked at, bytes. Null: there is none.",
        ref=Ref | None,
        number=int | None,
        position=int | None,
    ),
    "held": _envelope("Held", "Whether it is the newest claim, and the asker's.", held=bool),
    "edited": _envelope(
        "Edited",
        "What became of each run.",
        runs=_list(
            _envelope(
                "EditedRun",
                "error and hint say why it was not edited.",
                **_of_run,
                ok=bool,
                error=str | None,
                hint=str | None,
                position=int | None,
            )
        ),
    ),
    "contents": _envelope("Contents", "SHA-256 of what is not there, sorted.", absent=list[str]),
    "link": _envelope(
        "Link", "Where a content is, relative to the page, for those without a token.", url=str
    ),
    "arrival": _envelope(
        "Arrival",
        "go, skip, taken or no project; the name of the run here, who else has it, and since when.",
        outcome=str,
        name=str | None,
        others=list[str],
        t_ns=int | None,
    ),
}
"""Answers by name."""

_FAILURES: Final = {
    401: "a token is needed",
    403: "the role is too small",
    404: "there is no such run, or it may not be seen",
    413: "that is too much at a time",
    422: "an argument has a value that cannot be used",
    429: "too many requests",
    503: "try again later",
}


def answers(name: str, *, tagged: bool = False) -> dict[int | str, dict[str, Any]]:
    """Return how a route answers, for its description.

    Args:
        name: Of the answer in `MODELS`.
        tagged: Whether it has an ETag.
    """
    found: dict[int | str, dict[str, Any]] = {
        200: {"model": MODELS[name], "description": "The answer."}
    }
    if tagged:
        found[304] = {"description": "Nothing changed since the ETag in If-None-Match."}
    for status, why in _FAILURES.items():
        found[status] = {"model": Failure, "description": why}
    return found
