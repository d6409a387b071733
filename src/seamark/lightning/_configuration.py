"""Secrets in the configurations that LightningCLI saves into the folder of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from seamark.capture import Secrets

__all__ = ["without_secrets"]

_STRING: Final = "tag:yaml.org,2002:str"


def without_secrets(text: str, secrets: Secrets) -> str:
    """Return the text of a YAML file without secrets; what is hidden stands as a string.

    Layout, comments and everything else stay as they are.

    Args:
        text: Any text. One that is no YAML is taken as a string.
        secrets: What is hidden.
    """
    try:
        import yaml

        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (ImportError, ValueError, RecursionError, yaml.YAMLError):
        return secrets.text(text)
    parts, done = [], 0
    for node, names in sorted(_strings(root), key=lambda each: each[0].start_mark.index):
        start, end = node.start_mark.index, node.end_mark.index
        kept = secrets.text(node.value, *names)
        if kept == node.value:
            continue
        after = "\n" if text[start:end].endswith("\n") else ""
        parts += [text[done:start], json.dumps(kept, ensure_ascii=False), after]
        done = end
    return "".join(parts) + text[done:]


def _strings(root: Any) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield every string of a document with the names that it stands below, its own last."""
    waiting: list[tuple[Any, tuple[str, ...]]] = [(root, ())]
    seen = set()
    while waiting:
        node, names = waiting.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if node.id == "scalar" and node.tag == _STRING:
            yield node, names
        elif node.id == "sequence":
            waiting += [(each, names) for each in node.value]
        elif node.id == "mapping":
            waiting += [(each, (*names, str(key.value))) for key, each in node.value]
