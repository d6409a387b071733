"""Requests of Neptune's client: authentication, bodies, and answers and errors in its format.

A field of a body may be null or left out, because versions of the client differ in this.

The client reads the addresses of operations from Swagger 2.0 documents, so that Seamark can choose
them. `Routes` mounts each operation at its address in these documents.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import re
from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from fastapi import APIRouter, Body, Request, Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from seamark.errors import ArgumentError
from seamark.server.access import Identity
from seamark.server.failures import Refusal, refusal_of
from seamark.server.guard import address_of, server_of

Given = Annotated[dict[str, Any], Body()]
"""Body of a request."""
_MAX_ITEMS: Final = 10_000
_MAX_CHARACTERS: Final = 8192
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def field(
    body: Mapping[str, Any], path: str, kind: type = str, longest: int | None = _MAX_CHARACTERS
) -> Any:
    """Return a field of a body, such as ``sortBy.name``; None if it is null or left out.

    Raises `ArgumentError` if it has another type, or is a text with lone surrogates or of more
    than `longest` characters; None allows all texts.
    """
    above, _, name = path.rpartition(".")
    found = (field(body, above, dict) or {} if above else body).get(name)
    if found is not None and type(found) is not kind:
        raise ArgumentError(f"{path}: expected {kind.__name__}, got {type(found).__name__}")
    if isinstance(found, str) and longest is not None:
        if len(found) > longest:
            raise ArgumentError(f"{path}: expected at most {longest:,} characters")
        if _SURROGATE.search(found):
            raise ArgumentError(f"{path}: expected no lone surrogates")
    return found


def objects(body: Mapping[str, Any], path: str) -> list[dict[str, Any]]:
    """Return a field that is a list of objects; empty if it is null or left out."""
    found: list[dict[str, Any]] = field(body, path, list) or []
    if len(found) > _MAX_ITEMS or not all(isinstance(each, dict) for each in found):
        raise ArgumentError(f"{path}: expected a list of at most {_MAX_ITEMS:,} objects")
    return found


DOCUMENTS: Final = ("backend", "leaderboard", "artifacts")


class Operation(NamedTuple):
    """Operation of the client, described in one of `DOCUMENTS`.

    `parameters` has names: ``name[]`` for several values, ``@name`` for the body, ``^name`` for a
    header, all others in the query. `result` is the definition of the response; empty if the client
    ignores it.
    """

    name: str
    document: str
    method: str
    path: str
    parameters: str
    result: str


_TABLE: Final = """
backend getClientConfig GET /api/backend/v1/clients/config | ^X-Neptune-Api-Token alpha | ClientConfig
backend exchangeApiToken GET /api/backend/v1/authorization/oauth-token | ^X-Neptune-Api-Token | Tokens
backend getProject GET /api/backend/v1/projects/get | projectIdentifier | Project
backend listProjects GET /api/backend/v1/projects/list | organizationIdentifier searchTerm sortBy[] sortDirection[] userRelation limit offset | ProjectList
backend listOrganizations GET /api/backend/v1/organizations | | Organization*
backend createProject POST /api/backend/v1/projects/create | @projectToCreate | Project
backend deleteProject DELETE /api/backend/v1/projects/delete | projectIdentifier |
backend listProjectMembers GET /api/backend/v1/members | projectIdentifier | ProjectMember*
backend addProjectMember POST /api/backend/v1/members | projectIdentifier @member | ProjectMember
backend deleteProjectMember DELETE /api/backend/v1/members | projectIdentifier userId | ProjectMember
backend listProjectServiceAccounts GET /api/backend/v1/accounts | projectIdentifier | ProjectAccount*
backend addProjectServiceAccount POST /api/backend/v1/accounts | projectIdentifier @account | ProjectAccount
backend deleteProjectServiceAccount DELETE /api/backend/v1/accounts | projectIdentifier serviceAccountId | ProjectAccount
backend listOrganizationMembers GET /api/backend/v1/organizations/members | organizationIdentifier | OrganizationMember*
backend listServiceAccounts GET /api/backend/v1/organizations/accounts | organizationIdentifier deactivated | ServiceAccount*
backend createOrganizationInvitations POST /api/backend/v1/organizations/invitations | @newOrganizationInvitations |
backend workspaceStatus GET /api/backend/v1/organizations/status | organizationIdentifier | WorkspaceStatus
leaderboard createExperiment POST /api/leaderboard/v1/experiments | @experimentCreationParams ^X-Neptune-CliVersion ^X-Neptune-LegacyClient | Experiment
leaderboard getExperiment GET /api/leaderboard/v1/experiments | experimentId | Experiment
leaderboard ping POST /api/leaderboard/v1/ping | experimentId |
leaderboard executeOperations POST /api/leaderboard/v1/operations | experimentId @operations | Error*
leaderboard getExperimentAttributes GET /api/leaderboard/v1/attributes | experimentId | Attributes
leaderboard trashExperiments POST /api/leaderboard/v1/trash | projectIdentifier @experimentIdentifiers | BatchResult
leaderboard deleteExperiments POST /api/leaderboard/v1/delete | projectIdentifier @experimentIdentifiers | BatchResult
leaderboard deleteAllExperiments DELETE /api/leaderboard/v1/trash | projectIdentifier | BatchResult
leaderboard createEmptyCheckpoint POST /api/leaderboard/v1/checkpoints | notebookId @checkpoint | Checkpoint
leaderboard getFloatAttribute GET /api/leaderboard/v1/attribute/float | experimentId attribute | floatProperties
leaderboard getIntAttribute GET /api/leaderboard/v1/attribute/int | experimentId attribute | intProperties
leaderboard getBoolAttribute GET /api/leaderboard/v1/attribute/bool | experimentId attribute | boolProperties
leaderboard getStringAttribute GET /api/leaderboard/v1/attribute/string | experimentId attribute | stringProperties
leaderboard getDatetimeAttribute GET /api/leaderboard/v1/attribute/datetime | experimentId attribute | datetimeProperties
leaderboard getStringSetAttribute GET /api/leaderboard/v1/attribute/stringSet | experimentId attribute | stringSetProperties
leaderboard getFileAttribute GET /api/leaderboard/v1/attribute/file | experimentId attribute | fileProperties
leaderboard getArtifactAttribute GET /api/leaderboard/v1/attribute/artifact | experimentId attribute | artifactProperties
leaderboard getFloatSeriesAttribute GET /api/leaderboard/v1/attribute/floatSeries | experimentId attribute | floatSeriesProperties
leaderboard getStringSeriesAttribute GET /api/leaderboard/v1/attribute/stringSeries | experimentId attribute | stringSeriesProperties
leaderboard getFloatSeriesValues GET /api/leaderboard/v1/values/float | experimentId attribute limit offset | FloatValues
leaderboard getStringSeriesValues GET /api/leaderboard/v1/values/string | experimentId attribute limit offset | StringValues
leaderboard getImageSeriesValues GET /api/leaderboard/v1/values/image | experimentId attribute limit offset | ImageValues
leaderboard getFloatSeriesValuesCSV GET /api/leaderboard/v1/values/csv | experimentId attribute |
leaderboard getImageSeriesValue GET /api/leaderboard/v1/image | experimentId attribute index |
leaderboard fileAtomUpload POST /api/leaderboard/v1/upload/file | experimentIdentifier attribute ext | UploadResult
leaderboard fileAtomMultipartUploadStart POST /api/leaderboard/v1/upload/file/start | experimentIdentifier attribute ext totalLength | UploadStarted
leaderboard fileAtomMultipartUploadPart POST /api/leaderboard/v1/upload/file/part | experimentIdentifier attribute uploadId uploadPartIdx | UploadResult
leaderboard fileAtomMultipartUploadFinish POST /api/leaderboard/v1/upload/file/finish | experimentIdentifier attribute uploadId | UploadResult
leaderboard fileSetFileUpload POST /api/leaderboard/v1/upload/member | experimentIdentifier attribute subPath | UploadResult
leaderboard fileSetFileMultipartUploadStart POST /api/leaderboard/v1/upload/member/start | experimentIdentifier attribute subPath totalLength | UploadStarted
leaderboard fileSetFileMultipartUploadPart POST /api/leaderboard/v1/upload/member/part | experimentIdentifier attribute subPath uploadId uploadPartIdx | UploadResult
leaderboard fileSetFileMultipartUploadFinish POST /api/leaderboard/v1/upload/member/finish | experimentIdentifier attribute subPath uploadId | UploadResult
leaderboard uploadFileSetAttributeTar POST /api/leaderboard/v1/upload/tar | experimentId attribute reset | UploadResult
leaderboard downloadAttribute GET /api/leaderboard/v1/download/file | experimentId attribute |
leaderboard lsFileSetAttribute GET /api/leaderboard/v1/files | experimentId attribute path | FileEntry*
leaderboard prepareForDownloadFileSetAttributeZip POST /api/leaderboard/v1/download/prepare | experimentId attribute | Download
leaderboard getDownloadPrepareRequest GET /api/leaderboard/v1/download/prepared | id | Download
leaderboard searchLeaderboardEntries POST /api/leaderboard/v1/table | projectIdentifier type[] @params | Entries
leaderboard getLeaderboard GET /api/leaderboard/v1/table/legacy | projectIdentifier shortId[] state[] owner[] tags[] tagsMode minRunningTimeSeconds sortBy[] sortFieldType[] sortDirection[] limit offset | LegacyEntries
leaderboard searchLeaderboardAttributes POST /api/leaderboard/v1/table/columns | projectIdentifier search type[] @params | Columns
artifacts createNewArtifact POST /api/artifacts/v1/new | projectIdentifier hash size parentIdentifier | Artifact
artifacts uploadArtifactFilesMetadata POST /api/artifacts/v1/files | projectIdentifier hash @artifactFilesDTO | Artifact
artifacts createArtifactVersion POST /api/artifacts/v1/version | projectIdentifier hash parentIdentifier @artifactFilesDTO | Artifact
artifacts listArtifactFiles GET /api/artifacts/v1/files | projectIdentifier hash | ArtifactFiles
"""  # noqa: E501 - a table
_RESULTS: Final = """
ClientConfig apiUrl applicationUrl pyLibVersions:LibVersions sysNameSetByBackend:boolean multiPartUpload:MultiPart artifacts:ArtifactsConfig
LibVersions minRecommendedVersion minCompatibleVersion maxCompatibleVersion
MultiPart enabled:boolean minChunkSize:integer maxChunkSize:integer maxChunkCount:integer maxSinglePartSize:integer
ArtifactsConfig enabled:boolean apiVersion:integer
Tokens accessToken refreshToken username
Project id name organizationName organizationId projectKey version:integer visibility description
ProjectList entries:Project* matchingItemCount:integer totalItemCount:integer
Organization id name
ProjectMember role registeredMemberInfo:MemberInfo
MemberInfo username
ProjectAccount role serviceAccountInfo:AccountInfo
AccountInfo displayName
OrganizationMember role registeredMemberInfo:MemberInfo
ServiceAccount id displayName
WorkspaceStatus membersCount:integer
Experiment id type shortId organizationName projectName trashed:boolean
Error errorDescription
Attributes attributes:Attribute* systemAttributes:SystemAttributes
SystemAttributes shortId:stringProperties name:stringProperties description:stringProperties owner:stringProperties hostname:stringProperties state:stringProperties creationTime:datetimeProperties runningTime:floatProperties size:floatProperties tags:stringSetProperties
LegacyEntries totalItemCount:integer matchingItemCount:integer entries:LegacyEntry*
LegacyEntry id organizationName projectName attributes:Attribute* systemAttributes:SystemAttributes
Attribute name type floatProperties:floatProperties intProperties:intProperties boolProperties:boolProperties stringProperties:stringProperties datetimeProperties:datetimeProperties fileProperties:fileProperties fileSetProperties:fileSetProperties floatSeriesProperties:floatSeriesProperties stringSeriesProperties:stringSeriesProperties imageSeriesProperties:imageSeriesProperties stringSetProperties:stringSetProperties gitRefProperties:gitRefProperties experimentStateProperties:stringProperties notebookRefProperties:notebookRefProperties artifactProperties:artifactProperties
floatProperties attributeName attributeType value:number
intProperties attributeName attributeType value:integer
boolProperties attributeName attributeType value:boolean
stringProperties attributeName attributeType value
datetimeProperties attributeName attributeType value:date-time
fileProperties attributeName attributeType name ext size:integer
fileSetProperties attributeName attributeType size:integer
floatSeriesProperties attributeName attributeType last:number lastStep:number
stringSeriesProperties attributeName attributeType last lastStep:number
imageSeriesProperties attributeName attributeType lastStep:number
stringSetProperties attributeName attributeType values:string*
gitRefProperties attributeName attributeType commit:GitCommit
GitCommit commitId message authorName authorEmail commitDate:date-time
notebookRefProperties attributeName attributeType notebookName
artifactProperties attributeName attributeType hash
BatchResult errors:Error* updatedExperimentIdentifiers:string*
Checkpoint id
FloatValues totalItemCount:integer values:FloatValue*
FloatValue timestampMillis:integer step:number value:number
StringValues totalItemCount:integer values:StringValue*
StringValue timestampMillis:integer step:number value
ImageValues totalItemCount:integer values:StringValue*
UploadResult errors:Error*
UploadStarted uploadId errors:Error*
FileEntry name size:integer mtime:date-time fileType
Download id downloadUrl
Entries matchingItemCount:integer totalItemCount:integer entries:Entry*
Entry experimentId attributes:Attribute*
Columns entries:Column*
Column name type
Artifact artifactHash receivedMetadata:boolean size:integer
ArtifactFiles files:ArtifactFile*
ArtifactFile filePath fileHash type size:integer metadata:ArtifactMetadata*
ArtifactMetadata key value
Refused code:integer errorType title
"""  # noqa: E501 - a table
"""Models of answers, with the name and type of every field that the client reads."""
_INTEGERS: Final = frozenset({"limit", "offset", "index", "totalLength", "uploadPartIdx", "size"})
_SCALARS: Final = frozenset({"string", "integer", "number", "boolean"})


def _operations() -> dict[str, Operation]:
    found = {}
    for line in _TABLE.strip().splitlines():
        head, parameters, result = (part.strip() for part in line.split("|"))
        where, name, method, path = head.split()
        found[name] = Operation(name, where, method, path, parameters, result)
    return found


BY_NAME: Final = _operations()


@functools.cache
def document(name: str) -> bytes:
    """Return one of the `DOCUMENTS`, as JSON."""
    paths: dict[str, Any] = {}
    for each in BY_NAME.values():
        if each.document == name:
            paths.setdefault(each.path, {})[each.method.lower()] = _describe_operation(each)
    made = {
        "swagger": "2.0",
        "info": {"title": f"Seamark, {name}", "version": "1"},
        "produces": ["application/json"],
        "consumes": ["application/json"],
        "paths": paths,
        "definitions": _definitions(),
    }
    return json.dumps(made, separators=(",", ":")).encode()


def _describe_operation(operation: Operation) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "OK"}
    if operation.result:
        answer["schema"] = _schema(operation.result)
    # The server, its access checks or a proxy may refuse any operation: allow all statuses.
    refused = {"description": "Refused", "schema": _schema("Refused")}
    answers: dict[str, Any] = {"200": answer, "default": refused}
    if operation.name == "createProject":  # the client reads the body of this refusal
        answers["400"] = {"description": "Refused", "schema": _schema("NotMade")}
    return {
        "operationId": operation.name,
        "tags": ["api"],
        "parameters": [_describe_parameter(each) for each in operation.parameters.split()],
        "responses": answers,
    }


def _describe_parameter(text: str) -> dict[str, Any]:
    if text.startswith("@"):
        schema: dict[str, Any] = {}
        if text == "@experimentCreationParams":  # the client serializes its time only by a schema
            schema = {"$ref": "#/definitions/CreationParams"}
        return {"name": text[1:], "in": "body", "required": False, "schema": schema}
    if text.startswith("^"):
        return {"name": text[1:], "in": "header", "type": "string", "required": False}
    found: dict[str, Any] = {"name": text, "in": "query", "type": "string", "required": False}
    if text.endswith("[]"):
        items = {"type": "array", "items": {"type": "string"}, "collectionFormat": "multi"}
        return found | {"name": text[:-2]} | items
    if text in _INTEGERS:
        found["type"] = "integer"
    return found


def _schema(kind: str) -> dict[str, Any]:
    if kind.endswith("*"):
        return {"type": "array", "items": _schema(kind[:-1]), "x-nullable": True}
    if kind == "date-time":
        return {"type": "string", "format": "date-time", "x-nullable": True}
    if kind in _SCALARS:
        return {"type": kind, "x-nullable": True}
    return {"$ref": f"#/definitions/{kind}"}


def _definitions() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in _RESULTS.strip().splitlines():
        name, *members = line.split()
        parts = (member.partition(":") for member in members)
        shown = {key: _schema(kind or "string") for key, _, kind in parts}
        found[name] = {"type": "object", "x-nullable": True, "properties": shown}
    for name, given in _NESTED_FIELDS.items():
        found[name] = {"type": "object", "x-nullable": True, "properties": given}
    return found


_NESTED_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "CreationParams": {"gitInfo": {"$ref": "#/definitions/GitInfo"}},
    "GitInfo": {"commit": {"$ref": "#/definitions/GitCommit"}},
    "NotMade": {"validationErrors": {"type": "array", "items": {}}},
}
"""Nested fields of requests; all other fields are accepted as they are."""
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])
_SECRET_CLAIM: Final = "key"  # noqa: S105 - a name
_MAX_MESSAGE: Final = 2000
"""Maximum number of characters of a client's message that are recorded."""
_ERROR_TYPES: Final = {
    "no-run": "EXPERIMENT_NOT_FOUND",
    "quota": "PROJECT_LIMITS_EXCEEDED",
    "too-large": "PROJECT_LIMITS_EXCEEDED",
}
_FOR_MANAGEMENT: Final = frozenset({"no-access", "project-key-invalid", "visibility-restricted"})
"""Errors that the client's ``management`` knows by the status 422."""


class ContainerNotFound(Refusal):
    """The container does not exist, or the user may not see it."""

    def __init__(self, identifier: str) -> None:
        super().__init__(
            404, "no-run", f"{identifier[:200]!r} does not exist, or you may not see it"
        )


class _Route(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except ClientDisconnect:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, the client gets one form
                return error_response(error)

        return handle


class Routes(APIRouter):
    """Router for operations of the documents."""

    def __init__(self) -> None:
        super().__init__(route_class=_Route)

    def answers(self, name: str) -> Callable[[_Endpoint], _Endpoint]:
        """Return a decorator that registers a function for an operation.

        Args:
            name: Name of the operation, as in `seamark.neptune.server.answers`.
        """
        operation = BY_NAME[name]

        def add(endpoint: _Endpoint) -> _Endpoint:
            self.add_api_route(
                operation.path, endpoint, methods=[operation.method], include_in_schema=False
            )
            return endpoint

        return add


def answer(value: Any = None, status: int = 200) -> Response:
    """Return a JSON response. NaN is written as ``NaN``, which the client accepts."""
    body = b"" if value is None else json.dumps(value, separators=(",", ":")).encode()
    return Response(body, status, media_type="application/json")


def error_response(error: Exception) -> Response:
    """Return an error response in the client's format.

    The client retries for a minute after a 500. These errors are permanent, so the status is 400.
    The client reads 422 as an exceeded limit.
    """
    refusal = refusal_of(error)
    status, error_type = refusal.status_code, _ERROR_TYPES.get(refusal.error, "")
    if error_type == "PROJECT_LIMITS_EXCEEDED":
        status = 422
    elif status in (405, 414, 422, 431, 500) and refusal.error not in _FOR_MANAGEMENT:
        status = 400
    elif status == 410:  # noqa: PLR2004 - purged
        status, error_type = 404, "EXPERIMENT_NOT_FOUND"
    body = {
        **{name: shorten(more) for name, more in refusal.more.items()},
        "code": status,
        "errorType": error_type or refusal.error.upper().replace("-", "_"),
        "title": shorten(str(refusal.detail)),
    }
    headers = dict(refusal.headers or {})
    if status == 403:  # noqa: PLR2004 - the client drops the text of these, and logs the header
        headers["X-Server-Error"] = ascii(body["title"])[1:-1][:_MAX_MESSAGE]
    return JSONResponse(body, status, headers)


def shorten(value: Any) -> Any:
    """Return a shortened error message: it may contain arguments of any length."""
    if not isinstance(value, str):
        return value
    return value[:_MAX_MESSAGE].encode("utf-8", "replace").decode()


# ---------------------------------------------------------------------- authentication


def asker(request: Request) -> Identity:
    """Return the identity of the requester, by the Seamark token inside the client's token."""
    request.state.secret = secret = _secret_of(request)
    request.state.identity = found = identify(request, secret)
    return found


def identify(request: Request, secret: str) -> Identity:
    """Return the identity of a token, ignoring the token of the request itself."""
    headers = dict(request.headers)  # the first one of repeated headers
    headers.pop("authorization", None)
    if secret:
        headers["authorization"] = f"Bearer {secret}"
    return server_of(request).logins.identify(headers, address_of(request))


def _secret_of(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return secret_in_access_token(token.strip())
    return secret_in_api_token(request.headers.get("x-neptune-api-token", ""))


def secret_in_api_token(token: str) -> str:
    """Extract Seamark's token from a value of ``NEPTUNE_API_TOKEN``; return others unchanged."""
    try:
        found = json.loads(base64.b64decode(token + "=" * (-len(token) % 4)))
        return str(found["api_key"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return token


def access_token(secret: str, user: str, issuer: str, ends_s: int) -> str:
    """Wrap Seamark's token in the format that the client expects (a JWT).

    The client reads from it when to request the next one (`ends_s`, seconds since the Unix epoch)
    and from which address (`issuer`). It is as secret as Seamark's token inside, which alone is
    checked and determines the real expiry.
    """
    claims = {
        "exp": ends_s,
        "azp": "neptune-cli",
        "iss": issuer,
        "sub": user,
        _SECRET_CLAIM: secret,
    }
    parts = ({"alg": "none", "typ": "JWT"}, claims)
    return ".".join([*(_base64(json.dumps(part).encode()) for part in parts), _base64(b"seamark")])


def secret_in_access_token(token: str) -> str:
    """Extract Seamark's token from a token made by `access_token`; return others unchanged."""
    parts = token.split(".")
    try:
        return str(
            json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))[
                _SECRET_CLAIM
            ]
        )
    except (binascii.Error, ValueError, KeyError, TypeError, IndexError, RecursionError):
        return token


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
