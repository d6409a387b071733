"""``seamark.management``: Neptune's calls about projects, members and the trash."""

from __future__ import annotations

import base64
import json
import logging

import pytest
from asking import ask
from recording import QUIET

import seamark
from seamark import management
from seamark.management import exceptions
from seamark.remote.protocol import RemoteError


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    pytest.importorskip("fastapi")
    from served import whole_server

    with whole_server(tmp_path_factory.mktemp("server")) as server:
        yield server


def token_of(running, user, project, role, **more):
    given = {"user": user, "project": project, "role": role, **more}
    secret = ask(running.url, "POST", "accounts/tokens", running.token, given).json()["token"]
    return in_neptunes_form(running.url, secret)


def in_neptunes_form(url, secret):
    return base64.b64encode(json.dumps({"api_address": url, "api_key": secret}).encode()).decode()


def make_run(project, **more):
    with seamark.init_run(project, **QUIET, **more) as run:
        run["x"] = 1
        return run.id


def ids(project, *, trashed=False, **more):
    table = seamark.init_project(project, **more).fetch_runs_table(trashed=trashed)
    return sorted(row["sys/id"] for row in table.to_rows())


def test_folder_has_projects_and_a_trash(caplog):
    assert management.get_project_list() == []
    kept, gone, other = (make_run("team/one") for _ in range(3))
    below = make_run("team/one/sub")
    assert management.create_project("two", workspace="team", description="what for") == "team/two"
    assert management.get_project_list() == ["team/one", "team/one/sub", "team/two"]
    assert seamark.init_project("team/two")["sys/description"].fetch() == "what for"
    for taken in ("team/two", "team/one"):
        with pytest.raises(exceptions.ProjectAlreadyExists):
            management.create_project(taken)
    with seamark.init_model(key="NET", project="team/one"):
        pass
    for _ in range(2):
        with seamark.init_model_version(model="NET", project="team/one"):
            pass
    with caplog.at_level(logging.WARNING, "seamark"):
        management.trash_objects("team/one", [gone, "ONE-NET", "nothing", below])
    assert ["no run 'nothing'" in record.message for record in caplog.records] == [True, False]
    assert "is in project team/one/sub" in caplog.records[1].message
    management.trash_objects("one", other, workspace="team")
    assert ids("team/one") == sorted([kept, below])
    with seamark.init_model(with_id="NET", project="team/one", mode="read-only") as model:
        assert len(model.fetch_model_versions_table()) == 0

    caplog.clear()
    management.delete_objects_from_trash("team/one", [gone, kept])
    assert [kept in record.message for record in caplog.records] == [True]
    assert ids("team/one", trashed=True) == [other]
    assert ids("team/one") == sorted([kept, below])
    with seamark.init_model_version(model="NET", project="team/one"):
        pass
    management.clear_trash("team/one")
    assert ids("team/one", trashed=True) == []
    assert "1 of its versions" in caplog.records[-1].message
    with seamark.init_model_version(with_id="NET-3", project="team/one", mode="read-only") as left:
        assert left["sys/trashed"].fetch() is False


def test_folder_has_no_accounts_and_names_what_has():
    at = {"project": "team/one"}
    for name, arguments in (
        ("get_project_member_list", at),
        ("add_project_member", {**at, "username": "mia", "role": "viewer"}),
        ("get_workspace_member_list", {"workspace": "team"}),
        ("get_workspace_status", {"workspace": "team"}),
        ("invite_to_workspace", {"username": "mia", "workspace": "team"}),
    ):
        with pytest.raises(exceptions.ManagementOperationFailure, match="SEAMARK_REMOTE"):
            getattr(management, name)(**arguments)
    with pytest.raises(exceptions.ManagementOperationFailure, match="seamark purge"):
        management.delete_project("team/one")


def test_wrong_arguments_are_refused_before_anything_is_asked():
    with pytest.raises(exceptions.UnsupportedValue, match="'viewer'"):
        management.add_project_member("a/b", "mia", "boss")
    with pytest.raises(exceptions.UnsupportedValue, match="'priv'"):
        management.create_project("a/b", visibility="secret")
    with pytest.raises(exceptions.UnsupportedValue):
        management.invite_to_workspace(username="mia", workspace="a", role="boss")
    with pytest.raises(ValueError, match="both"):
        management.invite_to_workspace(username="mia", email="m@x", workspace="a")
    with pytest.raises(ValueError, match="neither"):
        management.invite_to_workspace(workspace="a")
    with pytest.raises(exceptions.ConflictingWorkspaceName):
        management.clear_trash("a/b", workspace="c")
    with pytest.raises(exceptions.InvalidProjectName):
        management.trash_objects("a//b", "x")
    with pytest.raises(TypeError, match="ids: expected str, got int"):
        management.trash_objects("a/b", [1])
    with pytest.raises(TypeError, match="project"):
        management.clear_trash(3)


def test_token_of_neptunes_service_is_not_used(caplog):
    make_run("team/one")
    dead = in_neptunes_form("https://app.neptune.ai", "secret")
    assert management.get_project_list(api_token=dead) == ["team/one"]
    assert "app.neptune.ai" in caplog.text
    assert "secret" not in caplog.text


def test_server_manages_projects_and_members(running, monkeypatch, caplog):
    monkeypatch.setenv("SEAMARK_REMOTE", running.url)
    monkeypatch.setenv("SEAMARK_API_TOKEN", running.token)
    at = "lab/one"
    assert management.create_project(at, key="ONE", visibility="workspace") == at
    with pytest.raises(exceptions.ProjectAlreadyExists):
        management.create_project("one", workspace="lab")
    with pytest.raises(exceptions.ProjectKeyInvalid):
        management.create_project("lab/two", key="no good")
    with pytest.raises(exceptions.MissingWorkspaceName):
        management.create_project("alone")
    assert [one for one in management.get_project_list() if one.startswith("lab/")] == [at]

    token_of(running, "vera", at, "viewer")
    owner = token_of(running, "olga", at, "owner")
    token_of(running, "stan", "elsewhere/x", "owner")
    token_of(running, "bot", "lab/other", "contributor", service=True)
    management.add_project_service_account(at, "bot", "contributor")
    everyone = {"admin": "owner", "vera": "viewer", "olga": "owner"}
    assert management.get_project_member_list(at, api_token=owner) == everyone
    assert management.get_project_service_account_list(at) == {"bot": "contributor"}
    management.remove_project_member(at, "vera")
    management.add_project_member(at, "stan", "contributor", api_token=owner)
    add, remove = management.add_project_member, management.remove_project_member
    add_bot = management.add_project_service_account
    remove_bot = management.remove_project_service_account
    for error, call, arguments in (
        (exceptions.UserAlreadyHasAccess, add, ("stan", "owner")),
        (exceptions.UserNotExistsOrWithoutAccess, add, ("nobody", "viewer")),
        (exceptions.UserNotExistsOrWithoutAccess, remove, ("vera",)),
        (exceptions.ServiceAccountAlreadyHasAccess, add_bot, ("bot", "viewer")),
        (exceptions.ServiceAccountNotFound, add_bot, ("robot", "viewer")),
    ):
        with pytest.raises(error):
            call(at, *arguments)
    remove(at, "stan")
    remove_bot(at, "bot")
    with pytest.raises(exceptions.ServiceAccountNotExistsOrWithoutAccess):
        remove_bot(at, "bot")
    assert management.get_workspace_service_account_list("lab") == {"bot": "member"}
    belong = {"admin": "member", "olga": "member"}  # by their roles in a project of it
    assert management.get_workspace_member_list("lab") == belong
    assert management.get_workspace_status("lab")["membersCount"] == len(belong) + 1  # and the bot
    told = ask(running.url, "POST", "accounts/tokens", running.token, {"user": "olga"}).json()
    olga = in_neptunes_form(running.url, told["token"])
    with pytest.raises(exceptions.ProjectPrivacyRestrictedException, match="owners of a workspace"):
        management.create_project("lab/open", visibility="pub", api_token=olga)
    with pytest.raises(exceptions.ManagementOperationFailure, match="seamark token create"):
        management.invite_to_workspace(email="m@x.org", workspace="lab")
    management.delete_project(at)  # nothing was ever recorded in it
    assert at not in management.get_project_list()


def test_neptunes_variable_names_the_server_where_ours_say_nothing(running, monkeypatch):
    ours = token_of(running, "vera", "variables/mine", "owner")
    token_of(running, "vera", "variables/second", "owner")
    make_run("here/only")
    assert management.get_project_list() == ["here/only"]
    monkeypatch.setenv("NEPTUNE_API_TOKEN", ours)
    assert management.get_project_member_list("variables/mine") == {"vera": "owner"}
    monkeypatch.setenv("SEAMARK_API_TOKEN", "seamark_of_something_else")
    assert management.get_project_list() == ["here/only"]
    monkeypatch.delenv("SEAMARK_API_TOKEN")
    monkeypatch.setenv("SEAMARK_REMOTE", "http://127.0.0.1:1")
    with pytest.raises(RemoteError, match=r"127\.0\.0\.1:1"):
        management.get_project_list()


def test_trash_of_a_server_is_emptied_by_who_may(running, monkeypatch, caplog):
    from neptune_client import Client

    monkeypatch.setenv("SEAMARK_REMOTE", running.url)
    monkeypatch.setenv("SEAMARK_API_TOKEN", running.token)
    at = "bin/trash"  # a workspace of its own: the server is that of other tests as well
    viewer = token_of(running, "vic", at, "viewer")
    owner = token_of(running, "oleg", at, "owner")
    stranger = token_of(running, "sid", "bin/trash2", "owner")
    client = Client(running.url, running.token)
    run = client.new_run(at)["shortId"]
    management.trash_objects(at, run, api_token=owner)
    assert ids(at) == []
    caplog.clear()
    management.delete_objects_from_trash(at, [run, "ONE-9"])
    assert len(caplog.records) == 1
    kept, gone = (client.new_run(at)["shortId"] for _ in range(2))
    management.delete_objects_from_trash(at, kept)  # not in the trash
    management.trash_objects(at, gone)
    management.clear_trash(at)
    assert (ids(at), ids(at, trashed=True)) == ([kept], [])

    for token, error in (
        (viewer, exceptions.ManagementOperationFailure),
        (stranger, exceptions.ProjectNotFound),
    ):
        with pytest.raises(error):
            management.clear_trash(at, api_token=token)
    with pytest.raises(exceptions.ProjectNotFound):
        management.trash_objects(at, kept, api_token=stranger)
    with pytest.raises(exceptions.AccessRevokedOnMemberRemoval):
        management.remove_project_member(at, "oleg", api_token=viewer)
    management.trash_objects(at, kept, api_token=viewer)
    assert ids(at) == [kept]
    with pytest.raises(exceptions.WorkspaceNotFound):
        management.get_workspace_member_list("bin", api_token=stranger)
    with pytest.raises(seamark.errors.SeamarkError):
        management.get_project_list(api_token=in_neptunes_form(running.url, "seamark_wrong"))
