"""The server is killed while clients log: what they were told is kept."""

from __future__ import annotations

import json

import pytest

LOGS = """
run = neptune.init_run(**OPTIONS)
tell(begun=run["sys/id"].fetch())
for place in range(60):
    run["count"].append(place, step=place)
    run["free"].append(place)
    if OPTIONS["mode"] == "sync":
        tell(kept=place)
    elif place == 30:
        tell(kept=place)
        import time; time.sleep(1)
run.sync()
for name in ("count", "free"):
    tell(**{name: run[name].fetch_values()["value"].tolist()})
run.stop()
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_nothing_that_was_acknowledged_is_lost(new_server, tmp_path, mode):
    """In both modes the client goes on once the server is back; nothing is there twice."""
    server = new_server(tmp_path / "server")
    try:
        process = server.start_script(tmp_path, LOGS, server.environment("killed/run", mode))
        told, lines = {}, []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("TOLD "):
                told |= json.loads(line.removeprefix("TOLD "))
                if told.get("kept") in (20, 30) and "killed" not in told:
                    told["killed"] = True
                    server.kill()
                    server.start()
        assert process.wait(200) == 0, "".join(lines)
    finally:
        server.stop()
    assert told["count"] == told["free"] == list(range(60))
