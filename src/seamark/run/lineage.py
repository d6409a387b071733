"""Lineage: the runs and artifacts that something comes from and that were made from it."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from seamark.paths import home_of, kind_of
from seamark.reading.artifacts import source_label
from seamark.run.associated import SPACES, described, hash_of

if TYPE_CHECKING:
    from seamark.reading.catalog import Catalog, Ref

__all__ = ["Edge", "Lineage", "Node", "lineage_of"]

_SEEN: Final = "(shown above)"


@dataclass(frozen=True, slots=True)
class Node:
    """A run, or something that runs read and made.

    Attributes:
        id: Unique digest; of an artifact, its own.
        kind: ``"run"``, another kind of container, ``"files"``, or the kind of a `Reference`.
        label: Name for people.
        project: Project path; empty for what belongs to none.
        run: Run id, key of a model, id of a version or digest of an artifact; else empty.
    """

    id: str
    kind: str
    label: str
    project: str = ""
    run: str = ""

    def __str__(self) -> str:
        """Return kind and label."""
        return f"{self.kind.replace('_', ' ')} {self.label}"


@dataclass(frozen=True, slots=True)
class Edge:
    """An input or output of a run.

    Attributes:
        source: `Node.id` of the earlier one: an input, or the run that made an output.
        target: `Node.id` of the later one.
        name: Name of the input or output in the run.
    """

    source: str
    target: str
    name: str


class Lineage:
    """Ancestors and descendants of a run or artifact; made by `seamark.Run.lineage`.

    Printed, it is a tree.

    Attributes:
        start: The run or artifact itself.
        nodes: All nodes by `Node.id`, the start first.
        edges: Inputs and outputs that connect the nodes.
    """

    def __init__(self, start: Node, nodes: dict[str, Node], edges: list[Edge]) -> None:
        self.start, self.nodes, self.edges = start, nodes, edges

    def __repr__(self) -> str:
        """Return the number of nodes and edges."""
        return f"<Lineage of {self.start}: {len(self.nodes)} nodes, {len(self.edges)} edges>"

    def __str__(self) -> str:
        """Return a tree of ancestors and one of descendants."""
        lines = [str(self.start)]
        for title, below in (("comes from", False), ("led to", True)):
            found = list(self._tree(below=below))
            lines += [title, *found] if found else [f"{title}: nothing that is known"]
        return "\n".join(lines)

    def _tree(self, *, below: bool) -> Iterator[str]:
        """Yield a line for each node, below the one that it was reached from; subtrees once."""
        edges = _by_end(self.edges, "source" if below else "target")

        def branches(node: str, indent: str) -> list[tuple[Edge, str, bool]]:
            found = edges.get(node, [])
            return [(edge, indent, edge is found[-1]) for edge in reversed(found)]

        seen, stack = {self.start.id}, branches(self.start.id, "")
        while stack:
            edge, indent, is_last = stack.pop()
            far = edge.target if below else edge.source
            node, again = self.nodes[far], far in seen
            name = f" as {edge.name}" if edge.name != node.label else ""
            yield f"{indent}{'└' if is_last else '├'} {node}{name}{f' {_SEEN}' if again else ''}"
            if not again:
                seen.add(far)
                stack += branches(far, indent + ("  " if is_last else "│ "))

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
        catalog: Catalog of the place, up to date.
        ref: Project and id of the container.
    """
    nodes = _Nodes(catalog)
    start = nodes.of(ref)
    every = list(nodes.read_edges())
    found = [*_reached(start.id, every, "target"), *_reached(start.id, every, "source")]
    edges = list(dict.fromkeys(found))
    ends = dict.fromkeys([start.id, *(end for one in edges for end in (one.source, one.target))])
    return Lineage(start, {end: nodes.called(end, start) for end in ends}, edges)


def _by_end(edges: Iterable[Edge], end: str) -> dict[str, list[Edge]]:
    """Return edges by their source or target."""
    found: dict[str, list[Edge]] = {}
    for edge in edges:
        found.setdefault(getattr(edge, end), []).append(edge)
    return found


def _reached(start: str, edges: Iterable[Edge], near: str) -> Iterator[Edge]:
    """Yield the edges that are reached from a node, near ones first.

    Args:
        start: Id of the node.
        edges: All edges.
        near: End at which an edge is entered: ``"target"`` leads to what was there before.
    """
    far_end = "source" if near == "target" else "target"
    known, queue, seen = _by_end(edges, near), deque([start]), {start}
    while queue:
        for edge in known.get(queue.popleft(), ()):
            yield edge
            if (far := getattr(edge, far_end)) not in seen:
                seen.add(far)
                queue.append(far)


class _Nodes:
    """The runs of a place, with their inputs and outputs.

    Args:
        catalog: Catalog of the place, up to date.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._names = {one.ref: one.shown for one in catalog.names("run")}
        self._runs = {hash_of("run", ref[1]): ref for ref in self._names}
        self._marks: dict[str, tuple[Ref, str]] = {}

    def read_edges(self) -> Iterator[Edge]:
        """Yield all inputs and outputs of the runs of the place."""
        from seamark.store.query.selection import Selection

        columns = [f"{space}/*" for space in SPACES.values()]
        table = self._catalog.table(Selection(trashed=None), columns, lambda _: None)
        for ref, row in zip(table.refs, table.rows, strict=True):
            run = hash_of("run", ref[1])
            for kind, space in SPACES.items():
                for path, digest in sorted(row.items()):
                    if path.startswith(f"{space}/") and isinstance(digest, str):
                        self._marks.setdefault(digest, (ref, path))
                        ends = (digest, run) if kind == "input" else (run, digest)
                        yield Edge(*ends, path[len(space) + 1 :])

    def of(self, ref: Ref) -> Node:
        """Return the node of a container."""
        from seamark.store.query.registered import number_of

        kind, number = kind_of(*ref), None
        if kind == "run":
            label = f"{ref[0]}/{self._names.get(ref, ref[1])}"
            return Node(hash_of(kind, ref[1]), kind, label, *ref)
        if kind in ("model_version", "artifact"):
            named = (one for one in self._catalog.names(kind) if one.ref == ref)
            number = next(map(number_of, named), None)
        of = described(ref, number)
        return Node(hash_of(kind, of["id"]), kind, source_label(of), home_of(ref[0]), ref[1])

    def called(self, node: str, start: Node) -> Node:
        """Return a node by its id: that of a run, or of what one read or made."""
        if node == start.id or node in self._runs:
            return start if node == start.id else self.of(self._runs[node])
        ref, path = self._marks[node]
        found = self._catalog.view(*ref).attribute(path)
        told = {} if found is None or found.family != "artifact" else found.value
        if (of := told.get("of")) is not None:
            home = of.get("project", "")
            return Node(node, of["kind"], source_label(of), home, str(of.get("id", "")))
        files = told.get("files", ())
        more = f" ({len(files)} files)" if len(files) > 1 else ""
        return Node(node, "files", f"{path.split('/', 2)[2]}{more}")
