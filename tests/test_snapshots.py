"""What one snapshot of a run says agrees, whatever is written meanwhile."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time

from through import index_of

HALF = 20
LOOKS = 4
WRITER = """
import os, time
import seamark
run = seamark.init_run("p", custom_run_id="r", root={root!r})
step = 0
while step <= {half} or (step < 1500 and not os.path.exists({enough!r})):
    run.log_metrics({{"a": step, "b": -step}}, step=step)
    time.sleep(0.02)
    if step == {half}:
        run["half"] = step
    step += 1
run["rows"] = step
raise ValueError("boom")
"""


@contextlib.contextmanager
def writing(root):
    """Record rows of two series in a process that fails; its run is there already."""
    script = WRITER.format(root=str(root), half=HALF, enough=str(root.parent / "enough"))
    with subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL) as process:
        while not any(root.glob("p/*/journal/*")) and process.poll() is None:
            time.sleep(0.01)
        try:
            yield process
        finally:
            process.kill()


def check(seen):
    """Check what a snapshot says; return whether the run has ended by it."""
    attributes = {one.path: one.value for one in seen.attributes()}
    state, reason = seen.state, seen.reason
    assert attributes["sys/state"] == state
    assert (state == "failed") == bool(reason) == seen.has_failed()
    if "a" not in attributes:
        return False
    a, b = attributes["a"], attributes["b"]
    assert (a.count, a.last_step, a.last) == (b.count, b.last_step, -b.last)
    assert ("half" in attributes) <= (a.count > HALF)
    assert "half" in attributes or a.count <= HALF + 1
    if state == "failed":
        assert a.count == attributes["rows"]
        assert "ValueError: boom" in reason
    assert seen.families().keys() == attributes.keys()
    return state == "failed"


def test_snapshot_of_a_root_has_points_and_curves_of_one_moment(tmp_path):
    """Until the run has ended by one."""
    ended, tries = False, 0
    with index_of(tmp_path / "runs") as index, writing(tmp_path / "runs") as process:
        while not ended:
            over = process.poll() is not None
            index.refresh()
            (ref,) = index.runs()
            with index.moment():
                seen = index.view(*ref)
                ended = check(seen)
                found = seen.attribute("a")
                count = 0 if found is None else found.value.count
                assert len(seen.points("b")) == int(seen.curve("a", 100).count.sum()) == count
            assert ended or not over
            tries += 1
            if tries == LOOKS:
                (tmp_path / "enough").touch()
    assert tries > 1
