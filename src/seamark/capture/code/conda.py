"""Packages of a conda environment, read from its own files; conda is never run."""

from __future__ import annotations

import itertools
import os
import re
import sys
from pathlib import Path
from typing import Final

from seamark.capture.code.small_file import beginning_of
from seamark.capture.secrets.masking import bare_url
from seamark.process.interrupts import let_pass

__all__ = ["conda_packages"]

_MAX_PACKAGES: Final = 5_000
_MAX_NAME: Final = 300
_MOST: Final = 4 << 20
_LONGEST: Final = 4096
_CHANNEL: Final = re.compile(r'"channel"\s{0,8}:\s{0,8}"((?:[^"\\\n]|\\.){1,2000})"')
_TOKEN: Final = re.compile(r"/t/[^/]+(?=/|\Z)")
# Of a download server: https://host/get/ENTITLEMENT/token/TOKEN/channel, and others like it.
_NAMED: Final = re.compile(r"/(?:get/[^/]+/)?(?:access_?)?tokens?/[^/]+(?=/|\Z)", re.IGNORECASE)
_PLATFORM: Final = re.compile(r"/(?:noarch|(?:linux|osx|win|emscripten|freebsd)-[\w]+)/?\Z")
_WELL_KNOWN: Final = re.compile(
    r"https?://(?:conda\.anaconda\.org/|repo\.(?:anaconda|continuum)\.(?:com|io)/)(?=.)"
)


def conda_packages() -> str:
    """Return ``channel::name=version=build`` of all packages, one a line; empty without conda.

    The environment is the one that is activated, else the one that Python lies in.
    """
    for prefix in (os.environ.get("CONDA_PREFIX"), sys.prefix):
        if prefix and (found := _packages(Path(prefix, "conda-meta"))):
            return found
    return ""


def _packages(folder: Path) -> str:
    try:
        with os.scandir(folder) as entries:
            files = [entry.path for entry in itertools.islice(entries, 2 * _MAX_PACKAGES)]
    except OSError as error:
        let_pass(error)
        return ""
    lines = {line for file in sorted(files)[:_MAX_PACKAGES] if (line := _line_of(Path(file)))}
    return "\n".join(sorted(lines, key=lambda line: line.rpartition("::")[2]))


def _line_of(file: Path) -> str:
    """Return the line of a package; empty for what describes none.

    The name of the file says all but the channel. What is in it is searched rather than parsed: it
    lists every file of the package, and parsing holds the interpreter meanwhile.
    """
    name, _, build = file.stem.rpartition("-")
    name, _, version = name.rpartition("-")
    is_named = file.suffix == ".json" and name and version and build
    if not is_named or len(file.stem) > _MAX_NAME or not file.stem.isprintable():
        return ""
    content = beginning_of(file, _MOST, enough=lambda read: b'"channel"' in read[:-_LONGEST])
    if content is None:
        return ""
    found = _CHANNEL.search(content.decode("utf-8", "replace"))
    channel = _channel(found[1]) if found else ""
    return f"{channel}::{name}={version}={build}" if channel else f"{name}={version}={build}"


def _channel(url: str) -> str:
    """Return a channel as it is named on a command line, without tokens and passwords."""
    bare = _PLATFORM.sub("", _NAMED.sub("", _TOKEN.sub("", bare_url(url.replace("\\/", "/")))))
    return _WELL_KNOWN.sub("", bare)
