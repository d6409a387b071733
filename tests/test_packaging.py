"""What the built package and the words of the README promise; its code: ``test_docs.py``."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.resources
import re
import subprocess
import sys
from pathlib import Path

import pytest

import seamark

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
PUBLIC_MODULES = (
    "seamark",
    *(f"seamark.{name}" for name in ("errors", "paths", "types", "utils", "values")),
)
HOST_MODULES = ("seamark.accelerate", "seamark.ignite", "seamark.lightning")


def documented_names(module):
    pages = "".join(page.read_text(encoding="utf-8") for page in sorted(REFERENCE.glob("*.md")))
    kinds = "function|class|exception|data|attribute"
    return re.findall(rf"^\.\. auto(?:{kinds}):: {re.escape(module)}\.(\w+)$", pages, re.MULTILINE)


@pytest.mark.parametrize("module", [*PUBLIC_MODULES, *HOST_MODULES])
def test_public_names_are_the_documented_names(module):
    if module in HOST_MODULES:
        pytest.importorskip("torch")
    names = importlib.import_module(module).__all__
    described = [name for name in names if name != "__version__"]
    described = [name for name in described if f"{module}.{name}" not in PUBLIC_MODULES]
    assert sorted(documented_names(module)) == sorted(described)


def test_package_is_typed_says_its_version_and_shadows_no_host():
    """An ``__init__.py`` below ``integrations/lightning`` would shadow the real host."""
    assert (importlib.resources.files("seamark") / "py.typed").is_file()
    assert seamark.__version__ == importlib.metadata.version("seamark")
    assert list((ROOT / "integrations").rglob("__init__.py")) == []


def test_metadata_names_no_torch_and_no_host_outside_extras():
    requires = importlib.metadata.requires("seamark") or []
    assert not [line for line in requires if line.startswith("torch")]
    base = {re.split(r"[^\w-]", line)[0] for line in requires if "extra ==" not in line}
    assert base == {
        *("click", "lark", "msgspec", "numpy", "nvidia-ml-py", "plotille", "psutil", "pyyaml"),
        *("rich", "sqlalchemy", "urllib3", "zstandard"),
    }


README = (ROOT / "README.md").read_text("utf-8")
LINK = re.compile(r"\]\(([^)\s]+)\)")
METADATA = importlib.metadata.metadata("seamark")


def without_code(text):
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors_of(page):
    """Return what links to the headings of a page end with, as GitHub and Sphinx make it."""
    titles = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def rows_of(heading):
    section = re.split(r"^## ", without_code(README), flags=re.MULTILINE)
    [found] = [part for part in section if part.startswith(f"{heading}\n")]
    return dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", found, re.MULTILINE))


def pins(host, package):
    text = (ROOT / "integrations" / host / "pyproject.toml").read_text("utf-8")
    found = re.findall(rf'"{package}==(\d+\.\d+\.\d+)', text)
    return sorted(set(found), key=lambda release: [int(part) for part in release.split(".")])


def test_every_link_and_picture_is_there():
    """Relative links lead to files of this repository, and to headings that they have."""
    links = LINK.findall(without_code(README))
    assert links
    for link in links:
        path, _, anchor = link.partition("#")
        page = ROOT / path if path else ROOT / "README.md"
        assert page.is_file(), link
        assert not anchor or anchor in anchors_of(page), link


def test_the_supported_versions_are_those_that_are_tested():
    classifiers = METADATA.get_all("Classifier") or []
    pythons = [line.rpartition(" ")[2] for line in classifiers if ":: 3." in line]
    lightning, ignite = pins("lightning", "pytorch-lightning"), pins("ignite", "pytorch-ignite")
    client = pins("neptune-client", "neptune")
    rows = rows_of("Supported versions")
    assert rows["Python"] == f"{pythons[0]} to {pythons[-1]}"
    assert METADATA["Requires-Python"] == f">={pythons[0]}"
    assert rows["`lightning`, `pytorch_lightning`"] == f"{lightning[0]} to {lightning[-1]}"
    assert pins("lightning", "lightning")[-1] == lightning[-1]
    assert rows["`pytorch-ignite`"] == f"{ignite[0]} to {ignite[-1]}"
    assert pins("accelerate", "accelerate") == [rows["`accelerate`"]]
    tested = f"{', '.join(client[:-1])} and {client[-1]}"
    assert rows["`neptune` with a Seamark server"] == f"{tested} are tested"


def test_every_extra_is_listed():
    extras = METADATA.get_all("Provides-Extra") or []
    listed = [name for cell in rows_of("Install") for name in re.findall(r"`([\w-]+)`", cell)]
    assert sorted(listed) == sorted(extras)
    assert rows_of("Install")["`all`"] == "everything above"
    asked = {"all": set()} | {name: set() for name in extras}
    for line in importlib.metadata.requires("seamark") or []:
        package, _, extra = line.partition("; extra == ")
        asked.setdefault(extra.strip("'\""), set()).add(package)
    others = [asked[name] for name in extras if name != "all"]
    assert asked["all"] == set().union(*others)


def test_every_command_exists():
    """Those that no block runs, too: the reference, which a test compares, has their help."""
    reference = (ROOT / "docs" / "reference" / "cli.md").read_text("utf-8")
    commands = set(re.findall(r"(?:`|^|\$ )seamark ([a-z]+)", README, re.MULTILINE))
    assert {"compare", "import", "server", "token", "ui"} <= commands
    assert not [name for name in commands if f"Usage: seamark {name} " not in reference]


@pytest.mark.once
@pytest.mark.usefixtures("captured")
def test_recording_needs_no_network_and_leaves_no_process():
    code = """
import sys

calls = []
sys.addaudithook(lambda event, _: event.startswith("socket.") and calls.append(event))

import psutil
import seamark

with seamark.init_run("alone") as run:
    run["lr"] = 0.1
    for step in range(100):
        run["loss"].append(1 / (1 + step), step=step)
    run.wait()
assert set(calls) <= {"socket.gethostname"}, calls
assert psutil.Process().children(recursive=True) == []
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)


def test_a_package_index_shows_absolute_links():
    """In the built package pages lead to the release, and pictures to their bytes."""
    urls = dict(line.split(", ") for line in METADATA.get_all("Project-URL") or [])
    source, tag = urls["Source"], f"v{importlib.metadata.version('seamark')}"
    raw = source.replace("://github.com/", "://raw.githubusercontent.com/") + f"/{tag}/"
    assert not [url for url in urls.values() if not url.startswith(source)]
    text = without_code(METADATA["Description"])
    pictures = re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", text)
    assert pictures
    assert not [link for link in pictures if not link.startswith(raw)]
    others = set(LINK.findall(text)) - set(pictures)
    assert others
    assert not [link for link in others if not link.startswith(f"{source}/blob/{tag}/")]
    # Nothing that a package index shows otherwise: tags of HTML, and links by reference.
    assert not re.findall(r"<(?:a|img)\b|^\[[^\]]+\]: ", text, re.MULTILINE)
