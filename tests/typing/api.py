"""The public names as a user's type checker sees them; checked by mypy and pyright, never run."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import seamark
from seamark import Handler, Project, Run, errors
from seamark.types import File, Histogram
from seamark.utils import stringify_unsupported

run: Run = seamark.init_run(
    "team/digits",
    name="quick-otter",
    mode="offline",
    tags=["a", "b"],
    root=Path("runs"),
    params={"lr": 0.1},
    capture={"git": False},
)
# A mistyped option is an error, as is a wrong value; without one these comments would be.
seamark.init_run(nam="a")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
seamark.init_run(mode="ofline")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
handler: Handler = run["train"]["loss"]

run["parameters"] = {"lr": 0.1, "layers": [1, 2]}
run["note"] = "text"
handler.append(0.3)
handler.append(0.3, step=1.5, timestamp=datetime.now(timezone.utc))
handler.extend([0.2, 0.1], steps=[1, 2], timestamps=[0.0, 1.0])
run["weights"].append(Histogram([0.0, 0.5, 1.0], [1, 2]))
run["weights"].append(Histogram([0.1, 0.2, 0.7], bins=2))
run.log_metrics({"train/loss": 0.3, "train/acc": 0.9}, step=10)
run["sys/tags"].add("one")
run["sys/tags"].remove(["one"])
run["image"].upload(File.from_content(b"", extension="png"))
run["files"].upload_files(["*.py"])
run["params"] = stringify_unsupported({"a": object()})
del run["note"]

last_step: float = handler.fetch_points().step[-1]
first_row: dict[str, object] = handler.fetch_points().to_rows()[0]
content: bytes = handler.fetch_bytes()
exists: bool = run.exists("train/loss")
run.params["lr"] = 0.1
run.params.depth = 3
args = run.params.update({"lr": 0.2}, override=False, show=True, width=4)
nested: dict[str, object] = run.params.as_dict()
run.log_distribution(object())
url: str = run.get_url()

with seamark.init_run(with_id="0abc", mode="read-only") as again:
    again["train/loss"].fetch_values(limit=10)

project: Project = seamark.init_project("team/digits")
rows = project.fetch_runs_table(query="lr > 0.1", columns=["sys/id"], limit=10).to_rows()
model: seamark.Model = seamark.init_model(key="NET", project="team/digits")
artifact: seamark.Artifact = seamark.init_artifact(name="data", tags={"a": 1}, description="")
artifact.add_dir("data", "x/")
artifact.add_file(Path("a.txt"))
artifact.add_reference("s3://bucket/key", destination="key")
where: Path = artifact.save().download("here", verify=False)
read: bytes = artifact.open("key").read()
of_artifact: int | None = artifact.version
run.mark_input(artifact)
run.mark_output(seamark.Reference("s3://bucket/key", kind="model"), name="net")
tree: str = str(run.lineage())
version: seamark.ModelVersion = seamark.init_model_version(model="NET", project="team/digits")
version.change_stage("staging")
versions = model.fetch_model_versions_table(query="acc > 0.9", limit=3).to_rows()
models = project.fetch_models_table(columns=["sys/name"]).to_rows()
series = project.fetch_series(["train/loss"], runs="lr > 0.1", attempt="all").to_numpy()

try:
    run.stop()
except errors.SeamarkError as error:
    message: str = str(error)
present: bool = "train/loss" in run and "loss" in run["train"]
names: list[str] = [*run, *run["train"]]
run.plot("train/loss", smooth=500, x="relative", log_y=True)
handler.plot(refresh=2.0)
