"""How a person gets to a page: over ssh, through a hub, in a browser, and with which token."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import pytest
from page_process import page_environment, until

from seamark.page import opening, roots
from seamark.page.roots import Root
from seamark.remote.http.address import is_loopback


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """Where the token of this test is kept."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(opening, "user_name", lambda: "anna")
    monkeypatch.setattr(opening.socket, "gethostname", lambda: "login3")
    return tmp_path / "state" / "seamark"


def test_over_ssh_the_line_for_the_other_machine_is_printed():
    """Also from another port of sshd, and into a job of SLURM through where it was sent."""
    at = {"SSH_CONNECTION": "10.0.0.9 50000 10.0.0.1 22"}
    other = {"SSH_CONNECTION": "10.0.0.9 50000 10.0.0.1 2222"}
    job = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "gpu17", "SLURM_SUBMIT_HOST": "login3"}
    line = opening.ssh_line
    assert line("127.0.0.1", 8765, {}) is None
    assert line("127.0.0.1", 8765, at) == "ssh -L 8765:127.0.0.1:8765 anna@login3"
    assert line("127.0.0.1", 9, other) == "ssh -p 2222 -L 9:127.0.0.1:9 anna@login3"
    assert line("127.0.0.1", 9, job) == "ssh -J anna@login3 -L 9:127.0.0.1:9 anna@gpu17"
    assert line("127.0.0.1", 9, {**job, **other}) == line("127.0.0.1", 9, job)
    assert "-J anna@LOGIN" in line("127.0.0.1", 9, {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "g"})
    assert "'9:[::1]:9'" in line("::1", 9, at)
    assert line("0.0.0.0", 9, at) == line("127.0.0.1", 9, at)


def test_a_hub_has_the_page_below_its_proxy():
    """With its whole address where the hub tells it."""
    prefix = {"JUPYTERHUB_SERVICE_PREFIX": "/user/anna/"}
    public = {**prefix, "JUPYTERHUB_PUBLIC_URL": "https://hub.lab/user/anna/"}
    assert opening.proxied(8765, {}) is None
    assert opening.proxied(8765, prefix) == "/user/anna/proxy/8765/"
    assert opening.proxied(8765, public) == "https://hub.lab/user/anna/proxy/8765/"


def test_addresses_of_all_kinds_of_hosts():
    """One that listens everywhere is named by its machine."""
    assert opening.address("127.0.0.1", 1) == "http://127.0.0.1:1/"
    assert opening.address("::1", 1) == "http://[::1]:1/"
    assert opening.address("0.0.0.0", 1) == "http://login3:1/"
    here = ["127.0.0.1", "127.9.9.9", "::1", "localhost"]
    assert [is_loopback(one) for one in [*here, "0.0.0.0", "::", "lab"]] == [
        *(True for _ in here),
        *(False for _ in range(3)),
    ]


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


def test_a_browser_is_given_a_file_and_no_token(tmp_path, state):
    """All that is in a command line can be read by everybody on the machine."""
    tried, words = opened(tmp_path, BROWSER=True)
    assert tried
    assert "seamark_secret" not in words
    file = state / "open.html"
    assert words == file.as_uri()
    assert file.stat().st_mode & 0o777 == 0o600
    assert 'url=http://127.0.0.1:1/#token=seamark_secret"' in file.read_text()


def test_no_browser_is_opened_that_nobody_would_see(tmp_path, state):
    """Not one in the terminal, none without a screen; over ssh the page asks for the token."""
    assert opened(tmp_path)[0] is False
    assert opened(tmp_path, "w3m", BROWSER=True)[0] is False
    assert opened(tmp_path, DISPLAY=":0", SSH_CONNECTION="a 1 b 22")[0] is False
    tried, words = opened(tmp_path, BROWSER=True, SSH_CONNECTION="a 1 b 22")
    assert (tried, words) == (True, "http://127.0.0.1:1/")
    assert not (state / "open.html").exists()


def test_the_token_is_made_once_and_kept(state):
    """By however many processes at once; what others could read or have made is not believed."""
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(roots.keep())) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    first = found[0]
    assert set(found) == {first, roots.keep()}
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


def test_a_page_calls_itself_the_same_after_each_start(tmp_path):
    """Other roots are another page, in whatever order they are named."""
    kept = roots.keep()
    one, two = Root("one", tmp_path / "one"), Root("two", tmp_path / "two")
    name = roots.instance_of(kept, [one, two])
    assert name == roots.instance_of(roots.keep(), [two, one])
    assert name != roots.instance_of(kept, [one])
    assert kept not in name


def test_where_nothing_can_be_kept_it_is_said(tmp_path, monkeypatch):
    """With what can be done."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(roots.StateError, match="XDG_STATE_HOME"):
        roots.keep()
