"""JSON bodies that the client sends, checked before they are used.

Only the fields that are used are declared here; all others are accepted. A field that may be null
may also be left out: versions of the client differ in that.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BaseModel, Field

__all__ = ["Creation", "Grant", "Invitations", "NewProject", "Wanted"]

Word = Annotated[str, Field(max_length=8192)]
_MOST: Final = 10_000


class NewProject(BaseModel):
    """A project to be made.

    Attributes:
        organization: Its workspace.
        name: The second part of its path.
        visibility: ``priv``, ``pub`` or ``workspace``.
        key: What the ids of its runs begin with.
    """

    organization: Word | None = Field(None, alias="organizationId")
    name: Word | None = None
    visibility: Word | None = None
    key: Word | None = Field(None, alias="projectKey")


class Grant(BaseModel):
    """A role that somebody gets.

    Attributes:
        user: Who, if it is a person.
        account: Who, if it is a service account.
        role: ``viewer``, ``member`` or ``manager``.
    """

    user: Word | None = Field(None, alias="userId")
    account: Word | None = Field(None, alias="serviceAccountId")
    role: Word | None = None


class Invitation(BaseModel):
    """Invitation to a workspace.

    Attributes:
        invitee: Name of a user, or an address.
        kind: ``user`` or ``emailRecipient``.
        role: ``member`` or ``owner``.
        to_all: Whether they get a role in every project.
    """

    invitee: Word | None = None
    kind: Word | None = Field(None, alias="invitationType")
    role: Word | None = Field(None, alias="roleGrant")
    to_all: bool | None = Field(None, alias="addToAllProjects")


class _Invitations(BaseModel):
    organization: Word | None = Field(None, alias="organizationIdentifier")
    entries: list[Invitation] | None = Field(None, alias="invitationsEntries", max_length=_MOST)


class Invitations(_Invitations):
    """Some of them; the client wraps them once more, its document does not say so.

    Attributes:
        organization: The workspace.
        entries: Who is let in.
        inner: The same, where it is wrapped.
    """

    inner: _Invitations | None = Field(None, alias="newOrganizationInvitations")


class Creation(BaseModel):
    """A run, a model or a version to be made.

    Attributes:
        project: Id or path of its project.
        kind: ``run``, ``model`` or ``modelVersion``.
        custom: Id that its maker has for a run.
        key: Of a model.
        parent: Id of the model that a version is of.
        git: What is known of the code.
    """

    project: Word | None = Field(None, alias="projectIdentifier")
    kind: Word | None = Field(None, alias="type")
    custom: Word | None = Field(None, alias="customId")
    key: Word | None = None
    parent: Word | None = Field(None, alias="parentId")
    git: dict[str, Any] | None = Field(None, alias="gitInfo")


class _Page(BaseModel):
    limit: int | None = None
    offset: int | None = None


class _Query(BaseModel):
    query: str | None = None


class _Column(BaseModel):
    name: Word | None = None


class _Sorting(BaseModel):
    by: _Column | None = Field(None, alias="sortBy")
    order: Word | None = Field(None, alias="dir")


class _Path(BaseModel):
    path: Word


class Wanted(BaseModel):
    """Selection of rows and columns of a table.

    Attributes:
        query: Query for the rows, in the client's language.
        page: Page of the result.
        sorting: Order of the rows.
        columns: Paths; None for all.
    """

    query: _Query | None = None
    page: _Page | None = Field(None, alias="pagination")
    sorting: _Sorting | None = None
    columns: list[_Path] | None = Field(None, alias="attributeFilters", max_length=_MOST)
