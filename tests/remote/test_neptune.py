"""Mistakes in ``neptune://`` are reported before a server is asked."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

import seamark
from seamark.errors import ArgumentError
from seamark.opening.place import readable
from seamark.remote.neptune import token_to_show
from seamark.remote.schemes import canonical


def token_of(**told):
    """Return an API token of Neptune's."""
    return base64.b64encode(json.dumps(told).encode()).decode()


@pytest.mark.parametrize(
    "place", ["", "project", "a/b/c", "a/", "/b", "a b/c", "me@a/b", "a/b?c=1"]
)
def test_a_uri_that_names_no_project_is_refused(place):
    with pytest.raises(ArgumentError, match=r"^remote: expected .* got "):
        seamark.init_run("demo", remote=f"neptune://{place}", api_token="x")
    assert not Path(".seamark").exists()


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (None, "NEPTUNE_API_TOKEN or api_token=, got none"),
        ("seamark_abc", "the given token contains no server"),
        (token_of(api_address="nowhere"), "the given token contains no server"),
        (token_of(api_address="http://host.lab"), "unencrypted to http://host.lab"),
        (token_of(api_address="https://me:secret@host.lab"), "without a user .* got 'https://[*]"),
        (token_of(api_address="https://host.lab:port"), "expected the address of a server"),
        (token_of(api_address="ftp://host.lab"), "expected an address such as"),
    ],
)
def test_a_wrong_token_is_reported_before_anything_is_recorded(token, words):
    remote = "neptune://team/digits"
    for make in (seamark.init_run, seamark.init_project, seamark.init_model):
        with pytest.raises(ArgumentError, match=words):
            make(project="demo", remote=remote, api_token=token)
    assert not Path(".seamark").exists()


@pytest.mark.parametrize(
    "address", ["https://host.lab", "http://127.0.0.1:8450", "http://localhost:8450"]
)
def test_the_token_has_to_name_a_server(address, monkeypatch):
    """``api_token`` may be meant for a Seamark server that the run is sent to as well."""
    token = token_of(api_address="https://old.lab", api_url=address)
    monkeypatch.setenv("NEPTUNE_API_TOKEN", token)
    for given in ("seamark_abc", None, f" {token} ", f"{token[:9]}\n{token[9:]}"):
        assert token_to_show(given) == token


def test_runs_sent_to_neptune_are_read_where_they_were_recorded(monkeypatch):
    with seamark.init_run("demo") as run:
        run["a"] = 1
    monkeypatch.setenv("SEAMARK_REMOTE", "neptune://team/digits")
    monkeypatch.setenv("NEPTUNE_API_TOKEN", token_of(api_address="https://host.lab"))
    assert len(seamark.init_project("demo", mode="read-only").fetch_runs_table()) == 1
    read = seamark.init_run("demo", with_id=run.id, mode="read-only")
    assert read["a"].fetch() == 1
    with pytest.raises(ArgumentError, match="a server or file:// to read from"):
        readable("neptune://team/digits")
    assert canonical("NEPTUNE://team/digits") == "neptune://team/digits"
