"""The three descriptions that the client downloads and calls operations by.

The client knows operations by name and learns where they are from these documents (Swagger 2.0), so
addresses are ours. One table has all of them; `seamark.neptune.server.answers.Routes` mounts each
at the address that is told here.
"""

from __future__ import annotations

import functools
import json
from typing import Any, Final, NamedTuple

__all__ = ["BY_NAME", "DOCUMENTS", "Operation", "document"]

DOCUMENTS: Final = ("backend", "leaderboard", "artifacts")


class Operation(NamedTuple):
    """Operation that the client can request.

    Attributes:
        name: Name that the client calls it by.
        document: Name of the document that describes it, one of `DOCUMENTS`.
        method: HTTP method.
        path: Path on the server.
        parameters: Names; ``name[]`` for several values, ``@name`` for the body, ``^name`` for a
            header, all others in the query.
        result: Name of the definition of its response; empty if the client reads none.
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
"""What is answered. All that the client touches needs a name of its own and types."""

_WHOLE: Final = frozenset({"limit", "offset", "index", "totalLength", "uploadPartIdx", "size"})
_PLAIN: Final = frozenset({"string", "integer", "number", "boolean"})


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
            paths.setdefault(each.path, {})[each.method.lower()] = _described(each)
    made = {
        "swagger": "2.0",
        "info": {"title": f"Seamark, {name}", "version": "1"},
        "produces": ["application/json"],
        "consumes": ["application/json"],
        "paths": paths,
        "definitions": _definitions(),
    }
    return json.dumps(made, separators=(",", ":")).encode()


def _described(operation: Operation) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "OK"}
    if operation.result:
        answer["schema"] = _schema(operation.result)
    # Any operation may be refused, by the server, its gate or a proxy: no status is unexpected.
    refused = {"description": "Refused", "schema": _schema("Refused")}
    answers: dict[str, Any] = {"200": answer, "default": refused}
    if operation.name == "createProject":  # the client looks into this refusal
        answers["400"] = {"description": "Refused", "schema": _schema("NotMade")}
    return {
        "operationId": operation.name,
        "tags": ["api"],
        "parameters": [_parameter(each) for each in operation.parameters.split()],
        "responses": answers,
    }


def _parameter(text: str) -> dict[str, Any]:
    if text.startswith("@"):
        schema: dict[str, Any] = {}
        if text == "@experimentCreationParams":  # has a time that the client writes only so
            schema = {"$ref": "#/definitions/CreationParams"}
        return {"name": text[1:], "in": "body", "required": False, "schema": schema}
    if text.startswith("^"):
        return {"name": text[1:], "in": "header", "type": "string", "required": False}
    found: dict[str, Any] = {"name": text, "in": "query", "type": "string", "required": False}
    if text.endswith("[]"):
        items = {"type": "array", "items": {"type": "string"}, "collectionFormat": "multi"}
        return found | {"name": text[:-2]} | items
    if text in _WHOLE:
        found["type"] = "integer"
    return found


def _schema(kind: str) -> dict[str, Any]:
    if kind.endswith("*"):
        return {"type": "array", "items": _schema(kind[:-1]), "x-nullable": True}
    if kind == "date-time":
        return {"type": "string", "format": "date-time", "x-nullable": True}
    if kind in _PLAIN:
        return {"type": kind, "x-nullable": True}
    return {"$ref": f"#/definitions/{kind}"}


def _definitions() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in _RESULTS.strip().splitlines():
        name, *members = line.split()
        parts = (member.partition(":") for member in members)
        shown = {key: _schema(kind or "string") for key, _, kind in parts}
        found[name] = {"type": "object", "x-nullable": True, "properties": shown}
    for name, given in _GIVEN.items():
        found[name] = {"type": "object", "x-nullable": True, "properties": given}
    return found


_GIVEN: Final[dict[str, dict[str, Any]]] = {
    "CreationParams": {"gitInfo": {"$ref": "#/definitions/GitInfo"}},
    "GitInfo": {"commit": {"$ref": "#/definitions/GitCommit"}},
    "NotMade": {"validationErrors": {"type": "array", "items": {}}},
}
"""What has parts without a name; all else that is in it passes as it is."""
