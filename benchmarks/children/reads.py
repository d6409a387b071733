"""Read what was recorded: ``reads.py WHAT ...``, where WHAT is a function of `READS`.

The first argument of most is whose reader reads: ``seamark``, ``mlflow`` or ``pandas``. What takes
long to import and is not ours is imported before the clock runs.
"""

from __future__ import annotations

import gc
import io
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from timed_reads import Spent, empty_cache, settled, spent, writing

Read = Callable[[], Any]
Figures = dict[str, Any]
NAMES = ["loss", "acc", "f1", "auc", "recall", "precision", "lr", "norm", "time", "memory"]
QUERY = "metrics/acc:last > 0.5 AND parameters/lr:float = 0.01"
SORT_BY = "metrics/loss:min"
COLUMNS = ["sys/id", "sys/name", "parameters/lr", "metrics/loss:min", "metrics/acc"]
LIMIT = 100


def opened(run: str, **given: Any) -> Any:
    import numpy  # noqa: ICN001, F401
    import sqlalchemy.dialects.sqlite  # noqa: F401

    import seamark

    return seamark.init_run(with_id=run, mode="read-only", **given)


def project(**given: Any) -> Any:
    import numpy  # noqa: ICN001, F401
    import sqlalchemy.dialects.sqlite  # noqa: F401

    import seamark

    return seamark.init_project(mode="read-only", **given)


def mlflow() -> Any:
    from mlflow_store import client

    return client()


def repeated(read: Read, loop: int, apart: int, check: Callable[[Any], object] = bool) -> Figures:
    """Return what calls in a loop take, and calls a second apart."""
    figures = spent("loop", read, loop, check=check)
    return figures | spent("apart", read, apart, apart_s=1.0, check=check)


def is_value(found: Any) -> bool:
    return found is not None


# ---------------------------------------------------------------- one run


def first(whose: str, run: str, points: str) -> Figures:
    """Read a long series for the first time."""
    empty_cache()
    if whose == "seamark":
        import numpy  # noqa: ICN001, F401
        import sqlalchemy.dialects.sqlite  # noqa: F401

        import seamark  # noqa: F401

        def read() -> Any:
            return len(opened(run)["train/loss"].fetch_points())

    elif whose == "pandas":
        import pandas as pd

        pd.read_csv(io.StringIO("step,value\n0,1.0\n"))

        def read() -> Any:
            return len(pd.read_csv("points.csv"))

    else:
        store = mlflow()

        def read() -> Any:
            return len(store.get_metric_history(run, "loss"))

    return spent("first", read, check=lambda found: found == int(points))


def series(run: str, points: str) -> Figures:
    """Read a long series that is folded.

    By the first call of a process, by later ones, and from an index that is held in memory.
    """

    def whole(found: object) -> bool:
        return found == int(points)

    def fresh() -> int:
        return len(opened(run)["train/loss"].fetch_points())

    assert whole(fresh())  # folds, if nobody did before
    settled()
    figures = spent("opening", fresh, check=whole)
    again = opened(run)["train/loss"]
    again.fetch_points()
    figures |= repeated(lambda: len(again.fetch_points()), 9, 3, whole)
    os.environ["SEAMARK_INDEX"] = "/dev/null/nowhere.db"
    return figures | spent("memory", fresh, check=whole)


def value(whose: str, run: str, path: str) -> Figures:
    """Read one value again and again.

    ``seamark`` also asks ``os.stat`` for the journals of the run, by itself: the least that tells
    whether there is news.
    """
    name = path.removeprefix("params/")
    if whose == "seamark":
        one = opened(run)

        def read() -> Any:
            return one[path].fetch() if name != path else one[path].fetch_last()

    else:
        store = mlflow()

        def read() -> Any:
            data = store.get_run(run).data
            return data.params[name] if name != path else data.metrics[path]

    read()  # folds, if nobody did before
    settled()
    read()
    is_quick = spent("once", read, check=is_value)["once_ms"] < 20
    figures = repeated(read, 200 if is_quick else 10, 4, is_value)
    if whose == "seamark":
        files = [str(file) for file in Path(".seamark").rglob(f"{run}/journal/*")]
        assert files

        def ask() -> list[os.stat_result]:
            return [os.stat(file) for file in files]  # noqa: PTH116

        figures |= spent("stat_loop", ask, 200) | spent("stat_apart", ask, 2, apart_s=1.0)
    return figures


def new_row(whose: str, attributes: str) -> Figures:
    """Read a row that another process has just recorded."""

    def rows(times: int, apart_s: float) -> Spent:
        """Have rows written, one at a time, and read each of them at once."""
        taken = Spent()
        for number in range(times):
            time.sleep(apart_s)
            written = number + apart_s + 0.25
            writer.log({"loss": written})
            assert taken.call(read) == written
        return taken

    with writing(whose, attributes) as writer:
        writer.log({"loss": -1.0})
        if whose == "seamark":
            one = opened(writer.run)

            def read() -> Any:
                return one["loss"].fetch_last()

        else:
            store = mlflow()

            def read() -> Any:
                return store.get_run(writer.run).data.metrics["loss"]

        rows(3, 0.0)
        return rows(100, 0.0).figures("loop") | rows(4, 1.0).figures("apart")


def curve(how: str, run: str, points: str, spike: str, spike_step: str) -> Figures:
    """Read a long series for drawing.

    HOW is ``curve`` (a thousand representative points) or ``numpy`` (all points, and the extremes
    of 500 parts of them).
    """
    import numpy as np

    wanted, whole = 1000, opened(run)["train/loss"]

    def drawn() -> tuple[Any, Any]:
        found = whole.fetch_points(points=wanted)
        return found.step, found.value

    def extremes() -> tuple[Any, Any]:
        found = whole.fetch_points()
        starts = np.linspace(0, len(found), wanted // 2, endpoint=False).astype(int)
        places = []
        for start, stop in zip(starts, [*starts[1:], len(found)], strict=True):
            part = found.value[start:stop]
            places += sorted({start + int(part.argmin()), start + int(part.argmax())})
        return found.step[places], found.value[places]

    def shows_it(found: tuple[Any, Any]) -> bool:
        """Tell whether the one spike is among few enough points, where it was recorded."""
        step, value = found
        at = int(value.argmax())
        is_there = value[at] == float(spike) and step[at] == float(spike_step)
        return len(step) <= wanted and bool(is_there)

    read = drawn if how == "curve" else extremes
    assert len(whole.fetch_points()) == int(points)
    settled()
    figures = spent("first", read, check=shows_it) | repeated(read, 20, 3, shows_it)
    return figures | {"shown": len(read()[0])}


# ---------------------------------------------------------------- many runs


def many(whose: str, runs: str, points: str) -> Figures:
    """Read one path of many small runs."""
    empty_cache()
    if whose == "seamark":
        here = project()

        def read() -> Any:
            return len(here.fetch_series("metrics/loss").to_numpy()["value"])

    elif whose == "mlflow":
        from mlflow_store import EXPERIMENT

        store = mlflow()

        def read() -> int:
            names = [one.info.run_id for one in store.search_runs([EXPERIMENT], max_results=50_000)]
            return sum(len(store.get_metric_history(name, "loss")) for name in names)

    else:
        import pandas as pd

        folder = Path("csv")
        if not folder.exists():
            folder.mkdir()
            columns = {"step": range(int(points)), "value": 0.123456789, "time_ns": 10**18}
            for number in range(int(runs)):
                pd.DataFrame(columns).to_csv(folder / f"{number}.csv", index=False)
        files = sorted(folder.iterdir())
        pd.read_csv(files[0])

        def read() -> Any:
            return len(pd.concat([pd.read_csv(file) for file in files]))

    def whole(found: int) -> bool:
        return found == int(runs) * int(points)

    figures = spent("first", read, check=whole)
    settled()
    read()
    return figures | repeated(read, 5, 4, whole)


def frame() -> Figures:
    """Bring all ten series of all runs into one data frame."""
    import pandas as pd

    empty_cache()
    pd.DataFrame({"warm": [1.0]}).sort_values("warm")
    here, paths = project(), [f"metrics/{name}" for name in NAMES]

    def read() -> Any:
        return here.fetch_series(paths).to_pandas()

    figures: Figures = spent("first", read, check=len)
    settled()
    rows = len(read())
    return figures | spent("apart", read, 3, apart_s=1.0, check=len) | {"rows": rows}


def root() -> Figures:
    """Open the root for the first time."""
    import seamark

    begun, cpu_begun = time.perf_counter(), time.process_time()
    told: list[tuple[int, int]] = []
    here = seamark.init_project(mode="read-only")
    here.fetch_runs_table(limit=1, progress_bar=lambda done, runs: told.append((done, runs)))
    open_s, cpu_s = time.perf_counter() - begun, time.process_time() - cpu_begun
    assert told
    here.stop()
    places = {
        "index_mb": Path(os.environ["XDG_CACHE_HOME"], "seamark").glob("*.db*"),
        "journals_mb": Path(".seamark").rglob("journal/*"),
    }
    sizes = {name: sum(path.stat().st_size for path in place) for name, place in places.items()}
    assert sizes["index_mb"]
    mb = {name: size / 1e6 for name, size in sizes.items()}
    return {"open_s": open_s, "cpu_s": cpu_s} | mb


def frame_of_all(whose: str, runs: str) -> Figures:
    """Bring every column of every run into one data frame.

    Memory is what the kernel says was resident at most (``ru_maxrss``) after the first call; what
    was resident just before that call is told beside. A first, small call has opened whatever is
    opened.
    """
    import pandas as pd

    def peak_mb() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6

    pd.DataFrame({"warm": [1.0]}).sort_values("warm")
    if whose == "seamark":
        here = project()
        here.fetch_runs_table(limit=1).to_pandas()

        def read() -> Any:
            return here.fetch_runs_table().to_pandas()

    elif whose == "mlflow":
        import mlflow as tracking
        from mlflow_store import EXPERIMENT, URI

        mlflow()
        tracking.set_tracking_uri(URI)
        tracking.search_runs([EXPERIMENT], max_results=1)

        def read() -> Any:
            return tracking.search_runs([EXPERIMENT], max_results=50_000)

    else:
        pd.read_csv("table.csv", nrows=1)

        def read() -> Any:
            return pd.read_csv("table.csv")

    settled()
    shapes: list[tuple[int, int]] = []
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    before = {
        "before_mb": pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        "peak_before_mb": peak_mb(),
    }
    figures = spent("first", read, check=lambda made: shapes.append(made.shape) is None)
    peak = peak_mb()
    if whose == "seamark" and not Path("table.csv").exists():
        read().to_csv("table.csv", index=False)
    figures |= spent("apart", read, 3, apart_s=1.0, check=lambda made: len(made) == int(runs))
    ((rows, columns),) = shapes
    assert rows == int(runs)
    figures |= before | {"columns": columns, "peak_mb": peak}
    return figures | {"grown_mb": peak - before["before_mb"]}


def table(**given: Any) -> Read:
    """Return what asks for the first rows of a table that is sorted by a metric."""
    here = project(**given.pop("where", {}))
    asked = {"sort_by": SORT_BY, "ascending": True, "columns": COLUMNS, "limit": LIMIT}
    return lambda: here.fetch_runs_table(**asked, **given).to_rows()


def query(whose: str, times: str) -> Figures:
    """Ask for the first rows of a table, filtered and sorted, again and again, a second apart.

    ``seamark`` asks ``os.stat`` for every journal folder in between, also a second after anything
    else; ``written`` has another process write to one run before each call, and finds that in the
    table.
    """
    asked = {"query": QUERY, "sort_by": SORT_BY}
    if whose == "mlflow":
        from mlflow_store import EXPERIMENT

        store, given = mlflow(), "metrics.acc > 0.5 AND params.lr = '0.01'"
        order = ["metrics.loss ASC"]

        def search() -> Any:
            return store.search_runs([EXPERIMENT], given, max_results=LIMIT, order_by=order)

        figures: Figures = spent("opening", search) | spent("loop", search, 3)
        figures |= spent("apart", search, int(times), apart_s=1.0)
        return figures | {"rows": len(search())} | asked
    read, tables, stats = table(query=QUERY), Spent(), Spent()
    if whose == "written":
        read()
        settled()
        with writing("seamark", 100) as writer:
            for _ in range(int(times) + 1):
                time.sleep(1)
                least = -time.time()  # less than in any process before
                writer.log({"metrics/acc": 0.75, "metrics/loss": least})
                rows = tables.call(read)
                assert (rows[0]["sys/id"], rows[0][SORT_BY]) == (writer.run, least)
        del tables.wall_ms[0], tables.cpu_ms[0]  # the run itself was new then
        return tables.figures("apart") | asked
    folders = [str(path) for path in Path.cwd().glob(".seamark/default/*/journal")]

    def ask_for_each() -> list[os.stat_result]:
        stat = os.stat
        return [stat(folder) for folder in folders]

    figures = spent("opening", read)
    settled()
    read()
    ask_for_each()
    figures |= spent("loop", read, 10)
    for _ in range(int(times)):
        time.sleep(1)
        assert len(tables.call(read)) <= LIMIT
        time.sleep(1)
        stats.call(ask_for_each)
    figures |= tables.figures("apart") | stats.figures("stat")
    return figures | {"rows": len(read())} | asked


def served(what: str, url: str, token: str, run: str) -> Figures:
    """Read from a folder or a server; an empty URL: the folder.

    ``table`` is the first 100 runs by a metric, ``curve`` a series for drawing, a thousand points,
    ``one`` a value.
    """
    os.environ["SEAMARK_API_TOKEN"] = token
    where = {"remote": url or None}
    if what == "table":
        read = table(where=where)
    else:
        one = opened(run, **where)
        of_chart = one["train/loss"]

        def read() -> Any:
            if what == "curve":
                return of_chart.fetch_points(points=1000).value
            return [one["metrics/loss"].fetch_last()]

    figures: Figures = spent("first", read, check=len)
    settled()
    return figures | repeated(read, 10, 3, len) | {"rows": len(read())}


READS: dict[str, Callable[..., Figures]] = {
    one.__name__: one
    for one in (
        *(first, series, value, new_row, curve),
        *(many, frame, root, frame_of_all, query, served),
    )
}

if __name__ == "__main__":
    what, *given = sys.argv[1:]
    print(json.dumps(READS[what](*given)))
