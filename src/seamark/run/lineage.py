"""Lineage of a run: its inputs and outputs, which are models, artifacts and other runs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from seamark.errors import ArgumentError, FileMissingError, PathError, RunNotFoundError
from seamark.journal.folder import RunFolder
from seamark.opening.place import artifact_root, open_catalog, remote_to_read
from seamark.paths import ARTIFACTS, check_path, check_place, home_of, kind_of, model_key
from seamark.reading.contents import ArtifactName, source_label
from seamark.run.artifact import artifact_op, uri_of
from seamark.run.container import Container
from seamark.values._numbers import argument_error

if TYPE_CHECKING:
    from seamark.options.settings import Settings
    from seamark.reading.catalog import Catalog, Ref
    from seamark.reading.names import RunName
    from seamark.run.recorder import Recorder


SPACES: Final = {"input": "artifacts/inputs", "output": "artifacts/outputs"}
"""Namespaces of inputs and outputs."""
_KINDS: Final = ("dataset", "model", "branch", "tag", "commit")
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.")


@dataclass(frozen=True, slots=True)
class Reference:
    """An external input or output of a run; its content is never read.

    Attributes:
        uri: URI such as ``"s3://bucket/key"`` or ``"https://git.lab/team/code@1f3a9c"``, without
            user and password.
        kind: ``"dataset"``, ``"model"``, ``"branch"``, ``"tag"`` or ``"commit"``; None if it is
            none of them.

    Raises:
        ArgumentError: If the URI or the kind is invalid.
    """

    uri: str
    kind: str | None = None

    def __post_init__(self) -> None:
        uri_of(self.uri)
        if self.kind is not None and self.kind not in _KINDS:
            raise argument_error(
                self.kind, "kind", f"one of {', '.join(map(repr, _KINDS))} or None"
            )


def hash_of(kind: str, name: str) -> str:
    """Return the digest that identifies a container; of an artifact, its own."""
    return name if kind == "artifact" else hashlib.sha256(f"{kind}:{name}".encode()).hexdigest()


def artifact_folder(of: object, root: Path) -> RunFolder | None:
    """Return the folder of an input or output artifact; None if it is not on this disk."""
    if not isinstance(of, dict) or of.get("kind") != "artifact":
        return None
    place = f"{of.get('project')}/{ARTIFACTS}/{of.get('name')}"
    try:
        check_place(place, of.get("id"))
    except PathError:
        return None
    roots = (artifact_root(), root)
    known = (RunFolder(one, place, str(of["id"])) for one in roots if one is not None)
    return next((one for one in known if one.exists()), None)


class Associations:
    """The inputs and outputs of a run."""

    def __init__(self, recorder: Recorder, options: Settings) -> None:
        self._recorder, self._options = recorder, options
        self._marked: dict[str, str] = {}

    def mark(self, kind: str, what: Any, name: str | None) -> RunFolder | None:
        """Record an input or output if this rank records; return a local artifact's folder."""
        writer = self._recorder.to_share(SPACES[kind])
        if writer is None:
            return None
        op = self.op(kind, what, name)
        path, digest = op["path"], op["hash"]
        if self._marked.setdefault(path, digest) != digest:
            raise ArgumentError(
                f"mark_{kind}: {path!r} is already another {kind}; give this one a name="
            )
        writer.claim(path, "artifact")
        writer.append_op(op)
        return artifact_folder(op.get("of"), self._recorder.folder.root)

    def op(self, kind: str, what: Any, name: str | None) -> dict[str, Any]:
        """Return the op that records an input or output."""
        if name is not None and (not isinstance(name, str) or not name.strip("/")):
            raise argument_error(name, "name", "a string or None")
        if isinstance(what, str) and _URL.match(what) and not what.startswith("file://"):
            what = Reference(what)
        if isinstance(what, Reference):
            uri, own = uri_of(what.uri)
            path = _path(kind, name, own)
            uri = self._recorder.contents.hide(path, uri)
            of = {"kind": what.kind or "reference", "uri": uri}
            return _op(kind, path, of, hash_of("reference", uri), [uri])
        found: dict[str, Any] | None = None
        if isinstance(what, Container):
            found = _of_container(what)
        elif isinstance(what, str):
            found = self._find_artifact(kind, what)
        elif not isinstance(what, os.PathLike):
            wanted = "a container, an existing path, '[PROJECT/]NAME:VERSION' or a Reference"
            raise argument_error(what, f"mark_{kind}", wanted)
        if found is not None:
            path = _path(kind, name, str(found.get("name") or found["id"]))
            return _op(kind, path, found, hash_of(found["kind"], found["id"]))
        path = _path(kind, name, Path(os.fspath(what)).absolute().name or "root")
        return artifact_op(path, kind, what, hide=partial(self._recorder.contents.hide, path))

    def _find_artifact(self, kind: str, word: str) -> dict[str, Any] | None:
        meant, found = ArtifactName.of(word), None
        there = word.startswith("file://") or os.path.lexists(Path(word).expanduser())
        if meant is not None and meant.has_version:
            try:
                found = self._artifact(word)
            except RunNotFoundError as error:
                if not there:
                    raise RunNotFoundError(
                        f"mark_{kind}: {error}, and there is no such path"
                    ) from None
        elif not there:
            raise argument_error(word, f"mark_{kind}", "an existing path", FileMissingError)
        if found is not None and there:
            raise ArgumentError(
                f"mark_{kind}: {word!r:.200} is a path and an artifact: pass {f'./{word}'!r:.200} "
                f"for the path, or the result of init_artifact({word!r:.200})"
            )
        return found

    def _artifact(self, word: str) -> dict[str, Any]:
        from seamark.store.query.selection import number_of

        options, folder = self._options, self._recorder.folder
        known = (artifact_root(), folder.root, remote_to_read(options.remotes))
        places = [place for place in known if place is not None]
        found = find_among(places, options.api_token, word, folder.project, "artifact")
        return described(found.ref, number_of(found))


def find_among(
    places: Iterable[Path | str], token: str | None, word: str, project: str, kind: str
) -> RunName:
    """Return the model, version or artifact with a name, from the first place that has one.

    Args:
        places: Roots, or addresses of servers.
        token: Token for servers.
        word: Name given by the user; see `seamark.store.query.selection`.
        project: Default project, unless the name includes one.
        kind: Kind of container.

    Raises:
        RunNotFoundError: If no place has one; it is the error of the first place.
        ArgumentError: If the name is ambiguous.
    """
    from seamark.store.query.selection import find_registered

    missing = []
    for place in places:
        with contextlib.closing(open_catalog(place, token)) as catalog:
            catalog.refresh(None if "/" in word else project)
            try:
                return find_registered(catalog, word, project, (kind,))
            except RunNotFoundError as error:
                missing.append(error)
    raise missing[0]


def _path(kind: str, name: str | None, own: str) -> str:
    return check_path(f"{SPACES[kind]}/{own if name is None else name}")


def _op(
    kind: str, path: str, of: dict[str, Any], digest: str, references: list[str] | None = None
) -> dict[str, Any]:
    told = {"kind": kind, "files": [], "references": references or [], "hash": digest, "of": of}
    return {"op": "artifact", "path": path, **told}


def described(ref: Ref, number: object = None) -> dict[str, Any]:
    """Return the record of a container that is an input or output of a run."""
    kind, home = kind_of(*ref), home_of(ref[0])
    if kind == "project":
        return {"kind": kind, "id": home}
    of = {"kind": kind, "project": home, "id": ref[1]}
    if kind == "model":
        of["id"] = f"{home}/{ref[1]}"  # a key is unique within its project
    if kind != "run":
        of["name"] = model_key(*ref)
    return of if number is None else {**of, "version": number}


def _of_container(what: Container) -> dict[str, Any]:
    folder, number = what.folder, None
    if folder.kind == "artifact":
        artifact = cast("Any", what)  # its class belongs to a higher layer
        return described((folder.project, artifact.digest), artifact.version)
    if folder.kind == "model_version":
        with contextlib.suppress(Exception):  # a number is for display
            number = int(what["sys/version"].fetch())
    return described((folder.project, folder.run), number)


_SEEN: Final = "(shown above)"


@dataclass(frozen=True, slots=True)
class Node:
    """A run, or an input or output of runs.

    Attributes:
        id: Unique digest; of an artifact, its own.
        kind: ``"run"``, another kind of container, ``"files"``, or the kind of a `Reference`.
        label: Display name.
        project: Project path; empty if it belongs to none.
        run: Run id, key of a model, id of a version or digest of an artifact; otherwise empty.
    """

    id: str
    kind: str
    label: str
    project: str = ""
    run: str = ""

    def __str__(self) -> str:
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

    ``print`` shows it as a tree.

    Attributes:
        start: The run or artifact itself.
        nodes: All nodes by `Node.id`, the start first.
        edges: Inputs and outputs that connect the nodes.
    """

    def __init__(self, start: Node, nodes: dict[str, Node], edges: list[Edge]) -> None:
        self.start, self.nodes, self.edges = start, nodes, edges

    def __repr__(self) -> str:
        return f"<Lineage of {self.start}: {len(self.nodes)} nodes, {len(self.edges)} edges>"

    def __str__(self) -> str:
        lines = [str(self.start)]
        for title, below in (("comes from", False), ("led to", True)):
            found = list(self._tree(below=below))
            lines += [title, *found] if found else [f"{title}: nothing that is known"]
        return "\n".join(lines)

    def _tree(self, *, below: bool) -> Iterator[str]:
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
            "edges": [asdict(one) for one in self.edges],
        }


def lineage_of(catalog: Catalog, ref: Ref) -> Lineage:
    """Return the lineage of a container, over all generations."""
    nodes = _Nodes(catalog)
    start = nodes.of(ref)
    every = list(nodes.read_edges())
    found = [*_reached(start.id, every, "target"), *_reached(start.id, every, "source")]
    edges = list(dict.fromkeys(found))
    ends = dict.fromkeys([start.id, *(end for one in edges for end in (one.source, one.target))])
    return Lineage(start, {end: nodes.called(end, start) for end in ends}, edges)


def _by_end(edges: Iterable[Edge], end: str) -> dict[str, list[Edge]]:
    found: dict[str, list[Edge]] = {}
    for edge in edges:
        found.setdefault(getattr(edge, end), []).append(edge)
    return found


def _reached(start: str, edges: Iterable[Edge], near: str) -> Iterator[Edge]:
    far_end = "source" if near == "target" else "target"
    known, queue, seen = _by_end(edges, near), deque([start]), {start}
    while queue:
        for edge in known.get(queue.popleft(), ()):
            yield edge
            if (far := getattr(edge, far_end)) not in seen:
                seen.add(far)
                queue.append(far)


class _Nodes:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._names = {one.ref: one.shown for one in catalog.names("run")}
        self._runs = {hash_of("run", ref[1]): ref for ref in self._names}
        self._marks: dict[str, tuple[Ref, str]] = {}

    def read_edges(self) -> Iterator[Edge]:
        from seamark.reading.catalog import Selection

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
        from seamark.store.query.selection import number_of

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
