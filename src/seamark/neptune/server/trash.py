"""The trash of runs, models and versions, and their permanent removal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Final

from fastapi import Body, Request, Response

from seamark.errors import SeamarkError
from seamark.neptune.server.answers import ContainerNotFound, Routes, answer
from seamark.neptune.server.containers import Text, find_container, project_of
from seamark.neptune.server.names import Container, container_id, wait_in
from seamark.neptune.server.projects import is_project, models_of, trashed_runs, versions_of
from seamark.neptune.server.reading import Read
from seamark.server.access import Role
from seamark.server.failures import Refusal, refusal_of
from seamark.server.guard import server_of
from seamark.server.routes.edits import purge_run
from seamark.values import encode_atom, escape

router: Final = Routes()


def _existing_project(request: Request, identifier: str) -> str:
    # An admin may read all others, too.
    project = project_of(request, identifier, Role.VIEWER)
    if not is_project(server_of(request), project):
        raise Refusal(404, "no-project", f"there is no project {project[:200]!r}")
    return project


@router.answers("trashExperiments")
def trash(
    request: Request,
    projectIdentifier: Text,  # noqa: N803 - theirs
    identifiers: Annotated[list[str], Body(max_length=10_000)],
) -> Response:
    """Put runs into the trash; a model takes its versions along. What could not be is told."""
    project, server = _existing_project(request, projectIdentifier), server_of(request)

    def put(container: Container) -> None:
        if container.kind == "model":
            for version, trashed in versions_of(server, container):
                if not trashed:
                    put(version)
        atoms = {"sys/trashed": list(encode_atom(True))}  # noqa: FBT003 - a value
        server.writer.record(*container, [{"op": "assign", "atoms": atoms}])

    told = _each(request, identifiers, Role.CONTRIBUTOR, put)
    wait_in(server, project)  # so that no table shows them from here on, whoever asks
    return told


@router.answers("deleteExperiments")
def delete(
    request: Request,
    projectIdentifier: Text,  # noqa: N803 - theirs
    identifiers: Annotated[list[str], Body(max_length=10_000)],
) -> Response:
    """Remove runs for good that are in the trash; a model takes its versions along."""
    _existing_project(request, projectIdentifier)

    def delete_one(container: Container) -> None:
        if not Read(server_of(request), container).row[1]:
            raise Refusal(409, "not-trashed", "it is not in the trash")
        _purge(request, container)

    return _each(request, identifiers, Role.OWNER, delete_one)


@router.answers("deleteAllExperiments")
def empty_trash(request: Request, projectIdentifier: Text) -> Response:  # noqa: N803 - theirs
    """Remove all that is in the trash of a project for good, models and versions too."""
    project, server = project_of(request, projectIdentifier, Role.OWNER), server_of(request)
    found = trashed_runs(server, project)
    for model, trashed in models_of(server, project):
        found += [version for version, gone in versions_of(server, model) if gone]
        found += [model] if trashed else []
    return _each(request, map(container_id, found), Role.OWNER, lambda each: _purge(request, each))


def _purge(request: Request, container: Container) -> None:
    if container.kind == "model":
        versions = versions_of(server_of(request), container)
        if left := sum(not trashed for _, trashed in versions):
            raise Refusal(
                409,
                "has-versions",
                f"{left} of its versions are not in the trash, and would go with it",
            )
        for version, _ in versions:
            purge_run(request, *version)
    purge_run(request, *container)


def _each(
    request: Request, identifiers: Iterable[str], role: Role, act: Callable[[Container], None]
) -> Response:
    errors, done = [], []
    for identifier in dict.fromkeys(identifiers):
        try:
            container = find_container(request, identifier, role)
            if container.is_project:
                raise ContainerNotFound(identifier)
            if not server_of(request).intake.known(*container)[0]:
                raise ContainerNotFound(identifier)
            act(container)
            done.append(identifier)
        except (SeamarkError, Refusal) as error:
            hint = str(escape(str(refusal_of(error).detail)))
            errors.append({"errorDescription": f"{identifier[:200]}: {hint}"})
    return answer({"errors": errors, "updatedExperimentIdentifiers": done})
