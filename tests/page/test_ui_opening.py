"""Ways to a page: over ssh, through a hub, in a browser, and the token for it."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from page_process import page_environment, until

from seamark.page import opening, roots
from seamark.page.roots import Root
from seamark.remote.http.address import is_loopback


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """The folder with the token of this test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(opening, "user_name", lambda: "anna")
    monkeypatch.setattr(opening.socket, "gethostname", lambda: "login3")
    return tmp_path / "state" / "seamark"


def test_over_ssh_the_line_for_the_other_machine_is_printed():
    at = {"SSH_CONNECTION": "10.0.0.9 50000 10.0.0.1 22"}
    other = {"SSH_CONNECTION": "10.0.0.9 50000 10.0.0.1 2222"}
    unknown = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "gpu17"}
    job = {**unknown, "SLURM_SUBMIT_HOST": "login3"}
    for host, given, line in (
        ("127.0.0.1", {}, None),
        ("127.0.0.1", at, "ssh -L 9:127.0.0.1:9 anna@login3"),
        ("0.0.0.0", at, "ssh -L 9:127.0.0.1:9 anna@login3"),
        ("::1", at, "ssh -L '9:[::1]:9' anna@login3"),
        ("127.0.0.1", other, "ssh -p 2222 -L 9:127.0.0.1:9 anna@login3"),
        ("127.0.0.1", job, "ssh -J anna@login3 -L 9:127.0.0.1:9 anna@gpu17"),
        ("127.0.0.1", {**job, **other}, "ssh -J anna@login3 -L 9:127.0.0.1:9 anna@gpu17"),
        ("127.0.0.1", unknown, "ssh -J anna@LOGIN -L 9:127.0.0.1:9 anna@gpu17"),
    ):
        assert opening.ssh_line(host, 9, given) == line, given


def test_addresses_of_hosts_and_hubs():
    for host, name in {"127.0.0.1": "127.0.0.1", "::1": "[::1]", "0.0.0.0": "login3"}.items():
        assert opening.address(host, 1) == f"http://{name}:1/"
    here, elsewhere = ["127.0.0.1", "127.9.9.9", "::1", "localhost"], ["0.0.0.0", "::", "lab"]
    assert [one for one in (*here, *elsewhere) if is_loopback(one)] == here
    prefix = {"JUPYTERHUB_SERVICE_PREFIX": "/user/anna/"}
    public = {**prefix, "JUPYTERHUB_PUBLIC_URL": "https://hub.lab/user/anna/"}
    assert opening.proxied(8765, {}) is None
    assert opening.proxied(8765, prefix) == "/user/anna/proxy/8765/"
    assert opening.proxied(8765, public) == "https://hub.lab/user/anna/proxy/8765/"


OPEN = """
import sys, threading
from seamark.page import opening
print(opening.open_browser("http://127.0.0.1:1/", "seamark_secret"))
for one in threading.enumerate():
    if one.name == "seamark-browser":
        one.join()
"""


def opened(tmp_path, name="browser", **more):
    """Return whether a browser was started, and the words with which it was."""
    script, words = tmp_path / name, tmp_path / "words"
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {words}.part; mv {words}.part {words}\n')
    script.chmod(0o755)
    words.unlink(missing_ok=True)
    given = {key: str(script) if value is True else value for key, value in more.items()}
    found = subprocess.run(
        [sys.executable, "-c", OPEN],
        env=page_environment(**given),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    tried = found.stdout.strip() == "True"
    return tried, until(words.exists) and words.read_text().strip() if tried else ""


def test_a_browser_is_given_a_file_that_has_the_token(tmp_path, state):
    """All that is in a command line can be read by everybody on the machine."""
    file = state / "open.html"
    assert opened(tmp_path, BROWSER=True) == (True, file.as_uri())
    assert file.stat().st_mode & 0o777 == 0o600
    assert 'url=http://127.0.0.1:1/#token=seamark_secret"' in file.read_text()


def test_no_browser_is_opened_that_nobody_would_see(tmp_path, state):
    assert opened(tmp_path)[0] is False
    assert opened(tmp_path, "w3m", BROWSER=True)[0] is False
    assert opened(tmp_path, DISPLAY=":0", SSH_CONNECTION="a 1 b 22")[0] is False
    found = opened(tmp_path, BROWSER=True, SSH_CONNECTION="a 1 b 22")
    assert found == (True, "http://127.0.0.1:1/")
    assert not (state / "open.html").exists()


def test_the_token_is_made_once_and_kept(state):
    with ThreadPoolExecutor(8) as pool:
        (first,) = set(pool.map(lambda _: roots.keep(), range(8)))
    file = state / "page.json"
    assert json.loads(file.read_text()) == {"token": first}
    file.chmod(0o644)
    second = roots.keep()
    assert second != first
    assert file.stat().st_mode & 0o777 == 0o600
    for text in ("", "[]", "{}", '{"token": "short"}', '{"token": 1}'):
        file.write_text(text)
        assert roots.keep() not in (text, second)
    renewed = roots.new_token()
    assert renewed == roots.keep()
    assert sorted(one.name for one in state.iterdir()) == ["page.json", "page.json.lock"]


def test_a_page_has_the_same_identity_after_each_start(tmp_path):
    kept = roots.keep()
    one, two = Root("one", tmp_path / "one"), Root("two", tmp_path / "two")
    name = roots.instance_of(kept, [one, two])
    assert name == roots.instance_of(roots.keep(), [two, one])
    assert name != roots.instance_of(kept, [one])
    assert kept not in name


def test_a_token_that_cannot_be_kept_is_an_error_that_names_the_setting(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(roots.StateError, match="XDG_STATE_HOME"):
        roots.keep()
