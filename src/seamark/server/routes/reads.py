"""What can be asked of the runs that a server folded: one set of routes for everybody who reads.

All are below ``/api/v1/``. Values are as `seamark.reading.wire` has them; ``?arrays=json`` writes
arrays as lists of numbers. ``{run}`` is a run id, ``{project}`` a path with slashes; both together
are called *ref*, ``[project, run id]``. Every answer has the header ``Seamark-Now``: the time of the
server, nanoseconds since the Unix epoch. Answers to GET have an ``ETag``: asked again with
``If-None-Match``, what did not change is 304. Only what the asker may read is there at all.

Of one run, below ``runs/{project}/{run}/``:

================================================================ ===================================
``GET overview``                                                 ``{"project", "run", "state",
                                                                 "reason", "failed": bool,
                                                                 "crash": Crash | null,
                                                                 "troubles": {...}}``
``GET ranks``                                                    ``{"ranks": [RankStatus]}``
``GET stragglers``                                               ``{"ranks": [RankTiming]}``
``GET writers``                                                  ``{"journals": [JournalInfo]}``
``GET attributes?namespace``                                     ``{"attributes": [Attribute]}``
``POST attributes`` ``{"paths": [...]}``                         the same, of these paths in order
``GET attribute?path``                                           ``{"attribute": Attribute | null}``
``GET has?path``                                                 ``{"has": bool}``
``GET families``                                                 ``{"families": {path: family}}``
``POST points``                                                  ``{"points": {path: Points},
``{"paths", "attempt", "limit", "offset"}``                      "total": {path: int}}``
``GET points?path&attempt&limit&offset``                         the same
``GET curve?path&points&attempt``                                ``{"curve": Curve}``
``GET drawing?path&points&attempt&x&window&log_x&log_y``         ``{"drawing": Drawing}``
``GET texts?path&attempt&limit&offset``                          ``{"points": [TextPoint], "total"}``
``GET files?...``                                                ``{"points": [FilePoint], "total"}``
``GET histograms?...``                                           ``{"points": [HistogramPoint],
                                                                 "total"}``
``GET last?path``                                                ``{"last": value}``
``POST text-page`` ``{"file", "paths", "begin"}``                ``{"page": TextPage}``
``POST text-begin``                                              ``{"begin": int}``
``{"file", "paths", "since_ns", "lines", "points"}``
================================================================ ===================================

``limit`` of points is of the last ones, as in Python, and ``offset`` leaves out so many of the
first: who is given fewer than ``total`` asks again from there. An answer has at most 1,000,000
points of all paths, 10,000 texts, files or histograms; what does not fit is left out at the end,
and paths of which nothing fits are not among the ``points``.

Of many runs:

================================================================ ===================================
``GET projects``                                                 ``{"projects": [{"project", "runs",
                                                                 "running", "last_record_ns"}]}``
``GET runs?project&query&id&state&owner&tag&trashed&sort_by``    ``{"table": RunsTable, "told":
``&ascending&offset&limit&columns&local&unknown``                [str], "cursor": str}``
``POST runs`` (the same as JSON, for many ids and columns)       the same
``POST runs/select`` (the same without ``columns``)              ``{"refs": [ref], "total": int,
                                                                 "told": [str]}``
``POST runs/fields`` (the same, and ``contains``, ``sample``)    ``{"fields": [{"path", "family",
                                                                 "series", "runs", "differs",
                                                                 "longest"}], "of": int}``
``POST runs/groups`` (the same, and ``by``)                      ``{"groups": [{"by": {path: value},
                                                                 "n": int, "refs": [ref], "values":
                                                                 {column: {"n", "mean", "std",
                                                                 "min", "max"}}}]}``
``GET runs/names?project``                                       ``{"names": [RunName]}``
``GET paths?project``                                            ``{"paths": [str]}``
``POST runs/losses`` ``{"refs"}``                                ``{"losses": [[project, run,
                                                                 {reason: count}]]}``
``POST runs/crash-reasons`` ``{"refs"}``                         ``{"reasons": [[project, run,
                                                                 reason]]}``
``POST runs/series``                                             ``{"table": SeriesTable |
``{"refs", "paths", "attempt", "points", "unknown"}``            CurveTable, "told": [str],
                                                                 "left": [ref]}``
``POST runs/series-paths`` ``{"refs", "paths"}``                 ``{"paths": [[project, run,
                                                                 [path]]]}``
``POST curves``                                                  ``{"curves": [{"project", "run",
``{"refs", "paths", "px", "attempt", "x", "window", "log_x",``   "path", "drawing": Drawing}],
``"log_y"}``                                                     "cursor": str}``
``GET changes?cursor&project``                                   ``{"cursor": str, "reset": bool,
                                                                 "runs": [{"project", "run",
                                                                 "state", "gone": bool}]}``
``PATCH runs``                                                   ``{"runs": [{"project", "run",
``{"refs" | "query", "name", "description", "add_tags",``        "ok": bool, "error", "hint"}]}``
``"remove_tags", "trashed", "description_was"}``
================================================================ ===================================

``unknown`` is ``"refuse"`` (default: a path that no run has is 422) or ``"tell"``: the messages are
in ``told``. ``columns`` missing or null: all. ``trashed``: false (default), true, or null for both
(``any`` in an address). Without ``limit`` a table has at most 10,000 rows. ``left`` of series: the
runs that did not fit into the answer, to be asked for next. ``paths`` of series are patterns;
``points`` null: all points, else curves of at most so many.
"""
