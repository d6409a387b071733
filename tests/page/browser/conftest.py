"""A real browser before a real page: the system's Chromium, driven by Playwright.

``nox -s page`` runs these tests. Without Playwright or Chromium they are skipped, and fail in CI.
Every test fails on an error of the console, on what the page's policy had to refuse, and on a
request to anything but the page's own address.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from page_process import running_page

HERE = Path(__file__).parent
IN_CI = bool(os.environ.get("CI"))
CHROMIUM = ("chromium", "chromium-browser")
POLICY = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`refused by the policy: ${event.violatedDirective} ${event.blockedURI}`));
"""


def pytest_addoption(parser):
    """Let the pictures of the documents be made."""
    parser.addoption("--pictures", action="store_true", help="Make the pictures of the documents.")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the tests of this folder, so that the sessions without a browser can leave them out."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.browser)


def missing(what):
    """Skip, or fail where nothing may be missing."""
    if IN_CI:
        pytest.fail(f"no {what}: the page is not tested")
    pytest.skip(f"no {what}")


@pytest.fixture(scope="session")
def playwright():
    """Playwright, which drives the browser; nothing is downloaded."""
    try:
        from playwright.sync_api import expect, sync_playwright
    except ImportError:
        missing("Playwright")
    expect.set_options(timeout=30_000 if IN_CI else 10_000)
    with sync_playwright() as playwright:
        yield playwright


@contextlib.contextmanager
def launched(playwright, *programs):
    """Run the first of some programs that is installed."""
    program = next(filter(None, map(shutil.which, programs)), None)
    if program is None:
        missing(programs[0])
    browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def browser(playwright):
    """The system's Chromium; its headless shell needs about 40 % less CPU."""
    with launched(playwright, "chromium-headless-shell", *CHROMIUM) as browser:
        yield browser


@pytest.fixture(scope="session")
def whole_browser(playwright):
    """Chromium as people use it, for what its headless shell does otherwise."""
    with launched(playwright, *CHROMIUM) as browser:
        yield browser


@pytest.fixture
def watched():
    """Watches pages: their errors fail the test at its end, but those that have allowed pieces."""
    errors, allowed = [], []

    def console(message):
        if message.type == "error":
            errors.append(f"console: {message.text} ({message.location.get('url', '')})")

    def thrown(error):
        errors.append(f"thrown: {error.error}")

    def requested(request):
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob", "about") and parts.hostname != "127.0.0.1":
            errors.append(f"asked elsewhere: {request.url}")

    @contextlib.contextmanager
    def watching(context):
        """Watch all pages of a context in a block."""
        heard = {"console": console, "weberror": thrown, "request": requested}
        for name, listener in heard.items():
            context.on(name, listener)
        yield
        for name, listener in heard.items():
            context.remove_listener(name, listener)

    yield SimpleNamespace(watching=watching, allow=lambda *pieces: allowed.extend(pieces))
    rest = [each[:1_000] for each in errors if not any(piece in each for piece in allowed)]
    assert rest == []


@contextlib.contextmanager
def new_context(browser, **options):
    """Make a profile that nobody has used."""
    given = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce", **options}
    context = browser.new_context(**given)
    context.add_init_script(POLICY)
    yield context
    context.close()


@pytest.fixture
def new_profile(browser, watched):
    """Return a function that makes a fresh profile; its ``new_page()`` opens a tab."""
    with contextlib.ExitStack() as stack:

        def make(other=None, **options):
            context = stack.enter_context(new_context(other or browser, **options))
            stack.enter_context(watched.watching(context))
            return context

        yield make


@pytest.fixture(scope="session")
def usual_profile(browser):
    """A profile of many tests, so that the page's files are fetched and compiled once."""
    with new_context(browser) as context:
        yield context


@pytest.fixture
def tab(usual_profile, watched):
    """An empty tab of a profile that has stored nothing."""
    origins = set()

    def visited(frame):
        parts = urlsplit(frame.url)
        if parts.scheme.startswith("http"):
            origins.add(f"{parts.scheme}://{parts.netloc}")

    with watched.watching(usual_profile):
        tab = usual_profile.new_page()
        tab.on("framenavigated", visited)
        yield tab
        session = usual_profile.new_cdp_session(tab)
        for origin in origins:
            given = {"origin": origin, "storageTypes": "local_storage,cookies"}
            session.send("Storage.clearDataForOrigin", given)
        for each in usual_profile.pages:
            each.close()


@pytest.fixture
def hasten(tab):
    """Return a function that divides the waits of a tab's scripts of a second and more."""

    def divide(by):
        tab.add_init_script(f"""
            const slow = window.setTimeout;
            window.setTimeout = (call, ms = 0, ...rest) =>
              slow(call, ms < 1000 ? ms : ms / {by}, ...rest);
        """)

    return divide


@pytest.fixture
def wide(tab):
    """A tab of 1440 x 900."""
    tab.set_viewport_size({"width": 1440, "height": 900})
    return tab


# ---------------------------------------------------------------------- roots and their pages


def record(kind, root, home):
    """Record what `page_roots` has of a kind."""
    import page_roots

    subprocess.run(
        [sys.executable, page_roots.__file__, kind, str(root)],
        check=True,
        env=page_roots.environment(home),
        cwd=root.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=240,
    )


def homes(folder):
    """Return variables that give somebody a home of their own below a folder."""
    found = {f"XDG_{name}_HOME": folder / name for name in ("CACHE", "CONFIG", "STATE")}
    found |= {"HOME": folder, "XDG_RUNTIME_DIR": folder / "runtime"}
    for path in found.values():
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return {name: str(path) for name, path in found.items()}


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """The variables of somebody with a home of their own."""
    return homes(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def main_root(request, tmp_path_factory, home):
    """A root with runs of every kind, which no test changes: one for all workers."""
    folder = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        folder = folder.parent
    root = folder / "main" / "runs"
    with (folder / "main.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.parent.exists():
            made = tmp_path_factory.mktemp("made")
            record("main", made / "runs", home)
            made.rename(root.parent)
    return root


@contextlib.contextmanager
def page_of(root, home):
    """Serve the page of a root of which all runs have been read."""
    with running_page(root, **home) as page:
        page.settle()  # a link to a run that was not read yet is answered with 404
        yield page


@pytest.fixture(scope="session")
def main_page(main_root, home):
    """The page of `main_root`."""
    with page_of(main_root, home) as page:
        yield page


@pytest.fixture(scope="session")
def saved_page(tmp_path_factory, home):
    """The page of four runs with ten charts, which no test changes."""
    root = tmp_path_factory.mktemp("saved") / "runs"
    record("saved", root, home)
    with page_of(root, home) as page:
        yield page


@pytest.fixture(scope="session")
def compare_page(tmp_path_factory, home):
    """The page of runs to compare, which no test changes."""
    root = tmp_path_factory.mktemp("compared") / "runs"
    record("compared", root, home)
    with page_of(root, home) as page:
        yield page


@pytest.fixture
def own_home(tmp_path):
    """The variables of somebody that only this test has."""
    return homes(tmp_path / "home")


@pytest.fixture
def serve(own_home):
    """Return a function that starts a page of other roots, in an environment of its own."""
    with contextlib.ExitStack() as stack:

        def start(*words, humble=False):
            return stack.enter_context(running_page(*words, humble=humble, **own_home))

        yield start


@pytest.fixture
def serve_here():
    """Return a function that starts a page in this process, which looks at its roots once.

    This is quicker than `serve`, for what does not depend on the command and its processes; its
    ``watch`` looks again.
    """
    import page_served  # needs what the sessions that leave these tests out do not have

    with contextlib.ExitStack() as stack:

        def start(*roots):
            page = stack.enter_context(page_served.page(*roots))
            port, token = urlsplit(page.url).port, page_served.TOKEN
            return SimpleNamespace(port=port, token=token, watch=page.watch)

        yield start


@pytest.fixture
def recorded(tmp_path, home):
    """Return a function that records a root of a kind, for a test that changes it."""
    import page_roots

    def make(kind):
        root = tmp_path / kind / "runs"
        root.parent.mkdir(exist_ok=True)
        if kind == "hurt":  # the end of a journal is only torn when its process has ended
            record(kind, root, home)
        else:
            getattr(page_roots, f"record_{kind}")(str(root))
        return root

    return make
