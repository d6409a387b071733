"""A page in a thread of the test's own process, over folders with runs of several kinds."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import httpx
from recording import QUIET
from served import serving

import seamark
from seamark.index.index import Index
from seamark.page.app import make_page
from seamark.page.roots import Root
from seamark.reading.codec import unpack
from seamark.reading.reader import Answer
from seamark.server.access import Looked
from seamark.types import File

TOKEN = "seamark_" + "t" * 40
PROJECT = "team/vision"
SECRET = {"X-Seamark-Token": TOKEN}
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40
HTML = b"<script>top.document.title = 'owned'</script>"


class Watching:
    """Folds where it is told to, in the place of the thread that does so by itself."""

    def __init__(self, *roots):
        self.roots = roots
        self.lookers = [Looking(self, root) for root in roots]
        self.looked_ns = 0
        self.drawn = []
        self.asks = 0

    def look(self):
        for root in self.roots:
            with Index.open(root) as index:
                index.refresh()
        self.looked_ns = 12345

    def note_request(self):
        self.asks += 1

    def looked(self, root):
        return Looked(self.looked_ns, left=0 if self.looked_ns else 7)


class Looking:
    """Reader of one of the roots, which reads at once."""

    def __init__(self, watching, root):
        self.watching, self.root = watching, root

    @property
    def now(self):
        return self.watching.looked(0)

    def shown(self, refs):
        self.watching.drawn += refs

    def look_now(self, refs=()):
        with Index.open(self.root) as index:
            for project, run in refs:
                index.refresh(project, run)

    def rebuild(self):
        with Index.open(self.root) as index:
            index.rebuild()


class Clock:
    def __init__(self):
        self.ns = 1_800_000_000 * 10**9

    def __call__(self):
        return self.ns


def client_of(url, token="", **headers):
    """Return a client; nothing is encrypted here, and to read certificates takes long."""
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return httpx.Client(base_url=url, headers=headers, timeout=60, verify=False)


@contextlib.contextmanager
def page(*roots, look=True, **given):
    """Serve the page of some roots; `stranger` asks without a token, `client` with it."""
    watch = Watching(*roots)
    if look:
        watch.look()
    named = [Root(f"root-{place}", root) for place, root in enumerate(roots)]
    given = {"token": TOKEN, "instance": "here", **given}
    app = make_page(named, watch=watch, **given)
    with serving(app) as url, client_of(url, **SECRET) as client, client_of(url) as stranger:
        yield SimpleNamespace(
            url=url, client=client, stranger=stranger, watch=watch, base="r0/api/v1/"
        )


def read(client, base, verb, *, of=None, headers=None, **asked):
    """Return the answer to a question: of a type, or as JSON has it."""
    accepted = {} if of is None else {"Accept": "application/msgpack"}
    answer = client.post(f"{base}read/{verb}", json=asked, headers=accepted | (headers or {}))
    assert answer.status_code == 200, answer.text
    return answer.json()["answer"] if of is None else unpack(answer.content, Answer[of]).answer


def record(root, remote=None, token=None):
    more = {"root": str(root), **QUIET}
    if remote is not None:
        more |= {"remote": remote, "api_token": token, "mode": "online"}
    ids = {}
    for number in range(3):
        name = f"run-{number}"
        with seamark.init_run(PROJECT, name=name, tags=["a", f"t{number}"], **more) as run:
            run["parameters"] = {"lr": 0.1 * (number + 1), "optimizer": "Adam"}
            for step in range(200):
                value = float("nan") if step == 7 else 1 / (1 + step + number)
                run.log_metrics({"train/loss": value, "train/acc": step / 200}, step=step)
            run["log"].append("hello\n", step=0)
            run["picture"].upload(File.from_content(PNG, extension="png"))
            run["report"].upload(File.from_content(HTML, extension="html"))
            run["film"].upload(File.from_content(b"0123456789" * 300, extension="mp4"))
            ids[name] = run["sys/id"].fetch()
    with contextlib.suppress(ValueError), seamark.init_run(PROJECT, name="bad", **more) as run:
        ids["bad"] = run["sys/id"].fetch()
        run["<img onerror=1>/\u202ex"] = "<script>"
        float("no number")
    return ids
