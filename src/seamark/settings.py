"""The arguments of a run, checked."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Mapping
from typing import Any, Final

from seamark.container import strings
from seamark.errors import ArgumentError, UnknownArgumentError
from seamark.paths import check_project
from seamark.values import parameters

__all__ = ["RunSettings", "check_arguments", "one_of"]

log = logging.getLogger("seamark")

MODES: Final = ("online", "async", "sync", "offline", "read-only", "disabled", "debug")
DEFAULT_PROJECT: Final = "default"
WITHOUT_MEANING: Final = frozenset(
    {
        "async_lag_callback",
        "async_lag_threshold",
        "async_no_progress_callback",
        "async_no_progress_threshold",
        "dependencies",
        "enable_remote_signals",
        "flush_period",
        "proxies",
    }
)
"""Arguments of ``neptune.init_run`` that are accepted and do nothing here."""


def check_arguments(others: Mapping[str, Any]) -> None:
    """Accept Neptune's arguments without meaning; refuse what ``init_run`` does not know.

    Raises:
        UnknownArgumentError: Naming the nearest argument that exists.
    """
    from seamark.run import init_run

    known = {"project", *(init_run.__kwdefaults__ or ()), *WITHOUT_MEANING}
    for key in others:
        if key in WITHOUT_MEANING:
            log.debug("seamark: init_run(%s=...) has no meaning here and is ignored", key)
            continue
        near = difflib.get_close_matches(key, known, 1, 0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        msg = f"init_run() got an unknown argument {key!r}{hint}"
        raise UnknownArgumentError(msg)


class RunSettings:
    """The arguments of a run, checked. Pickles without the token."""

    def __init__(self, **given: Any) -> None:
        one_of("mode", given.get("mode"), MODES, none=True)
        one_of("ranks", given.get("ranks", "zero"), ("zero", "all"))
        one_of("resume", given.get("resume", "auto"), ("auto", "never", "must"))
        one_of("checkpoints", given.get("checkpoints"), ("reference", "keep"), none=True)
        for key in (
            "name",
            "description",
            "with_id",
            "custom_run_id",
            "api_token",
            "monitoring_namespace",
        ):
            if given.get(key) is not None and not isinstance(given[key], str):
                msg = f"{key}: expected a string or None, got {type(given[key]).__name__}"
                raise ArgumentError(msg)
        for key, value in given.items():
            switch = key.startswith("capture_") or key in ("fail_on_exception", "owner")
            if switch and value is not None and not isinstance(value, bool):
                msg = f"{key}: expected True, False or None, got {value!r:.80}"
                raise ArgumentError(msg)
        env = os.environ.get
        self.project = check_project(
            given.get("project")
            or env("SEAMARK_PROJECT")
            or env("NEPTUNE_PROJECT")
            or DEFAULT_PROJECT
        )
        stated = given.get("mode") or env("SEAMARK_MODE") or env("NEPTUNE_MODE") or "online"
        one_of("mode (from the environment)", stated, MODES)
        self.mode: str = stated
        self.with_id: str | None = given.get("with_id")
        self.custom_run_id: str | None = given.get("custom_run_id")
        if self.with_id and self.custom_run_id:
            msg = "with_id and custom_run_id: expected one of them, got both"
            raise ArgumentError(msg)
        if not self.with_id and not self.custom_run_id:
            self.custom_run_id = (
                env("SEAMARK_CUSTOM_RUN_ID") or env("NEPTUNE_CUSTOM_RUN_ID") or None
            )
        if self.mode == "read-only" and not (self.with_id or self.custom_run_id):
            msg = (
                "mode='read-only': expected with_id (or custom_run_id) of an existing run, got none"
            )
            raise ArgumentError(msg)
        self.name: str | None = given.get("name")
        self.description: str | None = given.get("description")
        self.tags = strings(given["tags"], "tags") if given.get("tags") else []
        # Encoded at once, so that it does not matter what becomes of them, and whether they pickle.
        self.params = (
            {} if given.get("params") is None else parameters(given["params"], "parameters")
        )
        self.owner: bool = given.get("owner", True)
        self.ranks: str = given.get("ranks", "zero")
        self.resume: str = given.get("resume", "auto")
        self.checkpoints: str = given.get("checkpoints") or "reference"
        self.api_token: str | None = given.get("api_token")
        self.root = given.get("root")
        self.git_ref = given.get("git_ref")
        sources: Any = given.get("source_files")
        one = sources is None or isinstance(sources, (str, os.PathLike))
        self.source_files = sources if one else list(sources)
        self.monitoring_namespace: str | None = given.get("monitoring_namespace")
        self.switches = {
            key: given.get(f"capture_{key}") is not False
            for key in ("git", "script", "packages", "host", "traceback", "signals")
        }
        if given.get("git_ref") is False:
            self.switches["git"] = False
        self.fail_on_exception = given.get("fail_on_exception") is not False

    def __getstate__(self) -> dict[str, Any]:
        """Leave the token out."""
        return {**self.__dict__, "api_token": None}


def one_of(what: str, given: object, allowed: tuple[str, ...], *, none: bool = False) -> None:
    """Check an argument against its legal values.

    Raises:
        ArgumentError: Naming them.
    """
    if (given is None and none) or given in allowed:
        return
    near = difflib.get_close_matches(str(given), allowed, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    msg = f"{what}: expected one of {', '.join(map(repr, allowed))}, got {given!r}{hint}"
    raise ArgumentError(msg)
