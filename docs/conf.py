"""Sphinx: MyST pages, furo, reference from the docstrings of the installed package."""

from __future__ import annotations

import importlib.metadata

project = "Seamark"
author = "The Seamark developers"
copyright = "2026, The Seamark developers"
release = importlib.metadata.version("seamark")
version = release

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"Seamark {release}"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_numpy_docstring = False
default_role = "code"

nitpicky = True
# Python's `type` in a signature is taken for the attributes of that name that some classes have.
suppress_warnings = ["ref.python"]
# References to other projects are not fetched: a build of the documents needs no network.
nitpick_ignore_regex = [
    (r"py:.*", r"(?!seamark\b).*"),
    # What a private module defines is described where its public front is, if anywhere.
    (r"py:.*", r"seamark\.(?:\w+\.)*_\w+\..*"),
    # A type variable, and types of which people only ever hold instances.
    (r"py:class", r"seamark\.(?:run\.run\.T|registry\.group\.Home)"),
    (r"py:class", r"seamark\.reading\.tables\.RunRow"),
    (r"py:class", r"seamark\.values\.(?:aggregates\.Keep|arrays\.\w+)"),
]
