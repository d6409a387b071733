"""Signed addresses on a team's server: any of its processes opens them, for who may still read."""

from __future__ import annotations

import base64
import json

import pytest

pytest.importorskip("fastapi")

from page_served import PROJECT, Clock, client_of, read, record
from served import folding, served

from seamark.server.access import Links, Role
from seamark.server.accounts.tables import link_key_of
from seamark.server.state import open_server

PART = {"Range": "bytes=5-9"}


def address(api, run):
    """Return a signed address of a film, which may still be on its way."""
    while (found := read(api, "", "attribute", project=PROJECT, run=run, path="film")) is None:
        pass
    body = {"project": PROJECT, "run": run, "sha256": found["value"]["sha256"], "name": "f.mp4"}
    while (asked := api.post("link", json=body)).status_code == 404:
        pass
    return f"{str(api.base_url).removesuffix('api/v1/')}{asked.json()['url']}"


def words_of(url):
    """Return the part of an address that says what it leads to, as it is and as it was signed."""
    words = url.rpartition("linked/")[2].partition(".")[0]
    return words, json.loads(base64.urlsafe_b64decode(words + "=" * (-len(words) % 4)))


def api_of(url, token=""):
    return client_of(f"{url}/api/v1/", token)


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    """A server with a run, its clock, and the accounts of it."""
    with served(tmp_path_factory.mktemp("server")) as there, folding(there.server):
        ids = record(tmp_path_factory.mktemp("links") / "root", there.url, there.token)
        yield there, ids["run-0"]


@pytest.fixture
def clock(team):
    """The time at which addresses are signed and opened."""
    there, _ = team
    made, before = Clock(), there.server.links
    there.server.links = Links(link_key_of(there.server.databases.account), made)
    yield made
    there.server.links = before


def test_an_address_ends_with_the_rights_of_its_maker(team, clock):
    there, run = team
    accounts = there.server.accounts
    ends = {
        "no-token": lambda made: accounts.revoke(made.prefix),
        "no-role": lambda _: accounts.set_member("no-role", PROJECT, None),
        "no-user": lambda _: accounts.set_user("no-user", disabled=True),
    }
    with api_of(there.url, there.token) as admin, client_of(there.url) as stranger:
        kept = address(admin, run)

        def opens(url):
            return [stranger.get(url, headers=given).status_code for given in ({}, PART)]

        for name, end in ends.items():
            accounts.add_user(name)
            accounts.set_member(name, PROJECT, Role.VIEWER)
            made = accounts.create_token(name, by="admin")
            with api_of(there.url, made.secret) as api:
                url = address(api, run)
            assert made.prefix in words_of(url)[1]
            assert made.secret not in str(words_of(url)[1])
            assert opens(url) == [200, 206]
            end(made)
            assert opens(url) == [404, 404], name
            assert opens(kept) == [200, 206]
        clock.ns += 60 * 10**9 + 1
        assert opens(kept) == [404, 206]


def test_no_part_of_an_address_can_be_changed(team, clock):
    there, run = team
    with api_of(there.url, there.token) as admin, client_of(there.url) as stranger:
        url = address(admin, run)
        words, said = words_of(url)
        mac = url.rpartition("/")[0].rpartition(".")[2]
        assert said[:2] == [PROJECT, run]
        for place, value in enumerate(
            ("other", "RUN-0", "0" * 64, "x.html", True, "seamark_xxxxxxxx", "somebody", 1 << 40)
        ):
            changed = [*said[:place], value, *said[place + 1 :]]
            assert changed != said
            text = base64.urlsafe_b64encode(json.dumps(changed).encode()).rstrip(b"=").decode()
            assert stranger.get(url.replace(words, text)).json()["error"] == "no-link", value
        for other in (mac[:-2], "", mac[::-1]):
            assert stranger.get(url.replace(mac, other)).status_code == 404
        assert stranger.get(url).status_code == 200
        assert url.endswith("/f.mp4")


def test_an_address_of_a_public_project_ends_when_it_is_private(team, clock):
    there, run = team
    accounts = there.server.accounts
    accounts.set_visibility(PROJECT, "public", by="admin")
    with api_of(there.url) as nobody, client_of(there.url) as stranger:
        url = address(nobody, run)
        assert stranger.get(url, headers=PART).status_code == 206
        accounts.set_visibility(PROJECT, "private", by="admin")
        assert stranger.get(url, headers=PART).status_code == 404
        known = {**PART, "Authorization": f"Bearer {there.token}"}
        assert stranger.get(url, headers=known).status_code == 206


def test_another_process_on_the_same_databases_opens_an_address(team, clock):
    there, run = team
    with api_of(there.url, there.token) as admin:
        head = address(admin, run).rpartition("linked/")[2].partition("/")[0]
    other = open_server(there.server.settings)
    try:
        links = Links(link_key_of(other.databases.account), clock)
        mine, theirs = links.open(head), there.server.links.open(head)
        assert mine == theirs
        assert mine.run == run
        assert there.server.links.open(links.sign(mine)) == mine
        assert Links(b"x" * 32, clock).open(head) is None
    finally:
        other.close()
