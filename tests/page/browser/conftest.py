"""A real browser before a real page: the system's Chromium, driven by Playwright.

``nox -s page`` runs what lies here. Without Playwright or Chromium the tests are skipped, and fail
in CI. Every test fails on an error of the console, on what the page's policy had to refuse, and on
a request to anything but the page's own address.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from page_process import RunningPage, running_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Playwright

HERE = Path(__file__).parent
IN_CI = bool(os.environ.get("CI"))
CHROMIUM = ("chromium", "chromium-browser")
POLICY = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`refused by the policy: ${event.violatedDirective} ${event.blockedURI}`));
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the pictures of the documents be made."""
    parser.addoption("--pictures", action="store_true", help="Make the pictures of the documents.")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies here, so that the sessions without a browser can leave it out."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.browser)


def missing(what: str) -> None:
    """Skip, or fail where nothing may be missing."""
    if IN_CI:
        pytest.fail(f"no {what}: the page is not tested")
    pytest.skip(f"no {what}")


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    """Playwright, which drives the browser; nothing is downloaded."""
    try:
        from playwright.sync_api import expect, sync_playwright
    except ImportError:
        missing("Playwright")
    expect.set_options(timeout=30_000 if IN_CI else 10_000)
    with sync_playwright() as playwright:
        yield playwright


@contextlib.contextmanager
def launched(playwright: Playwright, *programs: str) -> Iterator[Browser]:
    """Run the first of some programs that is installed."""
    program = next(filter(None, map(shutil.which, programs)), None)
    if program is None:
        missing(programs[0])
    browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """The system's Chromium; its headless shell needs about 40 % less CPU."""
    with launched(playwright, "chromium-headless-shell", *CHROMIUM) as browser:
        yield browser


@pytest.fixture(scope="session")
def whole_browser(playwright: Playwright) -> Iterator[Browser]:
    """Chromium as people use it, for what its headless shell does otherwise."""
    with launched(playwright, *CHROMIUM) as browser:
        yield browser


class Watched:
    """What pages did that none of ours should.

    Attributes:
        errors: What they did.
        allowed: Pieces of what a test expects of the console.
        hosts: Of the page.
    """

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.allowed: list[str] = []

    def allow(self, *pieces: str) -> None:
        """Expect errors that have one of these pieces."""
        self.allowed += pieces

    def _tell(self, error: str) -> None:
        self.errors.append(error[:1_000])

    def watch(self, context: BrowserContext) -> Callable[[], None]:
        """Watch all pages of a context until what is returned is called."""
        heard = {"console": self._console, "weberror": self._thrown, "request": self._request}
        for name, listener in heard.items():
            context.on(name, listener)

        def end() -> None:
            for name, listener in heard.items():
                context.remove_listener(name, listener)

        return end

    def _thrown(self, error: Any) -> None:
        self._tell(f"thrown: {error.error}")

    def _console(self, message: Any) -> None:
        if message.type == "error":
            self._tell(f"console: {message.text} ({message.location.get('url', '')})")

    def _request(self, request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob", "about") and parts.hostname != "127.0.0.1":
            self._tell(f"asked elsewhere: {request.url}")

    def check(self) -> None:
        """Fail on what no test expected."""
        rest = [each for each in self.errors if not any(piece in each for piece in self.allowed)]
        assert rest == []


@pytest.fixture
def watched() -> Iterator[Watched]:
    """What pages did, which is looked at when the test has ended."""
    watched = Watched()
    yield watched
    watched.check()


def new_context(browser: Browser, **options: Any) -> BrowserContext:
    """Make a profile that nobody has used."""
    given = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce", **options}
    context = browser.new_context(**given)
    context.add_init_script(POLICY)
    return context


@pytest.fixture
def new_profile(browser: Browser, watched: Watched) -> Iterator[Callable[..., BrowserContext]]:
    """Return a function that makes a fresh profile."""
    made = []

    def make(other: Browser | None = None, **options: Any) -> BrowserContext:
        made.append(new_context(other or browser, **options))
        watched.watch(made[-1])
        return made[-1]

    yield make
    for context in made:
        context.close()


@pytest.fixture
def profile(new_profile: Callable[..., BrowserContext]) -> BrowserContext:
    """A fresh profile; ``profile.new_page()`` opens a tab."""
    return new_profile()


@pytest.fixture(scope="session")
def usual_profile(browser: Browser) -> Iterator[BrowserContext]:
    """A profile of many tests, so that the page's files are fetched and compiled once."""
    context = new_context(browser)
    yield context
    context.close()


@pytest.fixture
def tab(usual_profile: BrowserContext, watched: Watched) -> Iterator[Page]:
    """An empty tab of a profile that has stored nothing."""
    origins = set()

    def visited(frame: Any) -> None:
        parts = urlsplit(frame.url)
        if parts.scheme.startswith("http"):
            origins.add(f"{parts.scheme}://{parts.netloc}")

    unwatch = watched.watch(usual_profile)
    tab = usual_profile.new_page()
    tab.on("framenavigated", visited)
    yield tab
    session = usual_profile.new_cdp_session(tab)
    for origin in origins:
        given = {"origin": origin, "storageTypes": "local_storage,cookies"}
        session.send("Storage.clearDataForOrigin", given)
    for each in usual_profile.pages:
        each.close()
    unwatch()


@pytest.fixture
def wide(tab: Page) -> Page:
    """A tab of 1440 x 900."""
    tab.set_viewport_size({"width": 1440, "height": 900})
    return tab


# ---------------------------------------------------------------------- roots and their pages


def record(kind: str, root: Path, home: dict[str, str]) -> None:
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


def homes(folder: Path) -> dict[str, str]:
    """Return variables that give somebody a home of their own below a folder."""
    found = {
        "HOME": folder,
        **{f"XDG_{name}_HOME": folder / name for name in ("CACHE", "CONFIG", "STATE")},
    }
    found["XDG_RUNTIME_DIR"] = folder / "runtime"
    for path in found.values():
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return {name: str(path) for name, path in found.items()}


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of somebody with a home of their own."""
    return homes(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def main_root(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    home: dict[str, str],
) -> Path:
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


@pytest.fixture(scope="session")
def main_page(main_root: Path, home: dict[str, str]) -> Iterator[RunningPage]:
    """The page of `main_root`."""
    with running_page(main_root, **home) as page:
        page.settle()  # a link to a run that was not read yet is answered with 404
        yield page


@contextlib.contextmanager
def page_of(kind: str, folder: Path, home: dict[str, str]) -> Iterator[RunningPage]:
    """Record a root of a kind in a folder and serve its page."""
    root = folder / "runs"
    record(kind, root, home)
    with running_page(root, **home) as page:
        page.settle()
        yield page


@pytest.fixture(scope="session")
def saved_page(
    tmp_path_factory: pytest.TempPathFactory, home: dict[str, str]
) -> Iterator[RunningPage]:
    """The page of four runs with ten charts, which no test changes."""
    with page_of("saved", tmp_path_factory.mktemp("saved"), home) as page:
        yield page


@pytest.fixture(scope="session")
def compare_page(
    tmp_path_factory: pytest.TempPathFactory, home: dict[str, str]
) -> Iterator[RunningPage]:
    """The page of runs to compare, which no test changes."""
    with page_of("compared", tmp_path_factory.mktemp("compared"), home) as page:
        yield page


@pytest.fixture
def own_home(tmp_path: Path) -> dict[str, str]:
    """The variables of somebody that only this test has."""
    return homes(tmp_path / "home")


@pytest.fixture
def serve(own_home: dict[str, str]) -> Iterator[Callable[..., RunningPage]]:
    """Return a function that starts a page of other roots, in an environment of its own."""
    with contextlib.ExitStack() as stack:

        def start(*words: object, humble: bool = False) -> RunningPage:
            return stack.enter_context(running_page(*words, humble=humble, **own_home))

        yield start


@pytest.fixture
def serve_here() -> Iterator[Callable[..., Any]]:
    """Return a function that starts a page in this process, which looks at its roots once.

    This is quicker than `serve`, for what does not depend on the command and its processes.
    """
    import page_served  # needs what the sessions that leave these tests out do not have

    with contextlib.ExitStack() as stack:

        def start(*roots: Path) -> Any:
            page = stack.enter_context(page_served.page(*roots))
            return SimpleNamespace(port=urlsplit(page.url).port, token=page_served.TOKEN)

        yield start


@pytest.fixture
def recorded(tmp_path: Path, home: dict[str, str]) -> Callable[[str], Path]:
    """Return a function that records a root of a kind, for a test that changes it."""
    import page_roots

    def make(kind: str) -> Path:
        root = tmp_path / kind / "runs"
        root.parent.mkdir(exist_ok=True)
        if kind == "hurt":  # the end of a journal is only torn when its process has ended
            record(kind, root, home)
        else:
            getattr(page_roots, f"record_{kind}")(str(root))
        return root

    return make
