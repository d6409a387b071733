"""Access to a page, and what its answers let a browser do."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi")

from page_served import SECRET, TOKEN, page

from seamark.page.files import PageFiles, policy


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A page of two roots, of which one is not there."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "a").mkdir()
    with page(folder / "a", folder / "none") as served:
        yield served


def test_strangers_get_the_greeting_and_the_files_alone(here):
    stranger = here.stranger
    assert stranger.get("").status_code == 200
    greeting = stranger.get("api/v1/").json()
    assert [(root["api"], root["path"]) for root in greeting["roots"]] == [
        ("r0/api/v1/", ""),
        ("r1/api/v1/", ""),
    ]
    told = (greeting["product"], greeting["login"], greeting["page"])
    assert told == ("seamark", "token", True)
    table = "r0/api/v1/read/table"
    for method, path in [
        *(("POST", f"r0/api/v1/{path}") for path in ("read/table", "read/curves", "link")),
        *(("POST", f"{root}api/v1/read/table") for root in ("r9/", "")),
        ("GET", "r0/api/v1/openapi.json"),
        ("PATCH", "r0/api/v1/runs"),
        ("GET", "nowhere"),
    ]:
        for headers in (
            {},
            {"X-Seamark-Token": TOKEN[:-1]},
            {"X-Seamark-Token": ""},
            {"Authorization": f"Bearer {TOKEN}"},
            {"Cookie": f"X-Seamark-Token={TOKEN}"},
        ):
            answer = stranger.request(method, path, headers=headers)
            assert answer.status_code == 401, (method, path, headers)
            assert set(answer.json()) == {"error", "hint"}
    # A proxy of a notebook server passes on the name that the browser knows it by.
    shown = {**SECRET, "Host": "hub.lab.example:8443"}
    assert stranger.post(table, headers=shown).status_code == 200
    known = here.client.get("api/v1/").json()["roots"][0]
    assert known["path"] == str(here.watch.roots[0])


def test_roots_are_those_of_the_greeting_alone(here):
    statuses = {"r0/": 200, "r1/": 200, "r2/": 404, "r00/": 404, "r-1/": 404, "": 404}
    for root, status in statuses.items():
        assert here.client.post(f"{root}api/v1/read/table").status_code == status, root
    assert here.client.get("r0/").status_code == 404


def test_made_up_signed_addresses_are_refused(here):
    for signed in ("x", "a.b", f"{'a' * 20000}.b", "e30.AAAA"):
        answer = here.stranger.get(f"r0/api/v1/linked/{signed}/f")
        assert (answer.status_code, answer.json()["error"]) == (404, "no-link")


def test_answers_say_what_a_browser_may_do(here):
    index = here.client.get("")
    assert index.headers["content-security-policy"] == policy()
    assert index.headers["cache-control"] == "no-store"
    assert "frame-ancestors 'self'" in policy()
    assert policy(embed=True).endswith("'self' http://localhost:* http://127.0.0.1:*")
    version = index.headers["seamark-version"]
    assert f"static/{version}/" in index.text
    assert "@VERSION@" not in index.text
    script = here.client.get(f"static/{version}/js/main.js", headers={"Accept-Encoding": "gzip"})
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert script.headers["content-encoding"] == "gzip"
    assert here.client.get("static/other/js/main.js").headers["cache-control"] == "no-store"
    read = here.client.post("r0/api/v1/read/table", headers={"Origin": "https://evil.example"})
    assert read.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    for answer in (index, script, read, here.client.get("nowhere")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["seamark-version"] == version
        assert int(answer.headers["seamark-now"])
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert "set-cookie" not in answer.headers
    asked = here.client.options(
        "r0/api/v1/read/table", headers={"Access-Control-Request-Method": "PATCH", "Origin": "null"}
    )
    assert asked.status_code == 405


def test_no_other_file_can_be_asked_for(here):
    for path in (
        *("../app.py", "%2e%2e/app.py", "..%2f..%2fapp.py", "/etc/passwd", "%2fetc%2fpasswd"),
        *("js", "", "js%00/main.js", "js\\main.js"),
    ):
        request = here.stranger.build_request("GET", here.url)
        request.url = request.url.copy_with(raw_path=f"/static/v/{path}".encode())
        answer = here.stranger.send(request, follow_redirects=False)
        assert answer.status_code in {401, 404}, path


def test_a_file_that_is_edited_is_another_version(tmp_path):
    """Browsers keep files by their version."""
    (tmp_path / "index.html").write_text("<p>static/@VERSION@/a.js")
    (tmp_path / "a.js").write_text("1")
    before = PageFiles(tmp_path).version
    (tmp_path / "a.js").write_text("22")
    files = PageFiles(tmp_path)
    assert files.version != before
    assert f"static/{files.version}/a.js".encode() in files.index().body
    answer = files.file(files.version, "a.js")
    assert answer is not None
    assert answer.body == b"22"


def test_requests_of_strangers_cost_no_look_at_the_folders(tmp_path) -> None:
    """A page of another site can send some, for a picture."""
    asked = "r0/api/v1/read/changes"
    for token, heard in ((TOKEN, 2), (None, 4)):
        with page(tmp_path, token=token) as here:
            here.stranger.post(asked)
            here.stranger.post(asked, headers={"X-Seamark-Token": "another"})
            here.client.post(asked)
            here.client.get("api/v1/")
            here.client.get("")
            assert here.watch.asks == heard


OWN_HOSTS = ["localhost", "localhost:8765", "127.0.0.1:8765", "127.3.2.1", "[::1]:8765", "[::1]"]
OWN_HOSTS += ["LOCALHOST.", "lab.example"]
OTHER_HOSTS = ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1"]
OTHER_HOSTS += ["[2001:db8::1]", "user@localhost", ""]


def test_without_a_token_only_names_of_this_machine_are_answered(tmp_path):
    """A page of somebody else cannot have its own name lead here and read what is answered."""
    sites = {"cross-site": 403, "same-site": 200, "same-origin": 200, "none": 200}
    cases = [("Host", host, 200) for host in OWN_HOSTS]
    cases += [("Host", host, 400) for host in OTHER_HOSTS]
    cases += [("Sec-Fetch-Site", *site) for site in sites.items()]
    (tmp_path / "a").mkdir()
    with page(tmp_path / "a", token=None, hosts=("lab.example",)) as here:
        assert here.stranger.get("api/v1/").json()["login"] == "none"
        for name, value, status in cases:
            for method, path in (("GET", ""), ("GET", "api/v1/"), ("POST", "r0/api/v1/read/table")):
                if path or name == "Host":
                    answer = here.stranger.request(method, path, headers={name: value})
                    assert answer.status_code == status, (value, path)
