"""Routes of the server: each module here has a ``router``, mounted below ``/api/v1``.

One set of reads serves our own client, pages and others. Values are as `seamark.reading.wire` has
them; ``?arrays=json`` writes arrays as lists of numbers. ``{run}`` is a run id (``.project`` for a
project's own log), ``{project}`` a path with slashes; both together are called *ref*,
``[project, run id]``. Every answer to a read has the header ``Seamark-Now``: the time of the
server, nanoseconds since the Unix epoch. Most answers to GET have an ``ETag``: asked again with
``If-None-Match``, what did not change is 304. Where folders cannot be looked into,
``Seamark-Unread`` says how many. Only what the asker may read is there at all.
``POST`` reads where the question may be too long for an address.

Of one run, below ``runs/{project}/{run}/`` (`seamark.server.routes.reads`):

=======================================================  ========================================
``GET overview``                                         ``{"project", "run", "name", "state",
                                                         "reason", "signal",
                                                         "traceback": str | null, "failed": bool,
                                                         "crash": Crash | null,
                                                         "troubles": {...}}``
``GET ranks``                                            ``{"ranks": [RankStatus]}``
``GET stragglers``                                       ``{"ranks": [RankTiming]}``
``GET writers``                                          ``{"journals": [JournalInfo]}``
``GET attributes?namespace&offset&limit``                ``{"attributes": [Attribute], "total"}``
``POST attributes`` ``{"paths": [...]}``                 the same, of these paths in order
``GET attribute?path``                                   ``{"attribute": Attribute | null}``
``GET has?path``                                         ``{"has": bool}``
``GET families``                                         ``{"families": {path: family}}``
``GET points?path&attempt&limit&offset``                 ``{"points": {path: Points},
                                                         "total": {path: int}}``
``POST points``                                          the same
``{"paths", "attempt", "limit", "offset"}``
``GET curve?path&points&attempt``                        ``{"curve": Curve}``
``GET drawing?path&points&attempt&x&window&log_x&log_y`` ``{"drawing": Drawing}``
``GET texts?path&attempt&limit&offset``                  ``{"points": [TextPoint], "total"}``
``GET files?...``                                        ``{"points": [FilePoint], "total"}``
``GET histograms?...``                                   ``{"points": [HistogramPoint], "total"}``
``GET last?path``                                        ``{"last": value}``
``GET log?tail``                                         ``{"texts": [[time_ns, path, text]]}``
``POST text-page`` ``{"file", "paths", "begin"}``        ``{"page": TextPage}``
``POST text-begin``                                      ``{"begin": int}``
``{"file", "paths", "since_ns", "lines", "points"}``
=======================================================  ========================================

``limit`` of points is of the last ones, as in Python, and ``offset`` leaves out so many of the
first of these: who is given fewer than ``total`` asks again from there. An answer has at most
1,000,000 points of all paths, and 10,000 texts, files or histograms or 16 MiB of anything; what
does not fit is left out at the end, and paths of which nothing fits are not among the ``points``.

Of many runs (`seamark.server.routes.tables`, ``curves``, ``changes``, ``edits``):

=======================================================  ========================================
``GET projects``                                         ``{"projects": [{"project", "runs",
                                                         "running", "crashed", "trashed",
                                                         "last_record_ns"}]}``
``GET runs?project&query&id&state&owner&tag&trashed``    ``{"table": RunsTable, "names": [str],
``&sort_by&ascending&offset&limit&columns&unknown``      "told": [str], "cursor": str}``
``&counted``
``POST runs`` (the same as JSON)                         the same
``POST runs/select`` (without ``columns``)               ``{"refs": [ref], "total": int,
                                                         "told": [str]}``
``POST runs/fields`` (and ``contains``, ``sample``)      ``{"fields": [{"path", "series", "runs",
                                                         "differs", "longest"}], "of": int,
                                                         "told": [str]}``
``POST runs/groups`` (and ``by``, ``order``,             ``{"groups": [{"by": {path: value},
``least_first``)                                         "n": int, "refs": [ref], "values":
                                                         {column: {"n", "mean", "std", "min",
                                                         "max"}}}], "total": int, "told": [str]}``
``GET runs/names?project``                               ``{"names": rows of RunName}``
``GET paths?project``                                    ``{"paths": [str]}``
``POST runs/losses`` ``{"refs"}``                        ``{"losses": [[project, run,
                                                         {reason: count}]]}``
``POST runs/crash-reasons`` ``{"refs"}``                 ``{"reasons": [[project, run, reason]]}``
``POST runs/attempts`` ``{"refs", "paths", "x"}``        ``{"attempts": [[project, run, number]],
                                                         "openings": [[project, run, number]],
                                                         "begins": [[project, run, path, [[attempt,
                                                         step, time_ns, x]]]]}``
``POST runs/series``                                     ``{"table": SeriesTable | CurveTable,
``{"refs", "paths", "attempt", "points", "unknown"}``    "told": [str], "left": [ref], "apart":
                                                         [project, run, [path]] | null}``
``POST runs/series-paths`` ``{"refs", "paths"}``         ``{"paths": [[project, run, [path]]]}``
``POST curves``                                          ``{"curves": [{"project", "run", "path",
``{"refs", "paths", "px", "attempt", "x", "window",``    "drawing", "cursor"}], "cursor": str}``
``"log_x", "log_y"}``
``POST curves/groups``                                   ``{"groups": [GroupCurve]}``
``{"groups": [{"by", "refs"}], "paths", "px", ...}``
``GET changes?cursor&project``                           ``{"cursor": str, "reset": bool, "more":
                                                         bool, "runs": [{"project", "run",
                                                         "state", "gone": bool}]}``
``PATCH runs``                                           ``{"runs": [{"project", "run", "ok",
``{"refs" | "query", "name", "description",``            "error", "hint", "position"}]}``
``"description_was", "add_tags", "remove_tags",``
``"trashed"}``
``POST link``                                            ``{"url": str}``, an address of a content
``{"project", "run", "sha256", "name", "preview"}``      that needs no token, for 60 s to begin with
``POST arrivals``                                        ``{"outcome": "go" | "skip" | "taken" |
``{"project", "run", "name", "conflict",``               "no project", "name": str | null,
``"make_project"}``                                      "others": [run id]}``
=======================================================  ========================================

``POST runs/claims`` ``{"refs", "kind", "claimant"}`` claims the first of some runs, or groups, that
is free: ``{"ref": ref | null, "number", "position"}``. ``runs/claims/held`` and its like
``runs/claims/release`` take ``{"project", "name", "kind", "number", "key"}`` and answer
``{"held": bool}``.

``unknown`` is ``"refuse"`` (default: a path that no run has is 422) or ``"tell"``: the messages are
in ``told``. ``columns`` missing or null: all. ``trashed``: false (default), true, or null for both
(``any`` in an address). Times in queries that name no offset are in UTC. A table has at most 10,000
rows, with fewer columns than all at least: who is given fewer than ``total`` asks again with an
``offset``. ``left`` of series: the runs that did not fit into the answer, to be asked for next.
``begins``: where attempts begin in float series, each with its first point that is shown; ``x`` is
``"step"`` (default), ``"time"``, ``"relative"`` or a path, and null where it is nothing.
``paths`` of series are patterns; ``points`` null: all points, else curves of at most so many.
"""
