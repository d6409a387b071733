"""Routes for the views of a project; readers may open them, contributors may save them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field, model_validator

from seamark.server.access import Identity, Role
from seamark.server.failures import FAILURES, Refusal
from seamark.server.guard import Body, asker, expect, open_to_all, serving_of
from seamark.server.views import MOST_VIEWS, Address, Name, View

router: Final = APIRouter(tags=["runs"])
Project = Annotated[str, Field(max_length=4096)]
"""Project path; empty for the table of all runs."""


class _ListBody(Body):
    """Request for the views of a project."""

    project: Project


class _ViewBody(Body):
    """Change of a view; `was` is its expected address, or null for a new view.

    An `address` saves the view, null removes it; `to` is a new name. `default` sets whether the
    project is opened with this view.
    """

    project: Project
    name: Name
    was: str | None
    address: Address | None = None
    to: Name | None = None
    default: bool | None = None

    @model_validator(mode="after")
    def _check_change(self) -> _ViewBody:
        if {"address", "to", "default"}.isdisjoint(self.model_fields_set):
            raise ValueError("expected at least one change: address, to, default")
        return self


class _Views(BaseModel):
    """Views of a project by name.

    `may_save` tells whether the requester may change them. `apart` explains if new views are not
    shared with other users.
    """

    project: str
    views: list[View]
    may_save: bool
    apart: str


_CONFLICT: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": _Views},
    409: {"description": "The view was changed meanwhile, or its new name is taken."},
    **FAILURES,
}


@router.post("/views", operation_id="listViews", responses=_CONFLICT)
def views(request: Request, body: _ListBody) -> _Views:
    """Return the views of a project."""
    _, role = _role_of_requester(request, body.project)
    # Most users have no role for all projects, and so no views there.
    found = {} if role is None else serving_of(request).views.read(body.project)
    return _views_response(request, body.project, role, found)


@router.patch("/views", operation_id="editView", responses=_CONFLICT)
def edit(request: Request, body: _ViewBody) -> _Views:
    """Save, rename or remove a view, or make it the default one; return all views."""
    who, role = _role_of_requester(request, body.project)
    if role is None or role < Role.CONTRIBUTOR:
        raise Refusal(403, "role-too-small", "the role contributor is required to save a view")
    now_ns = serving_of(request).now_ns()

    def changed(before: Mapping[str, View]) -> Mapping[str, View]:
        return _apply_change(before, body, who.name, now_ns)

    found = serving_of(request).views.change(body.project, changed)
    return _views_response(request, body.project, role, found)


def _role_of_requester(request: Request, project: str) -> tuple[Identity, Role | None]:
    if project:
        expect(request, project, Role.VIEWER)
    else:
        open_to_all(request)
    who = asker(request)
    return who, serving_of(request).accounts.role(who, project)


def _views_response(
    request: Request, project: str, role: Role | None, found: Mapping[str, View]
) -> _Views:
    may_save = role is not None and role >= Role.CONTRIBUTOR
    return _Views(
        project=project,
        views=[found[name] for name in sorted(found)],
        may_save=may_save,
        apart=serving_of(request).views.apart(project) if may_save else "",
    )


def _apply_change(
    before: Mapping[str, View], body: _ViewBody, by: str, now_ns: int
) -> dict[str, View]:
    views = dict(before)
    found = views.pop(body.name, None)
    if (found and found.address) != body.was:
        hint = (
            f"the view {body.name!r} was changed meanwhile or already exists: load the views again"
        )
        raise Refusal(409, "changed", hint, address=found and found.address)
    if "address" in body.model_fields_set:
        if body.address is None:
            return views
        kept = found is not None and found.default
        found = View(name=body.name, address=body.address, default=kept, by=by, t_ns=now_ns)
    if found is None:
        raise Refusal(404, "not-found", f"there is no view {body.name!r}")
    if body.to is not None:
        if body.to in views:
            raise Refusal(409, "taken", f"view {body.to!r} already exists: use another name")
        found = found.model_copy(update={"name": body.to})
    if body.default is not None:
        views = {name: one.model_copy(update={"default": False}) for name, one in views.items()}
        found = found.model_copy(update={"default": body.default})
    if len(views) >= MOST_VIEWS:
        hint = f"a project can have at most {MOST_VIEWS} views: remove one"
        raise Refusal(413, "too-many-views", hint, limit=MOST_VIEWS)
    return {**views, found.name: found}
