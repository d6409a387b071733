"""No secret reaches the disk or the screen: not the run folders, not the index, not our output."""

from __future__ import annotations

import copy
import json
import os
import pickle
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from command import outcome_of

import seamark
from seamark.capture.secrets.secrets import BY_NAME, BY_VALUE

NAMES = [
    *("argument by name", "argument in an address", "variable of a name that was given"),
    *("api token", "params of init_run", "description", "assigned", "assigned, nested"),
    *("assigned in a list", "exception", "variable in a frame", "remote of git"),
    *("remote of git, rewritten", "artifact", "in a child"),
]
PLANTED = {
    **{name: re.sub("[, ]+", "-", name) + "-7f3a" for name in NAMES},
    "argument, signed": "arg-signed-7f3a%2B",
    "argument by shape": "ghp_argshape7f3a7f3a7f3a",
    "variable": "variable 7f3a value",
    "tag": "glpat-tag7f3a7f3a7f3a7f3a",
    "assigned by shape": "AKIA7F3A7F3A7F3A7F3A",
    "name that was given": "Mrs 7f3a",
    "expression that was given": "acme-7f3a7f3a",
    "text of a series": "hf_series7F3Aseries7F3A",
    "string set": "xoxb-7f3a7f3a-set",
}
SCRIPT = """
    import json, multiprocessing, os, sys
    import seamark

    def connect(password):
        token = os.environ["REGISTRY_PASSWORD"]
        raise ConnectionError(
            f"no answer from https://me:{password}@host with {token}, api_key={password!r}"
        )

    def child(run, secret):
        run["child"] = {"token": secret, "n": 1}

    def main():
        planted = json.load(sys.stdin)
        run = seamark.init_run(
            api_token=planted["api token"],
            params={"db": {"password": planted["params of init_run"]}, "lr": 0.1},
            tags=["baseline", planted["tag"]],
            name="of " + planted["api token"],
            description="see https://me:" + planted["description"] + "@host",
            secrets=["patient", r"acme-[0-9a-f]{8}", "site_code"],
        )
        run["params/api_key"] = planted["assigned"]
        run["params"] = {
            "cloud": {"aws": {"secret_access_key": planted["assigned, nested"], "region": "eu"}},
            "workers": [{"token": planted["assigned in a list"], "n": 3}],
            "note": "use " + planted["assigned by shape"] + " there",
            "patient": planted["name that was given"],
            "where": "at " + planted["expression that was given"] + " and "
                + planted["variable of a name that was given"],
            "from environment": os.environ["REGISTRY_PASSWORD"],
            "tokenizer": "bert",
            "num_tokens": 5,
        }
        run["log"].append("logged in with " + planted["text of a series"])
        run["words"].add(["plain", planted["string set"]])
        run["data"].track_files("s3://me:" + planted["artifact"] + "@bucket/x?token="
            + planted["artifact"])
        for step in range(20):
            run.log_metrics({"train/loss": 1 / (step + 1)}, step=step)
        worker = multiprocessing.get_context("spawn").Process(
            target=child, args=(run, planted["in a child"])
        )
        worker.start()
        worker.join()
        assert worker.exitcode == 0
        try:
            with run:
                password = planted["variable in a frame"]
                try:
                    connect(password=planted["exception"])
                except ConnectionError as error:
                    raise RuntimeError(planted["api token"] + " refused") from error
        except RuntimeError:
            print("trained")

    if __name__ == "__main__":
        main()
"""


def started(*command, given="", **variables):
    env = {**os.environ, **variables}
    done = subprocess.run(
        command, input=given, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def found_in(content):
    return [what for what, secret in PLANTED.items() if secret.encode() in content]


def command(*words):
    done = outcome_of(*words)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.once
def test_no_planted_secret_reaches_the_disk_or_the_screen():
    Path("train.py").write_text(textwrap.dedent(SCRIPT))
    rewritten = f"url.https://{PLANTED['remote of git, rewritten']}@host/.insteadOf"
    for words in (
        ["init", "-q"],
        ["remote", "add", "origin", f"https://me:{PLANTED['remote of git']}@host/repo.git"],
        ["config", rewritten, "https://h"],
        ["add", "train.py"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x"],
    ):
        started("git", *words)
    printed = started(
        *(sys.executable, "train.py"),
        *("--api-key", PLANTED["argument by name"]),
        f"logger.url=https://u:{PLANTED['argument in an address']}@host",
        f"https://host/x?sig={PLANTED['argument, signed']}&x=1",
        PLANTED["argument by shape"],
        given=json.dumps(PLANTED),
        REGISTRY_PASSWORD=PLANTED["variable"],
        SITE_CODE=PLANTED["variable of a name that was given"],
    )
    assert "trained" in printed
    printed += command("show", "latest")
    printed += command("show", "latest", "--json")
    printed += command("ls", "--columns", "*")
    places = [Path(".seamark"), Path(os.environ["XDG_CACHE_HOME"])]
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    assert any(".db" in path.name for path in files), "the index is searched too"
    contents = {str(path): path.read_bytes() for path in files} | {"the screen": printed.encode()}
    found = [(what, at) for at, content in contents.items() for what in found_in(content)]
    assert not found
    (folder,) = (one for one in Path(".seamark/default").iterdir() if one.name[0] != ".")
    run = seamark.init_run(with_id=folder.name, mode="read-only")
    assert run["params/cloud/aws"].fetch() == {"secret_access_key": BY_NAME, "region": "eu"}
    assert run["params/tokenizer"].fetch() == "bert"
    assert any(b"refused" in content for content in contents.values())
    assert run["child"].fetch() == {"token": BY_NAME, "n": 1}
    assert run.exists("data")


def recorded(path, value, **given):
    before = copy.deepcopy(value)
    with seamark.init_run(**given) as run:
        run[path] = value
    assert value == before, "values of the training are not changed"
    return seamark.init_run(with_id=run.id, mode="read-only")[path].fetch()


@pytest.mark.parametrize("word", [seamark.ANONYMOUS_API_TOKEN, "test", "train", "token"])
def test_word_given_as_a_token_is_no_secret(word):
    """Placeholders stand in scripts that were written for a service, and in every other line."""
    text = f"we {word} a model of {word}s"
    with seamark.init_run(api_token=word) as run:
        run["note"] = text
        run["log"].append(text)
        run.wait()
        assert run["note"].fetch() == text
        assert run["log"].fetch_last() == text


ADDRESSES = {
    "https://h/x?token=abc&v=1&api_key=q": "https://h/x?token=***&v=1&api_key=***",
    "gs://b/x?X-Goog-Signature=1&X-Goog-Credential=2": (
        "gs://b/x?X-Goog-Signature=***&X-Goog-Credential=***"
    ),
    "https://h/x#access_token=abc&v=1": "https://h/x#access_token=***&v=1",
    "https://h/hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567/x": "https://h/***/x",
    "https://h/given-7f3a/x": "https://h/***/x",
    "https://h/x?monkey=1&design=2&author=3": "https://h/x?monkey=1&design=2&author=3",
}


def test_addresses_of_artifacts_and_checkpoints_hold_no_secrets():
    with seamark.init_run(api_token="given-7f3a") as run:
        assert b"given-7f3a" not in pickle.dumps(run)
        assert "given-7f3a" not in repr(run) + repr(vars(run)) + str(run.get_structure())
        for at, url in enumerate(ADDRESSES):
            run[f"data{at}"].track_files(url)
            run.session.recorder.contents.files.refer(f"model{at}", url)
    with seamark.init_run(with_id=run.id, mode="read-only") as again:
        attribute = again.session.recorded.attribute
        for at, kept in enumerate(ADDRESSES.values()):
            assert attribute(f"data{at}").value["references"] == [kept]
            assert attribute(f"model{at}").value["ref"] == kept
        assert again["sys/masked"].fetch() == {
            f"{n}{at}" for n in ("data", "model") for at in range(5)
        }


def test_first_hidden_place_is_warned_of_and_the_run_lists_all(caplog):
    with seamark.init_run() as run:
        run["a/token"] = "x"
        run["b"] = {"password": "y", "n": 1}
        run["a/token"] = "z"
    assert caplog.text.count("looks like a secret") == 1
    assert "'a/token' looks like a secret and is hidden" in caplog.text
    again = seamark.init_run(with_id=run.id, mode="read-only")
    assert again["sys/masked"].fetch() == {"a/token", "b/password"}
    assert "2 values (a/token, b/password)" in command("show", "latest")
    caplog.clear()
    with seamark.init_run(params={"lr": 0.1, "tokenizer": "bert"}) as run:
        run.log_metrics({"loss": 1.0})
    assert not seamark.init_run(with_id=run.id, mode="read-only").exists("sys/masked")
    assert "secret" not in caplog.text


def test_masking_is_switched_by_a_variable_or_an_argument_which_takes_precedence(monkeypatch):
    assert recorded("params", {"token": "t0k"}, secrets=False) == {"token": "t0k"}
    monkeypatch.setenv("SEAMARK_MASK_SECRETS", "0")
    assert recorded("params", {"token": "t0k"}) == {"token": "t0k"}
    assert recorded("token", "t0k", secrets=True) == BY_NAME
    monkeypatch.delenv("SEAMARK_MASK_SECRETS")
    monkeypatch.setenv("SEAMARK_SECRETS", "patient_id\n\\d{3}-\\d{2} \\w+\n")
    given = {"patient_id": "Bob", "x": "123-45 abc", "y": 1, "nested": [{"token": "x"}]}
    kept = {"patient_id": BY_NAME, "x": BY_VALUE, "y": 1, "nested": [{"token": BY_NAME}]}
    assert recorded("p", given) == kept


def test_project_hides_secrets_too(monkeypatch):
    with seamark.init_project("demo") as project:
        project["link"] = "https://me:pw@host"
        project["site"] = {"token": "x"}
        monkeypatch.setenv("SEAMARK_MASK_SECRETS", "no")
        with seamark.init_project("demo") as open_project:
            open_project["plain"] = {"token": "x"}
    again = seamark.init_project("demo", mode="read-only")
    assert again["link"].fetch() == "https://***@host"
    assert again["site"].fetch() == {"token": BY_NAME}
    assert again["plain"].fetch() == {"token": "x"}
