"""Browsers beside Chromium before the page, each driven by what its distribution brings.

Firefox is asked over Marionette, the protocol that it speaks itself, and WebKit through the
WebKitWebDriver of WebKitGTK. Both have the commands of WebDriver, so that nothing more is needed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from contextlib import contextmanager

from page_process import until

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
ENTER, ESCAPE, TAB, DOWN = "\ue007", "\ue00c", "\ue004", "\ue015"
WATCH = """
if (!window.troubles) {
  window.troubles = [];
  const told = (text) => window.troubles.push(String(text));
  addEventListener("error", (event) => told(event.message), true);
  addEventListener("unhandledrejection", (event) => told(event.reason));
  document.addEventListener("securitypolicyviolation", (event) =>
    told(`refused by the policy: ${event.violatedDirective} ${event.blockedURI}`));
}
"""
CONSOLE = """
return Services.console.getMessageArray()
  .filter((one) => one instanceof Ci.nsIScriptError && !(one.flags & one.warningFlag))
  .filter((one) => one.sourceName.includes("127.0.0.1"))
  .map((one) => one.errorMessage);
"""
_PREFERENCES = {
    "marionette.port": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "app.update.disabledForTesting": True,
}


def lacking(name):
    """Return what is missing of what a browser needs; nothing if all is there."""
    if name == "firefox":
        return "" if _firefox() else "no Firefox (Debian: firefox-esr)"
    wanted = {"WebKitWebDriver": "webkit2gtk-driver"}
    if not os.environ.get("DISPLAY"):
        wanted["Xvfb"] = "xvfb"
    gone = [f"{what} (Debian: {of})" for what, of in wanted.items() if not shutil.which(what)]
    return f"no {', '.join(gone)}" if gone else ""


def _firefox():
    return shutil.which("firefox") or shutil.which("firefox-esr")


class RefusedError(Exception):
    """A browser did not do what it was asked."""


class Engine:
    """A browser that is driven; `call` sends a command of WebDriver and returns its answer."""

    def __init__(self, call):
        self.call = call

    def run(self, script, *given):
        return self.call("ExecuteScript", {"script": script, "args": list(given)})

    def find(self, path):
        """Return the element that an XPath names, once it is there."""

        def look():
            found = self.call("FindElements", {"using": "xpath", "value": path})
            return found[0][ELEMENT] if found else None

        return str(until(look, 30))

    def click(self, path):
        """Click on what an XPath names, as soon as nothing lies above it and it stays."""

        def done():
            with contextlib.suppress(RefusedError):
                self.call("ElementClick", {"id": self.find(path)})
                return True
            return False

        until(done, 30)

    def keys(self, text):
        pressed = [{"type": f"key{way}", "value": key} for key in text for way in ("Down", "Up")]
        self.call("PerformActions", {"actions": [{"type": "key", "id": "k", "actions": pressed}]})

    def point(self, *places, press=False):
        """Move the mouse from place to place, with its button pressed from the first on."""
        acts = []
        for x, y in places:
            acts.append({"type": "pointerMove", "duration": 50, "x": round(x), "y": round(y)})
            if press and len(acts) == 1:
                acts.append({"type": "pointerDown", "button": 0})
        if press:
            acts.append({"type": "pointerUp", "button": 0})
        mouse = {"type": "pointer", "id": "m", "parameters": {"pointerType": "mouse"}}
        self.call("PerformActions", {"actions": [{**mouse, "actions": acts}]})

    def go(self, address):
        """Open an address; what is thrown from now on is kept."""
        self.call("Navigate", {"url": "about:blank"})
        self.call("Navigate", {"url": address})
        self.run(WATCH)

    def troubles(self):
        return list(self.run("return window.troubles ?? []"))

    def focus(self):
        return str(self.run("return document.activeElement.outerHTML.slice(0, 200)"))


class _Firefox(Engine):
    def troubles(self):
        self.call("Marionette:SetContext", {"value": "chrome"})
        told = list(self.run(CONSOLE))
        self.call("Marionette:SetContext", {"value": "content"})
        return told + super().troubles()


def engine(name, folder):
    """Start a browser for a block, ``firefox`` or ``webkit``; its files are in a folder."""
    return (_started_firefox if name == "firefox" else _started_webkit)(folder)


@contextmanager
def _process(words, folder, **more):
    with (folder / "output").open("ab") as out:
        process = subprocess.Popen(words, stdout=out, stderr=out, **more)
        try:
            yield
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait(20)


@contextmanager
def _started_firefox(folder):
    profile = folder / "profile"
    profile.mkdir()
    lines = [f"user_pref({json.dumps(k)}, {json.dumps(v)});\n" for k, v in _PREFERENCES.items()]
    (profile / "user.js").write_text("".join(lines), encoding="utf-8")
    words = ["--headless", "--marionette", "--remote-allow-system-access", "--no-remote"]
    size = ["--width", "1280", "--height", "900"]
    with _process([_firefox(), *words, *size, "--profile", str(profile)], folder):
        active = profile / "MarionetteActivePort"
        port = int(until(lambda: active.exists() and active.read_text(encoding="utf-8"), 60))
        with socket.create_connection(("127.0.0.1", port), 60) as connection:
            stream = connection.makefile("rb")

            def receive():
                length = b""
                while (one := stream.read(1)) != b":":
                    assert one, "Firefox has gone"
                    length += one
                return json.loads(stream.read(int(length)))

            receive()  # it says who it is

            def call(command, given):
                full = command if ":" in command else f"WebDriver:{command}"
                text = json.dumps([0, 1, full, given]).encode()
                connection.sendall(b"%d:%s" % (len(text), text))
                _, _, error, answer = receive()
                if error is not None:
                    raise RefusedError(error)
                whole = isinstance(answer, dict) and "value" in answer
                return answer["value"] if whole else answer

            call("NewSession", {})
            yield _Firefox(call)


_PLACES = {
    "ExecuteScript": "execute/sync",
    "FindElements": "elements",
    "ElementClick": "element/{id}/click",
    "PerformActions": "actions",
    "Navigate": "url",
}


@contextmanager
def _started_webkit(folder):
    with contextlib.ExitStack() as stack:
        # Of a language that is none, such as C, its Intl makes nothing.
        environment = {**os.environ, "LANG": "en_US.UTF-8", "LANGUAGE": "en_US", "LC_ALL": ""}
        if not environment.get("DISPLAY"):
            read, write = os.pipe()
            screen = ["-screen", "0", "1400x1100x24", "-nolisten", "tcp"]
            words = ["Xvfb", "-displayfd", str(write), *screen]
            stack.enter_context(_process(words, folder, pass_fds=[write]))
            os.close(write)
            with os.fdopen(read) as told:
                environment["DISPLAY"] = f":{told.readline().strip()}"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = ["WebKitWebDriver", f"--port={port}"]
        stack.enter_context(_process(words, folder, env=environment))
        base = f"http://127.0.0.1:{port}/session"

        def send(place, given):
            data = None if given is None else json.dumps(given).encode()
            method = "DELETE" if given is None else "POST"
            asked = urllib.request.Request(f"{base}{place}", data, method=method)
            try:
                with urllib.request.urlopen(asked, timeout=60) as answer:
                    return json.load(answer)["value"]
            except urllib.error.HTTPError as error:
                raise RefusedError(error.read().decode()) from error

        def begin():
            with contextlib.suppress(ConnectionError, urllib.error.URLError):
                return send("", {"capabilities": {"alwaysMatch": {}}})

        session = until(begin, 60)["sessionId"]

        def call(command, given):
            place = _PLACES[command].format(id=given.get("id", ""))
            return send(f"/{session}/{place}", given)

        try:
            send(f"/{session}/window/rect", {"x": 0, "y": 0, "width": 1280, "height": 960})
            yield Engine(call)
        finally:
            send(f"/{session}", None)
