"""The unmodified client writes to a server and reads it again."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import re

import pytest

UTC = dt.timezone.utc
WRITES = """
import datetime
run = neptune.init_run(name="first", tags=["a", "b"], description="said", **OPTIONS)
run["f"], run["i"], run["b"], run["s"] = 0.5, 3, True, "h\u00e9llo / \u4e16"
run["d"] = datetime.datetime(2020, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
run["a b/c?&%#"] = "odd"
run["params"] = {"lr": 0.1, "deep": {"n": 2}}
for value in (3.0, 2.0, 1.0):
    run["loss"].append(value)
run["steps"].extend([1.0, 2.0], steps=[0.5, 4], timestamps=[1, 2])
run["lines"].extend(["x", "y"])
run["sys/tags"].remove("a")
run["gone/x"], run["gone/y"] = 1, 2
run.sync()
del run["gone"]
run.sync()
steps = run["steps"].fetch_values()
tell(
    id=run["sys/id"].fetch(), name=run["sys/name"].fetch(), tags=sorted(run["sys/tags"].fetch()),
    f=run["f"].fetch(), i=run["i"].fetch(), b=run["b"].fetch(), s=run["s"].fetch(),
    d=run["d"].fetch().timestamp(), odd=run["a b/c?&%#"].fetch(), deep=run["params/deep/n"].fetch(),
    loss=run["loss"].fetch_values()["value"].tolist(), last=run["loss"].fetch_last(),
    numbers=run["loss"].fetch_values()["step"].tolist(),
    steps=steps["step"].tolist(), times=[one.timestamp() for one in steps["timestamp"]],
    lines=run["lines"].fetch_values()["value"].tolist(), gone=run.exists("gone/x"),
    owner=run["sys/owner"].fetch(), failed=run["sys/failed"].fetch(),
)
found = run["sys/id"].fetch()
run.stop()
again = neptune.init_run(with_id=found, **OPTIONS)
other = neptune.init_run(with_id=found, **{**OPTIONS, "mode": "sync"})
again["loss"].append(0.5)
again["i"] = 4
again["new"] = "text"
again.sync()
tell(resumed=again["loss"].fetch_values()["step"].tolist(), now=again["i"].fetch())
try:
    other["new"] = 3
except Exception as error:
    tell(error=type(error).__name__)
again.stop()
other.stop()
"""
FILES = """
from neptune.types import File
import numpy as np
def put(path, data):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
big = bytes(range(256)) * 45_000
put("m.txt", b"hello"); put("big.bin", big); put("d/a.txt", b"A"); put("d/sub/b.txt", b"BB")
put("d/sub/large.bin", big[:6_000_000])
run = neptune.init_run(**OPTIONS)
run["f"].upload("m.txt")
run["big"].upload("big.bin")
run["text"].upload(File.from_content("some text"))
run["set"].upload_files("d/**/*")
for place in range(2):
    run["pictures"].append(File.as_image(np.zeros((2, 2, 3))), name=f"p{place}", description="d")
run["data"].track_files("d")
run.sync()
run["data"].track_files("m.txt")
run.sync()
run["f"].download("out.txt"); run["big"].download("out.bin"); run["set"].download("set.zip")
run["pictures"].download("pictures")
import zipfile
run["set"].delete_files("d/sub")
run.sync()
tell(
    f=open("out.txt").read(), same=open("out.bin", "rb").read() == big,
    ext=run["text"].fetch_extension(), names=sorted(zipfile.ZipFile("set.zip").namelist()),
    pictures=sorted(os.listdir("pictures")), id=run["sys/id"].fetch(),
    tracked=sorted(one.file_path for one in run["data"].fetch_files_list()),
)
run.stop()
"""
TABLE = """
for place in range(3):
    run = neptune.init_run(custom_run_id=f"c{place}", tags=["x"] if place else ["y"], **OPTIONS)
    run["p/lr"], run["acc"] = 0.1 * place, place
    run["loss"].append(2.0 * place)
    found = run["sys/id"].fetch()
run.stop()
again = neptune.init_run(custom_run_id="c1", **OPTIONS)
tell(again=again["sys/id"].fetch(), acc=again["acc"].fetch())
again.stop()
project = neptune.init_project(mode="sync")
project["data/version"] = 3
project.sync()
def rows(**what):
    return project.fetch_runs_table(**what).to_pandas()
import inspect
newer = "query" in inspect.signature(project.fetch_runs_table).parameters
order = dict(sort_by="p/lr", ascending=True) if newer else {}
found = rows(columns=["p/lr", "loss", "sys/id"], **order)
found = found if newer else found.sort_values("p/lr")
tell(
    ids=found["sys/id"].tolist(), lr=found["p/lr"].tolist(), loss=found["loss"].tolist(),
    tagged=rows(tag="x", columns=["sys/id"])["sys/id"].tolist(),
    active=len(rows(state="active")), version=project["data/version"].fetch(), newer=newer,
)
if newer:
    tell(
        asked=rows(query='(`p/lr`:float > 0.05) AND NOT (`acc`:int = 2)', columns=["sys/id"])[
            "sys/id"].tolist(),
        none=len(rows(query='`sys/tags`:stringSet CONTAINS "z"')),
    )
    try:
        rows(query="((")
    except Exception as error:
        tell(error=type(error).__name__)
from neptune import management
management.trash_objects(os.environ["NEPTUNE_PROJECT"], os.environ["PREFIX"] + "-1")
tell(left=sorted(rows(columns=["sys/id"])["sys/id"].tolist()))
project.stop()
"""
OFFLINE = """
OPTIONS["mode"] = "offline"
run = neptune.init_run(**OPTIONS)
run["x"] = 1
run["loss"].extend([1.0, 2.0])
run.stop()
from neptune.cli.commands import sync
from click.testing import CliRunner
made = CliRunner().invoke(sync, ["-p", os.environ["NEPTUNE_PROJECT"]])
assert made.exit_code == 0, made.output
project = neptune.init_project(mode="read-only")
found = project.fetch_runs_table(columns=["x", "loss"]).to_pandas()
tell(x=found["x"].tolist(), loss=found["loss"].tolist())
"""
MODELS = """
from neptune.exceptions import NeptuneModelKeyAlreadyExistsError
KEY, PROJECT = os.environ["PREFIX"], os.environ["NEPTUNE_PROJECT"]
MODE = os.environ["MODE"]
model = neptune.init_model(key="NET", name="Net", mode=MODE)
model["card/text"] = "said"
model["loss"].append(1.0)
model.wait()
found = model["sys/id"].fetch()
try:
    neptune.init_model(key="NET", mode=MODE)
except NeptuneModelKeyAlreadyExistsError as error:
    tell(clash=type(error).__name__)
open("w.bin", "wb").write(b"weights")
ids = []
for place in range(3):
    with neptune.init_model_version(model=found, mode=MODE) as version:
        version["acc"] = place / 2
        version["weights"].upload("w.bin")
        version["data"].track_files("w.bin")
        if place == 1:
            version.change_stage("production")
        version.wait()
        ids.append(version["sys/id"].fetch())
        tell(of=version["sys/model_id"].fetch(), url=version.get_url())
again = neptune.init_model_version(with_id=ids[1], mode="read-only")
again["weights"].download("back.bin")
tell(
    id=found, ids=ids, stage=again["sys/stage"].fetch(), acc=again["acc"].fetch(),
    back=open("back.bin", "rb").read().decode(),
)
def rows(of, *names, **what):
    frame = of.fetch_model_versions_table(columns=list(names), **what).to_pandas()
    return sorted(frame[list(names)].values.tolist()) if len(frame) else []
tell(rows=rows(model, "sys/id", "sys/stage", "acc"))
import inspect
if "query" in inspect.signature(model.fetch_model_versions_table).parameters:
    tell(
        asked=rows(model, "sys/id", query='`sys/stage`:string = "production"'),
        sorted=model.fetch_model_versions_table(
            columns=["sys/id", "acc"], sort_by="acc", ascending=True, limit=2
        ).to_pandas()["acc"].tolist(),
    )
project = neptune.init_project(mode="sync")
tell(
    models=project.fetch_models_table(columns=["sys/id", "card/text"]).to_pandas()[
        ["sys/id", "card/text"]].values.tolist(),
    runs=len(project.fetch_runs_table().to_pandas()),
)
ours = neptune.init_model_version(model=KEY + "-OURS", mode=MODE)
first = neptune.init_model_version(with_id=KEY + "-OURS-1", mode=MODE)
first["theirs"] = first["mine"].fetch() + 1
first.wait()
tell(ours=ours["sys/id"].fetch())
from neptune import management
management.trash_objects(PROJECT, found)
left = [len(project.fetch_models_table().to_pandas()), len(rows(model, "sys/id"))]
tell(left=left)
for each in (model, again, ours, first, project):
    each.stop()
"""
S3 = """
import boto3
store = boto3.resource("s3", endpoint_url=os.environ["S3_ENDPOINT_URL"])
store.create_bucket(Bucket="lab")
def put(**files):
    for name, data in files.items():
        store.Object("lab", name.replace("__", "/")).put(Body=data)
put(data__a=b"A", data__sub__bé=b"BB" * 1000, other__c=b"C", data__folder__=b"")
run = neptune.init_run(**OPTIONS)
run["all"].track_files("s3://lab/data")
run["one"].track_files("s3://lab/data/sub/bé")
run["more"].track_files("s3://lab/data")
run.wait()
run["more"].track_files("s3://lab/other", destination="to")
run.sync()
def files(path):
    return sorted(
        [one.file_path, one.file_hash, one.size, one.type, one.metadata["location"]]
        for one in run[path].fetch_files_list()
    )
run["all"].download("back")
put(data__a=b"changed")
run["again"].track_files("s3://lab/data")
run.sync()
tell(
    id=run["sys/id"].fetch(), all=files("all"), one=files("one"), more=files("more"),
    hashes=[run[path].fetch_hash() for path in ("all", "more", "again")],
    a=open("back/a").read(), b=os.path.getsize("back/sub/bé"),
)
run.stop()
"""
LEGACY = """
import neptune.legacy as neptune
from PIL import Image
project = neptune.init(os.environ["NEPTUNE_PROJECT"])
for place in range(2):
    made = neptune.create_experiment(
        name=f"e{place}", params={"lr": 0.1 * place}, tags=["t", str(place)],
        upload_source_files=[], send_hardware_metrics=False, run_monitoring_thread=False,
    )
    neptune.log_metric("loss", 1.0)
    neptune.log_metric("loss", 2, 0.5)
    neptune.log_text("said", "hello")
    neptune.set_property("p", "v")
    neptune.append_tag("more")
    open("f.txt", "w").write("x")
    neptune.log_artifact("f.txt")
    neptune.log_image("picture", Image.new("RGB", (2, 2)))
    tell(announced={name: value is None for name, value in made.get_logs().items()})
    neptune.stop()
(one,) = project.get_experiments(id=made.id)
found = project.get_leaderboard()
one.download_artifact("f.txt", "back")
tell(
    id=one.id, params=one.get_parameters(), properties=one.get_properties(), tags=one.get_tags(),
    loss=one.get_numeric_channels_values("loss").values.tolist(), back=open("back/f.txt").read(),
    owner=one.get_system_properties()["owner"], columns=sorted(found.columns),
    ids=found["id"].tolist(), last=found["channel_loss"].tolist(),
    tagged=project.get_leaderboard(tag=["t", "0"])["id"].tolist(),
    running=len(project.get_leaderboard(state="running")),
    none=len(project.get_leaderboard(owner="nobody")),
)
"""


MANAGES = """
from neptune import management
WORKSPACE, NAMES = os.environ["WORKSPACE"], ("one", "two")
ids = []
for name in NAMES:
    management.create_project(f"{WORKSPACE}/{name}", key=name.upper())
    with neptune.init_run(project=f"{WORKSPACE}/{name}", **OPTIONS) as run:
        run["x"] = 1
        ids.append(run["sys/id"].fetch())
empty = management.create_project("empty", workspace=WORKSPACE)
listed = management.get_project_list()
management.delete_project(empty)
tell(
    ids=ids, listed=sorted(listed), left=sorted(management.get_project_list()),
    named="NEPTUNE_PROJECT" in os.environ,
)
"""
REFUSED = """
from neptune import management
run = neptune.init_run(**OPTIONS)
run.stop()
try:
    management.create_project(os.environ["WORKSPACE"] + "/more")
except Exception as error:
    tell(error=type(error).__name__)
"""


DESCRIBED = """
from bravado.client import SwaggerClient
from bravado.exception import HTTPError
from bravado.requests_client import RequestsClient
from neptune import management
http = RequestsClient()
http.session.headers["Authorization"] = "Bearer " + os.environ["TOKEN"]
checks = ("validate_swagger_spec", "validate_requests", "validate_responses")
found = {}
for name in ("backend", "leaderboard", "artifacts"):
    client = SwaggerClient.from_url(
        f"{os.environ['URL']}/api/{name}/swagger.json", http_client=http,
        config={**dict.fromkeys(checks, False), "also_return_response": True},
    )
    for operation in dir(client.api):
        try:
            getattr(client.api, operation)().response()
            found[operation] = "answered"
        except HTTPError as error:
            found[operation] = error.message or str(error.swagger_result.title)
tell(found=found)
try:
    management.clear_trash(os.environ["NEPTUNE_PROJECT"])
except HTTPError as error:
    tell(trash=[type(error).__name__, str(error)])
"""
MEMBERS = """
from neptune import management
from neptune.management.exceptions import (
    ProjectPrivacyRestrictedException,
    UserNotExistsOrWithoutAccess,
)
OWNER, MEMBER = {"api_token": os.environ["OWNER"]}, {"api_token": os.environ["MEMBER"]}
found = {}
for kind in ("priv", "workspace", "pub"):
    at = management.create_project(f"house/{kind}", visibility=kind, **OWNER)
    found[kind] = management.get_project_member_list(at, **OWNER)
    found[kind + " accounts"] = management.get_project_service_account_list(at, **OWNER)
try:
    management.create_project("house/mine", visibility="pub", **MEMBER)
except ProjectPrivacyRestrictedException as error:
    tell(refused=str(error))
try:
    management.remove_project_member("house/workspace", "milo", **OWNER)
except UserNotExistsOrWithoutAccess as error:
    tell(stays=type(error).__name__)
tell(found=found, projects=management.get_project_list(**MEMBER))
"""
UNASKED = """
import contextlib, io, logging, subprocess, zipfile
from neptune import management
from neptune.exceptions import RunNotFound
from neptune.integrations.python_logger import NeptuneHandler
from neptune.types import File
for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "all of it"]):
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True)
os.environ["NEPTUNE_CUSTOM_RUN_ID"] = "by the environment"
run = neptune.init_run(mode="sync", tags=["unasked"], monitoring_namespace="monitoring/own")
del os.environ["NEPTUNE_CUSTOM_RUN_ID"]
print("a line that is printed")
handler = NeptuneHandler(run=run, path="log")
logging.getLogger("mine").addHandler(handler)
logging.getLogger("mine").warning("careful")
run["f"].upload(File.from_content("of the table"))
run["set"].upload_files([__file__])
run.sync()
found = run["sys/id"].fetch()
shown = io.StringIO()
with contextlib.redirect_stdout(shown):
    run.print_structure()
run.stop()
read = neptune.init_run(with_id=found, mode="read-only")
def lines(path):
    return "".join(read[path].fetch_values()["value"])
read["source_code/files"].download("source.zip")
project = neptune.init_project(mode="read-only")
(row,) = project.fetch_runs_table(tag="unasked", columns=["f", "set"]).to_rows()
row.download_file_attribute("f", "f.txt")
row.download_file_set_attribute("set", "set.zip")
names = [os.path.basename(name) for name in zipfile.ZipFile("set.zip").namelist()]
tell(
    id=found, custom=read["sys/custom_run_id"].fetch(), url=read.get_url(),
    structure="source_code" in shown.getvalue(), log=lines("log"),
    out=lines("monitoring/own/stdout"), host=read["monitoring/own/hostname"].fetch(),
    entry=read["source_code/entrypoint"].fetch(), known=sorted(read.get_structure()["source_code"]),
    source=[one for one in zipfile.ZipFile("source.zip").namelist() if one[-1] != "/"],
    row=open("f.txt").read(), set=[name for name in names if name],
)
management.trash_objects(os.environ["NEPTUNE_PROJECT"], found)
management.clear_trash(os.environ["NEPTUNE_PROJECT"])
try:
    neptune.init_run(with_id=found, mode="read-only")
except RunNotFound as error:
    tell(gone=type(error).__name__)
project.stop()
"""


def has(told, **wanted):
    """Check some of what a script told."""
    assert told == told | wanted


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_values_series_and_tags_are_read_as_written(server, tmp_path, mode):
    """By the client, by a later one, and by Seamark itself."""
    told = server.run(tmp_path, WRITES, server.environment(f"values/{mode}", mode))
    assert re.fullmatch(rf"{mode.upper()[:3]}-\d+", told["id"])
    has(told, name="first", tags=["b"], owner="admin", failed=False)
    has(told, f=0.5, i=3, b=True, s="héllo / 世", odd="odd", deep=2)
    has(told, d=dt.datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp())
    has(told, loss=[3.0, 2.0, 1.0], numbers=[0, 1, 2], last=1.0)
    has(told, steps=[0.5, 4], lines=["x", "y"], gone=False)
    has(told, resumed=[0, 1, 2, 3], now=4, error="MetadataInconsistency")
    text = server.seamark("ls", "--remote", server.url, "--project", f"values/{mode}", "--json")
    (row,) = (
        [json.loads(line) for line in text.splitlines()] if text[0] == "{" else json.loads(text)
    )
    assert row["sys/name"] == "first"
    assert row["sys/state"] == "running"  # as long as it may still be heard of


def test_files_are_read_as_written(server, tmp_path):
    """Files whole and in parts, sets, pictures and artifacts."""
    told = server.run(tmp_path, FILES, server.environment("contents/all", "async"))
    has(told, f="hello", same=True, ext="txt", pictures=["0.png", "1.png"])
    has(told, names=["/", "d/", "d/a.txt", "d/sub/", "d/sub/b.txt", "d/sub/large.bin"])
    has(told, tracked=["a.txt", "m.txt", "sub/b.txt", "sub/large.bin"])


def test_tables_and_projects(server, tmp_path):
    """Columns, order, queries, the trash; a custom id means one run."""
    told = server.run(tmp_path, TABLE, server.environment("tables/all") | {"PREFIX": "ALL"})
    has(told, ids=["ALL-1", "ALL-2", "ALL-3"], loss=[0.0, 2.0, 4.0], again="ALL-2", acc=1)
    has(told, active=3, version=3, left=["ALL-2", "ALL-3"])
    assert sorted(told["tagged"]) == ["ALL-2", "ALL-3"]
    if told["newer"]:  # queries came with 1.9
        has(told, asked=["ALL-2"], none=0, error="NeptuneInvalidQueryException")


def test_default_captures_are_recorded(server, tmp_path):
    """Code, git, output and machine; files of a table's row are read; a purged run is gone."""
    env = server.environment("unasked/all") | {"GIT_PYTHON_REFRESH": "quiet"}
    told = server.run(tmp_path, UNASKED, env)
    has(told, id="ALL-1", custom="by the environment", structure=True, entry="train.py")
    has(told, url=f"{server.url}/unasked/all/e/ALL-1", source=["train.py"], gone="RunNotFound")
    has(told, row="of the table", set=["train.py"])
    assert "a line that is printed" in told["out"]
    assert "careful" in told["log"]
    assert told["host"]
    assert {"entrypoint", "files", "git"} <= set(told["known"])


def test_one_token_is_for_several_projects(server, tmp_path):
    """For a workspace, or for all of its user: projects are created, listed and deleted."""
    for workspace, limit in [("studio", "studio"), ("atelier", "")]:
        server.seamark(
            *["token", "create", f"of-{workspace}", "--project", workspace],
            *["--role", "owner", "--server", server.url],
        )
        user = [f"of-{workspace}", *(["--role", "owner"] if limit else [])]
        env = server.environment(limit, user=user)
        folder = tmp_path / workspace
        folder.mkdir()
        told = server.run(folder, MANAGES, env | {"WORKSPACE": workspace})
        kept = [f"{workspace}/one", f"{workspace}/two"]
        has(told, ids=["ONE-1", "TWO-1"], listed=[f"{workspace}/empty", *kept], left=kept)
        has(told, named=False)


def test_a_token_of_one_project_creates_no_other(server, tmp_path):
    """The client raises its own error, which shows why."""
    env = server.environment("annex/one", user=["ann"]) | {"WORKSPACE": "annex"}
    told = server.run(tmp_path, REFUSED, env)
    assert told["error"] == "Forbidden"
    assert "this token is limited to annex/one" in told["printed"]


def test_the_client_understands_every_refusal(server, tmp_path):
    from seamark.neptune.server.answers import BY_NAME

    env = server.environment("refusals/one", user=["carl"]) | {"URL": server.url}
    given = json.loads(base64.b64decode(env["NEPTUNE_API_TOKEN"]))["api_key"]
    for token, some in [(given, True), ("nobody", False)]:
        told = server.run(tmp_path, DESCRIBED, env | {"TOKEN": token})
        found = told["found"]
        assert set(found) == set(BY_NAME)
        assert {name: said for name, said in found.items() if "specification" in said} == {}
        assert ("answered" in found.values()) == some
    assert told["trash"][0] == "HTTPForbidden"
    assert "this needs the role owner" in told["trash"][1]


def test_a_workspace_sees_its_members(server, tmp_path):
    """Its members belong to its visible projects; only its owners make projects public."""
    on = ["--server", server.url]
    for words in (["olga", "--role", "owner"], ["milo"], ["bot", "--service"]):
        server.seamark("token", "create", *words, "--project", "house", *on)
    server.seamark("token", "create", "vera", "--project", "house/else", "--role", "viewer", *on)
    owner, member = (server.environment(user=[user]) for user in ("olga", "milo"))
    env = {"OWNER": owner["NEPTUNE_API_TOKEN"], "MEMBER": member["NEPTUNE_API_TOKEN"]}
    told = server.run(tmp_path, MEMBERS, owner | env)
    own = {"olga": "owner"}
    has(told["found"], priv=own, pub=own)
    has(told["found"], workspace=own | {"milo": "contributor", "vera": "viewer"})
    assert told["found"]["workspace accounts"] == {}
    assert '"pub"' in told["refused"]
    assert '"priv", "workspace"' in told["refused"]
    assert told["stays"] == "UserNotExistsOrWithoutAccess"
    assert "house/mine" not in told["projects"]


def test_neptune_sync_sends_offline_runs(server, tmp_path):
    has(server.run(tmp_path, OFFLINE, server.environment("offline/all")), x=[1], loss=[2.0])


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_models_and_versions(server, tmp_path, mode):
    """Seamark and the client read and continue each other's."""
    import seamark

    project = f"registry/{mode}"
    prefix = mode.upper()[:3]
    to = {"project": project, "remote": server.url, "api_token": server.token}
    with seamark.init_model(key="OURS", **to):
        pass
    with seamark.init_model_version(model="OURS", **to) as version:
        version["mine"] = 1
    told = server.run(tmp_path, MODELS, server.environment(project, mode) | {"PREFIX": prefix})
    net, stages = f"{prefix}-NET", ["none", "production", "none"]
    has(told, id=net, ids=[f"{net}-{n}" for n in (1, 2, 3)], of=net, back="weights", acc=0.5)
    has(told, clash="NeptuneModelKeyAlreadyExistsError", stage="production")
    has(told, rows=[[f"{net}-{n + 1}", stages[n], n / 2] for n in range(3)])
    has(told, runs=0, ours=f"{prefix}-OURS-2", left=[1, 0])
    assert told["url"].endswith(f"/{project}/m/{net}/v/{net}-3")
    if "asked" in told:
        has(told, asked=[[f"{net}-2"]], sorted=[0.0, 0.5])
    assert sorted(map(str, told["models"])) == [f"['{net}', 'said']", f"['{prefix}-OURS', nan]"]
    with seamark.init_model_version(with_id="OURS-1", mode="read-only", **to) as version:
        assert version["theirs"].fetch() == 2
    with seamark.init_model_version(with_id="NET-2", mode="read-only", **to) as version:
        assert (version["acc"].fetch(), version["sys/stage"].fetch()) == (0.5, "production")
    words = ["--remote", server.url, "--project", project, "--json"]
    text = server.seamark("ls", "--kind", "model", *words)
    assert "OURS" in text
    assert "NET" not in text  # in the trash


def hash_of(files):
    """Return the hash of an artifact (version 2), from what the client lists."""
    found = hashlib.sha256()
    for path, digest, size, kind, _ in files:
        found.update(b"#" + len(path).to_bytes(4, "big") + path.encode())
        found.update(b"#" + digest.encode() + b"#" + size.to_bytes(8, "big"))
        found.update(b"#" + len(kind).to_bytes(4, "big") + kind.encode())
    return found.hexdigest()


@pytest.mark.slow
def test_artifacts_of_s3(server, tmp_path, s3):
    """Files of a bucket are listed, hashed and downloaded; only their metadata is sent."""
    told = server.run(tmp_path, S3, server.environment("artifacts/s3") | s3)
    found = told["all"]
    a, b = (hashlib.md5(data).hexdigest() for data in (b"A", b"BB" * 1000))
    assert found == [
        ["a", a, 1, "S3", "s3://lab/data/a"],
        ["sub/bé", b, 2000, "S3", "s3://lab/data/sub/bé"],
    ]
    assert [one[4] for one in told["one"]] == ["s3://lab/data/sub/bé"]
    assert [one[0] for one in told["more"]] == ["a", "sub/bé", "to/c"]
    assert told["hashes"][:2] == [hash_of(found), hash_of(told["more"])]
    assert told["hashes"][2] not in told["hashes"][:2]
    has(told, a="A", b=2000)
    words = ["--remote", server.url, "--project", "artifacts/s3", "--json"]
    assert "s3://lab/data/a" in server.seamark("show", told["id"], *words)


@pytest.mark.slow
def test_neptune_legacy(server, tmp_path):
    """The client before this one records, and finds again what it recorded."""
    told = server.run(tmp_path, LEGACY, server.environment("legacy/old"))
    has(told, id="OLD-2", ids=["OLD-1", "OLD-2"], params={"lr": 0.1}, properties={"p": "v"})
    has(told, announced={"loss": True, "said": True, "picture": True}, owner="admin", back="x")
    has(told, loss=[[0.0, 1.0], [2.0, 0.5]], tagged=["OLD-1"], running=2, none=0)
    assert sorted(told["tags"]) == ["1", "more", "t"]
    assert {"parameter_lr", "property_p", "channel_loss", "running_time"} <= set(told["columns"])
    assert [float(value) for value in told["last"]] == [0.5, 0.5]
