"""Lineage: the runs and artifacts that something comes from and that were made from it."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from seamark.paths import home_of, kind_of, model_key
from seamark.reading.artifacts import label_of, source_label
from seamark.run.associated import SPACES, hash_of

if TYPE_CHECKING:
    from seamark.reading.catalog import Catalog, Ref

__all__ = ["Edge", "Lineage", "Node", "lineage_of"]

_COLUMNS: Final = [f"{space}/*" for space in SPACES.values()]
_SEEN: Final = "(shown above)"


@dataclass(frozen=True, slots=True)
class Node:
    """A run, or something that runs read and made.

    Attributes:
        id: What tells it from all others: a digest; of an artifact, its own.
        kind: ``"run"``, another kind of container, ``"files"``, or the kind of a `Reference`.
        label: What people call it.
        project: Project path; empty for what belongs to none.
        run: Run id, key of a model, id of a version or digest of an artifact; else empty.
    """

    id: str
    kind: str
    label: str
    project: str = ""
    run: str = ""

    def __str__(self) -> str:
        """Return what it is, and what it is called."""
        return f"{self.kind.replace('_', ' ')} {self.label}"


@dataclass(frozen=True, slots=True)
class Edge:
    """An input or output of a run.

    Attributes:
        source: `Node.id` of what was there first: what was read, or the run that made it.
        target: `Node.id` of what came of it.
        name: What the run calls it.
    """

    source: str
    target: str
    name: str


class Lineage:
    """Ancestors and descendants of a run or artifact; made by `seamark.Run.lineage`.

    Printed, it is a tree.

    Attributes:
        start: What was asked for.
        nodes: All of it, by `Node.id`, the start first.
        edges: How they belong together.
    """

    def __init__(self, start: Node, nodes: dict[str, Node], edges: list[Edge]) -> None:
        self.start, self.nodes, self.edges = start, nodes, edges
        self._above: dict[str, list[Edge]] = {}
        self._below: dict[str, list[Edge]] = {}
        for edge in edges:
            self._above.setdefault(edge.target, []).append(edge)
            self._below.setdefault(edge.source, []).append(edge)

    def __repr__(self) -> str:
        """Return how much there is."""
        return f"<Lineage of {self.start}: {len(self.nodes)} nodes, {len(self.edges)} edges>"

    def __str__(self) -> str:
        """Return a tree: what led to it, and what came of it."""
        lines = [str(self.start)]
        for title, below in (("comes from", False), ("led to", True)):
            found = list(self._tree(below=below))
            lines += [title, *found] if found else [f"{title}: nothing that is known"]
        return "\n".join(lines)

    def _tree(self, *, below: bool) -> Iterator[str]:
        """Yield a line for each, further generations behind their own; each is gone into once."""
        edges = self._below if below else self._above
        seen = {self.start.id}
        stack = [(edge, "") for edge in reversed(edges.get(self.start.id, []))]
        last = {id(stack[0][0])} if stack else set()
        while stack:
            edge, indent = stack.pop()
            far = edge.target if below else edge.source
            node = self.nodes[far]
            is_last = id(edge) in last
            again = far in seen
            seen.add(far)
            name = f" as {edge.name}" if edge.name != node.label else ""
            yield f"{indent}{'└' if is_last else '├'} {node}{name}{f' {_SEEN}' if again else ''}"
            further = [] if again else edges.get(far, [])
            if further:
                last.add(id(further[-1]))
                deeper = indent + ("  " if is_last else "│ ")
                stack += [(one, deeper) for one in reversed(further)]

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"start", "nodes", "edges"}`` of plain values."""
        return {
            "start": self.start.id,
            "nodes": [
                {
                    "id": one.id,
                    "kind": one.kind,
                    "label": one.label,
                    "project": one.project or None,
                    "run": one.run or None,
                }
                for one in self.nodes.values()
            ],
            "edges": [
                {"source": one.source, "target": one.target, "name": one.name} for one in self.edges
            ],
        }

    def to_dot(self) -> str:
        """Return it in the language of Graphviz."""
        numbers = {node: f"n{at}" for at, node in enumerate(self.nodes)}
        lines = ["digraph lineage {", "  rankdir=LR;"]
        for node in self.nodes.values():
            shape = "box" if node.kind == "run" else "ellipse"
            bold = ", style=bold" if node.id == self.start.id else ""
            label = json.dumps(str(node), ensure_ascii=False)
            lines.append(f"  {numbers[node.id]} [label={label}, shape={shape}{bold}];")
        for edge in self.edges:
            label = json.dumps(edge.name, ensure_ascii=False)
            lines.append(f"  {numbers[edge.source]} -> {numbers[edge.target]} [label={label}];")
        return "\n".join([*lines, "}"])


def lineage_of(catalog: Catalog, ref: Ref) -> Lineage:
    """Return the lineage of a container, over all generations.

    Args:
        catalog: Of the place, up to date.
        ref: Where the container lies.

    Raises:
        RunNotFoundError: If the place has no such run.
    """
    return _Search(catalog).around(ref)


class _Search:
    """Goes from runs to what they read and made, and back."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._names = {one.ref: one.shown for one in catalog.names("run")}
        self._numbered = {one.ref: one.name for one in catalog.names("artifact")}
        self._runs = {hash_of("run", ref[1]): ref for ref in self._names}
        self._nodes: dict[str, Node] = {}
        self._edges: dict[Edge, None] = {}
        self._known: dict[Ref, list[Edge]] = {}
        self._users = self._read_users()

    def _read_users(self) -> dict[str, list[Ref]]:
        """Return which runs read or made what has a digest."""
        from seamark.store.query.selection import Selection

        def unknown(_: Exception) -> None:
            """Nobody marked anything so far."""

        table = self._catalog.table(Selection(trashed=None), _COLUMNS, unknown)
        spaces = tuple(f"{space}/" for space in SPACES.values())
        found: dict[str, list[Ref]] = {}
        for ref, row in zip(table.refs, table.rows, strict=True):
            for path, digest in row.items():
                if path.startswith(spaces) and isinstance(digest, str):
                    found.setdefault(digest, []).append(ref)
        return found

    def around(self, ref: Ref) -> Lineage:
        """Return the lineage of a container; see `lineage_of`."""
        start = self._run(ref) if kind_of(*ref) == "run" else self._container(ref)
        self._nodes[start.id] = start
        for below in (False, True):  # what led to it, and then what came of it
            queue, seen = deque([start.id]), {start.id}
            while queue:
                node = queue.popleft()
                for edge in self._near(node):
                    here, far = edge.source, edge.target
                    if not below:
                        here, far = far, here
                    if here == node:
                        self._edges.setdefault(edge)
                        if far not in seen:
                            seen.add(far)
                            queue.append(far)
        kept = {edge.source for edge in self._edges} | {edge.target for edge in self._edges}
        nodes = {key: one for key, one in self._nodes.items() if key in kept or key == start.id}
        return Lineage(start, nodes, list(self._edges))

    def _near(self, node: str) -> list[Edge]:
        """Return what a node has to do with: of a run, with what; of something, with which runs."""
        refs = list(self._users.get(node, ()))
        if (own := self._runs.get(node)) is not None:
            refs.append(own)
        edges = dict.fromkeys(edge for ref in refs for edge in self._edges_of(ref))
        return [edge for edge in edges if node in (edge.source, edge.target)]

    def _edges_of(self, ref: Ref) -> Iterable[Edge]:
        if ref in self._known:
            return self._known[ref]
        run = self._run(ref)
        self._nodes.setdefault(run.id, run)
        edges = []
        view = self._catalog.view(*ref)
        for kind, space in SPACES.items():
            for one in view.attributes(space):
                if one.family != "artifact" or not one.value.get("hash"):
                    continue
                name = one.path[len(space) + 1 :]
                thing = self._thing(one.value, name)
                self._nodes.setdefault(thing.id, thing)
                ends = (thing.id, run.id) if kind == "input" else (run.id, thing.id)
                edges.append(Edge(*ends, name))
        self._known[ref] = edges
        return edges

    # ---------------------------------------------------------------- what they are

    def _run(self, ref: Ref) -> Node:
        label = f"{ref[0]}/{self._names.get(ref, ref[1])}"
        return Node(hash_of("run", ref[1]), "run", label, *ref)

    def _container(self, ref: Ref) -> Node:
        kind, home = kind_of(*ref), home_of(ref[0])
        if kind == "artifact":
            told = self._numbered.get(ref) or label_of(ref[0], ref[1], None)
            return Node(ref[1], kind, f"{home}/{told}", home, ref[1])
        if kind == "project":
            return Node(hash_of(kind, home), kind, home, home)
        name = f"{home}/{ref[1]}" if kind == "model" else ref[1]
        label = name if kind == "model" else f"{home}/{model_key(*ref)}/{ref[1]}"
        return Node(hash_of(kind, name), kind, label, home, ref[1])

    def _thing(self, told: dict[str, Any], name: str) -> Node:
        """Return what was read or made, by what was recorded of it."""
        digest, of = told["hash"], told.get("of")
        if digest in self._runs:
            return self._run(self._runs[digest])
        if of is None:
            files = told.get("files", ())
            more = f" ({len(files)} files)" if len(files) > 1 else ""
            return Node(digest, "files", f"{name}{more}")
        home = of.get("project", "")
        return Node(digest, of["kind"], source_label(of), home, str(of.get("id", "")))
