"""Neptune's names of exceptions, so that ``except neptune.exceptions...`` still works.

Seamark raises the classes of `seamark.errors`; equivalent ones are available here under Neptune's
names. The other names exist only so that code that mentions them can be imported and run; Seamark
never raises them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from seamark import errors

if TYPE_CHECKING:

    def __getattr__(name: str) -> type[errors.SeamarkError]:
        """Return the classes in `_NEVER_RAISED`, which type checkers cannot see."""


NeptuneException = errors.SeamarkError

FetchAttributeNotFoundException = errors.MissingFieldError
MissingFieldException = errors.MissingFieldError

MetadataInconsistency = errors.FamilyError
TypeDoesNotSupportAttributeException = errors.FamilyError

FileNotFound = errors.FileMissingError
FileSetNotFound = errors.FileMissingError
NeptuneLocalStorageAccessException = errors.FileMissingError

MetadataContainerNotFound = errors.RunNotFoundError
ModelNotFound = errors.RunNotFoundError
ModelVersionNotFound = errors.RunNotFoundError
RunNotFound = errors.RunNotFoundError

InactiveContainerException = errors.InactiveRunError
InactiveModelException = errors.InactiveRunError
InactiveModelVersionException = errors.InactiveRunError
InactiveProjectException = errors.InactiveRunError
InactiveRunException = errors.InactiveRunError

NeedExistingExperimentForReadOnlyMode = errors.RunNotNamedError
NeedExistingModelForReadOnlyMode = errors.RunNotNamedError
NeedExistingModelVersionForReadOnlyMode = errors.RunNotNamedError
NeedExistingRunForReadOnlyMode = errors.RunNotNamedError
NeptuneMissingRequiredInitParameter = errors.RunNotNamedError
NeptuneRunResumeAndCustomIdCollision = errors.TwoNamesError
NeptuneWrongInitParametersException = errors.ArgumentError
NeptuneUserApiInputException = errors.ArgumentError

NeptuneInvalidQueryException = errors.QueryError
NeptuneMissingRequirementException = errors.MissingExtraError
NeptuneProtectedPathException = errors.PathError
NeptuneCannotChangeStageManually = errors.StageError

NeptuneModelKeyAlreadyExistsError = errors.KeyTakenError
NeptuneObjectCreationConflict = errors.KeyTakenError

_NEVER_RAISED: Final = {
    "NeptuneException": (
        "ArtifactNotFoundException",
        "ArtifactUploadingError",
        "CannotResolveHostname",
        "CannotSynchronizeOfflineRunsWithoutProject",
        "ClientHttpError",
        "ContainerUUIDNotFound",
        "ExceptionWithProjectsWorkspacesListing",
        "FileSetUploadError",
        "FileUploadError",
        "InternalClientError",
        "MalformedOperation",
        "NeptuneApiException",
        "NeptuneClientUpgradeRequiredError",
        "NeptuneConnectionLostException",
        "NeptuneEmptyLocationException",
        "NeptuneFeatureNotAvailableException",
        "NeptuneFieldCountLimitExceedException",
        "NeptuneInvalidApiTokenException",
        "NeptuneLegacyIncompatibilityException",
        "NeptuneLegacyProjectException",
        "NeptuneLimitExceedException",
        "NeptuneMaxDiskUtilizationExceeded",
        "NeptuneMissingApiTokenException",
        "NeptuneOfflineModeException",
        "NeptuneParametersCollision",
        "NeptuneRemoteStorageAccessException",
        "NeptuneRemoteStorageCredentialsException",
        "NeptuneSSLVerificationError",
        "NeptuneStorageLimitException",
        "NeptuneSynchronizationAlreadyStoppedException",
        "NeptuneUnhandledArtifactSchemeException",
        "NeptuneUnhandledArtifactTypeException",
        "NeptuneUnsupportedArtifactFunctionalityException",
        "OperationNotSupported",
        "PlotlyIncompatibilityException",
        "RunUUIDNotFound",
        "StreamAlreadyUsedException",
    ),
    "ExceptionWithProjectsWorkspacesListing": (
        "AmbiguousProjectName",
        "NeptuneMissingProjectNameException",
        "ProjectNotFoundWithSuggestions",
    ),
    "MetadataContainerNotFound": ("ProjectNotFound",),
    "NeptuneApiException": ("Forbidden", "InternalServerError", "Unauthorized"),
    "NeptuneOfflineModeException": (
        "NeptuneOfflineModeChangeStageException",
        "NeptuneOfflineModeFetchException",
    ),
    "NeptuneWrongInitParametersException": ("NeptunePossibleLegacyUsageException",),
}
"""Exception names of Neptune that Seamark never raises, by the name of their base class."""


for _above, _names in _NEVER_RAISED.items():
    for _name in _names:
        _attributes = {
            "__module__": __name__,
            "__doc__": "Neptune exception that Seamark never raises.",
        }
        globals()[_name] = type(_name, (globals()[_above],), _attributes)

__all__ = sorted(  # noqa: PLE0605 - a list of the names above
    name for name, value in globals().items() if isinstance(value, type) and name[0] != "_"
)
