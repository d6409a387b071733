"""Requests that are answered to those who may, for every operation of Neptune's routes."""

from __future__ import annotations

import base64
from typing import NamedTuple

from seamark.neptune.server.answers import BY_NAME
from seamark.neptune.server.reading import hash_of

ATTRIBUTES = {
    "getFloatAttribute": "v/float",
    "getIntAttribute": "v/int",
    "getBoolAttribute": "v/bool",
    "getStringAttribute": "v/string",
    "getDatetimeAttribute": "v/datetime",
    "getStringSetAttribute": "sys/tags",
    "getFileAttribute": "v/file",
    "downloadAttribute": "v/file",
    "getArtifactAttribute": "v/artifact",
    "getFloatSeriesAttribute": "v/floats",
    "getFloatSeriesValues": "v/floats",
    "getFloatSeriesValuesCSV": "v/floats",
    "getStringSeriesAttribute": "v/strings",
    "getStringSeriesValues": "v/strings",
    "getImageSeriesValues": "v/images",
    "getImageSeriesValue": "v/images",
    "lsFileSetAttribute": "v/files",
    "prepareForDownloadFileSetAttributeZip": "v/files",
    "fileAtomMultipartUploadPart": "v/large",
    "fileAtomMultipartUploadFinish": "v/large",
    "fileSetFileMultipartUploadPart": "v/members",
    "fileSetFileMultipartUploadFinish": "v/members",
    "fileSetFileUpload": "v/files",
    "uploadFileSetAttributeTar": "v/files",
}
PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n of some kind").decode()
FILE = {
    "filePath": "a",
    "fileHash": "0" * 64,
    "type": "Local",
    "size": 1,
    "metadata": [{"key": "location", "value": "file:///a"}],
}
TIME = {"timestampMilliseconds": 1000}


class Place(NamedTuple):
    project: str
    run: str
    upload: str
    member: str
    artifact: str
    model: str

    @property
    def workspace(self):
        return self.project.partition("/")[0]


SAME = {
    "userId": "lonely", "serviceAccountId": "spare", "subPath": "a.bin", "totalLength": 5,
    "uploadPartIdx": 0, "ext": "bin", "index": 0, "limit": 10, "offset": 0, "size": 1,
    "reset": "False", "path": "", "search": "", "type[]": "run", "alpha": "true",
    "deactivated": "false", "searchTerm": "", "sortBy[]": "sys/id", "sortDirection[]": "ascending",
    "sortFieldType[]": "string", "userRelation": "viewerOrHigher", "shortId[]": "SEC-1",
    "state[]": "running", "owner[]": "admin", "tags[]": "t", "tagsMode": "and",
    "minRunningTimeSeconds": 0,
}  # fmt: skip
QUERY = {
    **{name: (lambda *_, value=value: value) for name, value in SAME.items()},
    "projectIdentifier": lambda _, at: at.project,
    "organizationIdentifier": lambda _, at: at.workspace,
    "experimentId": lambda _, at: at.run,
    "experimentIdentifier": lambda _, at: at.run,
    "notebookId": lambda _, at: at.run,
    "attribute": lambda name, _: ATTRIBUTES.get(name, "v/new"),
    "uploadId": lambda name, at: at.upload if "Atom" in name else at.member,
    "hash": lambda _, at: at.artifact,
    "id": lambda _, at: at.run,
    "parentIdentifier": lambda _, at: at.project,
}
"""Values of parameters, by name: of an operation and a place."""
BODY = {
    "projectToCreate": lambda at: {
        "organizationId": at.workspace,
        "name": "made",
        "visibility": "priv",
        "projectKey": "MAD",
    },
    "newOrganizationInvitations": lambda at: {
        "newOrganizationInvitations": {
            "organizationIdentifier": at.workspace,
            "invitationsEntries": [
                {"invitee": "lonely", "invitationType": "user", "roleGrant": "member"}
            ],
        }
    },
    "member": lambda _: {"userId": "lonely", "role": "member"},
    "account": lambda _: {"serviceAccountId": "spare", "role": "member"},
    "experimentCreationParams": lambda at: {"projectIdentifier": at.project, "type": "run"},
    "operations": lambda _: [{"path": "v/more", "assignInt": {"value": 7}}],
    "experimentIdentifiers": lambda at: [at.run],
    "checkpoint": lambda _: {"name": "c"},
    "params": lambda _: {
        "query": {"query": '`sys/id`:string = "SEC-1"'},
        "pagination": {"limit": 10, "offset": 0},
        "sorting": {"sortBy": {"name": "sys/id"}, "dir": "ascending"},
        "attributeFilters": [{"path": "sys/id"}],
    },
    "artifactFilesDTO": lambda _: {"files": [FILE]},
}
"""Bodies by the name that the documents have for them."""


def good(name, at):
    """Return body and query of a request that is answered to those who may."""
    body = None
    query = {}
    for parameter in BY_NAME[name].parameters.split():
        if parameter.startswith("@"):
            body = BODY[parameter[1:]](at)
        elif not parameter.startswith("^"):
            query[parameter.removesuffix("[]")] = QUERY[parameter](name, at)
    if name.endswith("Part") or name in ("fileAtomUpload", "fileSetFileUpload"):
        body = b"abcde"
    if name == "uploadFileSetAttributeTar":
        body = b""
    return body, query


def call(client, name, at):
    body, query = good(name, at)
    headers = {"X-Range": "bytes=0-4/5"} if name.endswith("Part") else {}
    return client.call(name, body, headers, **query)


def make(admin, project):
    """Make a run that has something of all kinds, with two large files on their way."""
    artifact, run = hash_of([FILE]), admin.new_run(project)
    at = {"projectIdentifier": project}
    admin.ok("uploadArtifactFilesMetadata", {"files": [FILE]}, **at, hash=artifact)
    assert admin.do(run, *operations(artifact)) == []
    into = {"experimentIdentifier": run["id"]}
    admin.ok("fileAtomUpload", b"abc", **into, attribute="v/file", ext="txt")
    admin.ok("fileSetFileUpload", b"abc", **into, attribute="v/files", subPath="a")
    upload, member = (
        admin.ok(name, **into, attribute=path, subPath="a.bin", totalLength=5)["uploadId"]
        for name, path in [
            ("fileAtomMultipartUploadStart", "v/large"),
            ("fileSetFileMultipartUploadStart", "v/members"),
        ]
    )
    model = admin.new_model(project, f"M{run['shortId'].rpartition('-')[2]}")
    return Place(project, run["id"], upload, member, artifact, model["id"])


def operations(artifact):
    return [
        {"path": "v/float", "assignFloat": {"value": 0.5}},
        {"path": "v/int", "assignInt": {"value": 1}},
        {"path": "v/bool", "assignBool": {"value": True}},
        {"path": "v/string", "assignString": {"value": "x"}},
        {"path": "v/datetime", "assignDatetime": {"valueMilliseconds": 1000}},
        {"path": "v/floats", "logFloats": {"entries": [{"value": 1.0, "step": 1.0, **TIME}]}},
        {"path": "v/floats", "configFloatSeries": {"min": 0.0, "max": 2.0, "unit": "m"}},
        {"path": "v/strings", "logStrings": {"entries": [{"value": "x", **TIME}]}},
        {"path": "v/images", "logImages": {"entries": [{"value": {"data": PICTURE}, **TIME}]}},
        {"path": "v/artifact", "assignArtifact": {"hash": artifact}},
        {"path": "sys/tags", "insertStrings": {"values": ["t"]}},
    ]
