"""What the README's lines for Lightning and Ignite have recorded; then nothing is left of it."""

from __future__ import annotations

import shutil

import seamark

with seamark.init_project("digits", mode="read-only") as project:
    table = project.fetch_runs_table(sort_by="sys/creation_time", ascending=True)
steps = []
for row in table.to_rows():
    with seamark.init_run("digits", with_id=row["sys/id"], mode="read-only") as run:
        steps.append(run["training/loss"].fetch_points().step.tolist())
assert steps == [[49, 99, 149, 199], [100, 200, 300, 400]]
shutil.rmtree(".seamark")
