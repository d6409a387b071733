"""Tracker for Hugging Face Accelerate, 1.15 and later."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

from seamark.errors import ArgumentError, MissingExtraError
from seamark.options.run_options import accept_options
from seamark.paths import join_path
from seamark.process.rank import current_rank
from seamark.run.adapters import check_run, guarded, new_run, record_series
from seamark.run.handler import Handler
from seamark.run.run import Run
from seamark.types import File
from seamark.values import encode_atom, parameters

__all__ = ["SeamarkTracker"]

try:
    _host: Any = importlib.import_module("accelerate.tracking")
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "accelerate":
        raise
    raise MissingExtraError(
        "accelerate is not installed: pip install 'seamark[accelerate]'"
    ) from None


@accept_options
class SeamarkTracker(_host.GeneralTracker):  # type: ignore[misc] # of any release
    """An Accelerate tracker that records into a Seamark run; only the main process records.

    ``Accelerator(log_with="seamark")`` creates one after this module is imported, with the project
    and ``init_kwargs["seamark"]`` of ``init_trackers``. A tracker created by hand takes them as
    arguments. The run starts in ``init_trackers``. A tracker passed to
    ``register_for_checkpointing`` continues its run as a new attempt if ``load_state`` is called
    earlier.

    Args:
        run: An existing ``Run`` or one of its namespaces; `finish` leaves it open.
        **options: Of the run.

    Raises:
        ArgumentError: If arguments are invalid or contradict each other.
        UnknownArgumentError: If an argument does not exist; the message names the nearest one.
        PathError: If the project is invalid.
        RunNotFoundError: If the run of ``with_id`` does not exist.
    """

    name = "seamark"
    requires_logging_directory = False

    def __init__(
        self, project: str | None = None, *, run: Run | Handler | None = None, **options: Any
    ) -> None:
        check_run(run, {"project": project, **options}, "SeamarkTracker")
        if options.get("ranks") == "all":
            raise ArgumentError(
                "SeamarkTracker(ranks=...): expected 'zero' (only one process logs), got 'all'"
            )
        self._is_own, self._base = run is None, run.path if isinstance(run, Handler) else ""
        self.tracker: Run | Handler = new_run(project=project, **options) if run is None else run
        super().__init__()  # Accelerate looks for `tracker`

    @property
    def _run(self) -> Run:
        assert isinstance(root := self.tracker.get_root_object(), Run)  # noqa: S101, RUF018
        return root

    @guarded
    def start(self) -> None:
        """Start the run, and record facts about the distribution under ``distributed/``."""
        state = _host.PartialState()
        facts = {"strategy": state.backend, "launcher": current_rank().launcher}
        facts |= {"world_size": state.num_processes, "accelerator": state.device.type}
        known = {f"distributed/{name}": encode_atom(fact) for name, fact in facts.items() if fact}
        self._run.session.record_facts(known)
        self._run.session.begin()

    @guarded
    def store_init_configuration(self, values: Any) -> None:
        """Record hyperparameters, possibly nested, under ``parameters/``."""
        self._run.session.record_atoms(parameters(values, join_path(self._base, "parameters")))

    @guarded
    def log(self, values: Mapping[str, Any], step: float | None = None) -> None:
        """Record numbers and texts at one step; None numbers the points automatically."""
        record_series(self._run, values, step, self._base)

    @guarded
    def log_images(self, values: Mapping[str, Any], step: float | None = None) -> None:
        """Record the images of each name: one, or several below ``<name>/0``, ``<name>/1``, ..."""
        for name, given in values.items():
            several = isinstance(given, (list, tuple)) or getattr(given, "ndim", 0) > 3  # noqa: PLR2004
            for at, image in enumerate(given if several else [given]):
                path = f"{name}/{at}" if several else name
                self.tracker[path].append(File.as_image(image), step=step)

    def finish(self) -> None:
        """Stop the run, unless it was given; an active exception fails it."""
        if self._is_own:
            self._run.__exit__(*sys.exc_info())

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the run for a checkpoint."""
        return self._run.checkpoint_state()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue the run of a checkpoint; see ``Run.resumed``."""
        found = self._run.resumed(state_dict, stay=not self._is_own)
        self.tracker = found if self._is_own else self.tracker

    def _lost(self, method: str, error: Exception) -> None:
        warn = f"{method}: {type(error).__name__}: {error}"
        self._run.session.drop(f"accelerate.{method}", warn=warn)


_host.register_tracker_class(SeamarkTracker)
