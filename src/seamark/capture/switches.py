"""Switches for the captures of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from seamark.capture.output.limit import Limit
from seamark.capture.secrets import Secrets

if TYPE_CHECKING:
    from seamark.capture.code.executed import CodeVersion

__all__ = ["Switches", "is_switched_off"]


@dataclass(frozen=True, slots=True)
class Switches:
    """Switches for the captures of a run: whether each is on, and its settings.

    Attributes:
        git: Commit, branch, dirty state, remote and changes of the repository.
        script: The script or the notebook, its arguments, and the version of the code.
        version: Whether a version of the code is made; not where the user gave one.
        version_at_start: Returns the version that was recorded at the start, if there is one.
        script_file: Whether the script itself is stored; not where the user names the files.
        packages: Versions of Python and of installed packages.
        dependencies: ``"infer"``: keep these as a requirements file, too; or the path of one.
        host: Host name, pid, and where they are: hardware, system, container, cluster, torch.
        traceback: The traceback of the exception that ends the process.
        signals: Whether SIGTERM marks the run.
        stdout: Standard output; ``"fd"``: at the descriptor, subprocesses and C libraries included.
        stderr: Standard error; values as for ``stdout``.
        limit: Limit on the output recorded of each stream.
        hardware_metrics: Metrics of CPU, memory, disk, network and GPUs.
        git_ref: Repository: a path, an object with one (Neptune's ``GitRef``), or None for
            that of the script; False for none.
        monitoring_namespace: Path that stands in for ``monitoring/<writer>``.
        fail_on_exception: Whether an uncaught exception fails the run.
        secrets: Rules for hiding secrets in arguments, messages and tracebacks.
    """

    git: bool = True
    script: bool = True
    version: bool = True
    version_at_start: Callable[[], CodeVersion | None] = lambda: None
    script_file: bool = True
    packages: bool = True
    dependencies: str | None = None
    host: bool = True
    traceback: bool = True
    signals: bool = True
    stdout: bool | str = True
    stderr: bool | str = True
    limit: Limit = field(default_factory=Limit)
    hardware_metrics: bool = True
    git_ref: Any = None
    monitoring_namespace: str | None = None
    fail_on_exception: bool = True
    secrets: Secrets = field(default_factory=Secrets)

    @property
    def finds_code(self) -> bool:
        """Whether anything is wanted of the code that is executed."""
        return self.git or self.script or self.packages or self.dependencies is not None


def is_switched_off(git_ref: Any) -> bool:
    """Return whether git is not to be asked: False, or Neptune's ``GitRef.DISABLED``."""
    return git_ref is False or "disabled" in type(git_ref).__name__.lower()
