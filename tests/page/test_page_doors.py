"""Who may ask a page, and what its answers let a browser do."""

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


def test_nothing_but_the_greeting_and_the_files_is_answered_without_the_token(here):
    """Neither without one nor with another one, whatever is asked for; and none is told apart."""
    stranger = here.stranger
    for path in ("", "api/v1/"):
        assert stranger.get(path).status_code == 200
    greeting = stranger.get("api/v1/").json()
    assert [root["api"] for root in greeting["roots"]] == ["r0/api/v1/", "r1/api/v1/"]
    assert {root["path"] for root in greeting["roots"]} == {""}
    assert (greeting["product"], greeting["login"], greeting["page"]) == (
        "seamark",
        "token",
        True,
    )
    asked = [
        ("POST", "r0/api/v1/read/table"),
        ("POST", "r0/api/v1/read/projects"),
        ("GET", "r0/api/v1/openapi.json"),
        ("POST", "r0/api/v1/read/curves"),
        ("PATCH", "r0/api/v1/runs"),
        ("POST", "r0/api/v1/link"),
        ("POST", "r9/api/v1/read/table"),
        ("POST", "api/v1/read/table"),
        ("GET", "nowhere"),
    ]
    for method, path in asked:
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
    assert here.client.post("r0/api/v1/read/table").status_code == 200
    assert here.client.post("r1/api/v1/read/table").status_code == 200
    known = here.client.get("api/v1/").json()["roots"][0]
    assert known["path"] == str(here.watch.roots[0])


def test_a_signed_address_is_the_only_one_that_needs_no_token(here):
    """Whoever makes one up is told that it is none."""
    for signed in ("x", "a.b", f"{'a' * 20000}.b", "e30.AAAA"):
        answer = here.stranger.get(f"r0/api/v1/linked/{signed}/f")
        assert (answer.status_code, answer.json()["error"]) == (404, "no-link")


def test_answers_say_what_a_browser_may_do(here):
    """The page runs its own files alone; an answer of the API is nothing to be shown at all."""
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


@pytest.mark.parametrize(
    "path",
    [
        "static/v/../app.py",
        "static/v/%2e%2e/app.py",
        "static/v/..%2f..%2fapp.py",
        "static/v//etc/passwd",
        "static/v/%2fetc%2fpasswd",
        "static/v/js",
        "static/v/",
        "static/v/js%00/main.js",
        "static/v/js\\main.js",
    ],
)
def test_no_other_file_can_be_asked_for(here, path):
    """Names are looked up among those of the page, and lead nowhere else."""
    request = here.stranger.build_request("GET", here.url)
    request.url = request.url.copy_with(raw_path=f"/{path}".encode())
    assert here.stranger.send(request, follow_redirects=False).status_code in {401, 404}


def test_a_file_that_is_edited_is_another_version(tmp_path):
    """So that nobody is shown an old one from a cache."""
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


def test_folders_are_looked_at_for_who_has_the_token(tmp_path) -> None:
    """What strangers ask, as a page of another site that shows a picture, costs no look."""
    asked = "r0/api/v1/read/changes"
    for token, heard in ((TOKEN, 2), (None, 4)):
        with page(tmp_path, token=token) as here:
            here.stranger.post(asked)
            here.stranger.post(asked, headers={"X-Seamark-Token": "another"})
            here.client.post(asked)
            here.client.get("api/v1/")
            here.client.get("")
            assert here.watch.asks == heard


HOSTS = {
    "localhost": 200,
    "localhost:8765": 200,
    "127.0.0.1:8765": 200,
    "127.3.2.1": 200,
    "[::1]:8765": 200,
    "[::1]": 200,
    "LOCALHOST.": 200,
    "lab.example": 200,
    "evil.example": 400,
    "localhost.evil.example": 400,
    "127.0.0.1.evil.example": 400,
    "10.0.0.1": 400,
    "[2001:db8::1]": 400,
    "user@localhost": 400,
    "": 400,
}


def test_without_a_token_only_names_of_this_machine_are_answered(tmp_path):
    """A page of somebody else cannot have its own name lead here and read what is answered."""
    (tmp_path / "a").mkdir()
    with page(tmp_path / "a", token=None, hosts=("lab.example",)) as here:
        client = here.stranger
        for host, status in HOSTS.items():
            for method, path in (("GET", ""), ("GET", "api/v1/"), ("POST", "r0/api/v1/read/table")):
                answer = client.request(method, path, headers={"Host": host})
                assert answer.status_code == status, (host, path)
        assert client.get("api/v1/").json()["login"] == "none"
        sites = {"cross-site": 403, "same-site": 200, "same-origin": 200, "none": 200}
        for site, status in sites.items():
            for method, path in (("GET", "api/v1/"), ("POST", "r0/api/v1/read/table")):
                answer = client.request(method, path, headers={"Sec-Fetch-Site": site})
                assert answer.status_code == status, (site, path)


def test_with_a_token_the_name_does_not_matter(here):
    """A proxy of a notebook server passes on the name that the browser knows it by."""
    shown = {**SECRET, "Host": "hub.lab.example:8443"}
    answer = here.stranger.post("r0/api/v1/read/table", headers=shown)
    assert answer.status_code == 200


def test_there_is_no_third_root_and_none_by_another_name(here):
    """Roots are numbered as the greeting says."""
    for root in ("r2/", "r00/", "r-1/", ""):
        assert here.client.post(f"{root}api/v1/read/table").status_code == 404, root
    assert here.client.get("r0/").status_code == 404
