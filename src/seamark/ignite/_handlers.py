"""Handlers that record values of engines, optimizers and models, and the checkpoint saver.

Names, arguments and checks are those of Ignite's own handlers. Each call records one row, and reads
the numbers of a device in one transfer. User functions (transforms, reductions) may raise;
recording does not.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from seamark.errors import ArgumentError, ValueKindError
from seamark.ignite import _host
from seamark.ignite._host import checked_tag, dropping, series_target_of, target_of
from seamark.paths import check_path, check_writable, join_path
from seamark.process.interrupts import let_pass
from seamark.run.adapters import record_histograms, record_series
from seamark.run.run import Run
from seamark.values import parameters, to_float

Whitelist = list[str] | Callable[[str, torch.nn.Parameter], bool] | None


def global_step_from_engine(
    engine: Any, custom_event_name: Any = None, fallback_attr: str = "epoch"
) -> Callable[[Any, Any], Any]:
    """Return a ``global_step_transform`` that reads the step from another engine.

    Args:
        engine: The engine whose state is read, usually the trainer.
        custom_event_name: Event to count instead of the one to which the handler is attached.
        fallback_attr: Attribute of the engine's state to use for events that the state does not
            count.
    """

    def step_of(_engine: Any, event_name: Any) -> Any:
        event = event_name if custom_event_name is None else custom_event_name
        if event not in _host.engine.State.event_to_attr:
            return getattr(engine.state, fallback_attr)
        return engine.state.get_event_attrib_value(event)

    return step_of


def _own_step(engine: Any, event_name: Any) -> Any:
    return engine.state.get_event_attrib_value(event_name)


def _is_several(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes))


def _record_values(handler: Any, logger: Any, values: Any, step: Any, *names: str) -> None:
    """Record series below the handler's tag, followed by further names."""
    run, base = series_target_of(logger, type(handler).__name__)
    record_series(run, values, step, join_path(base, handler.tag or "", *names))


class OutputHandler(_host.base.BaseOutputHandler):  # type: ignore[misc] # of any release
    """Record an engine's metrics, its output and attributes of its state.

    Nested mappings, sequences and one-dimensional tensors are flattened with ``/``. Numbers,
    including NaN and infinities, become points of float series, and strings those of string series.
    Other values are omitted with one warning.

    Args:
        tag: Namespace such as ``"training"``; None or empty for none.
        metric_names: Names of metrics, or ``"all"``.
        output_transform: Function from ``engine.state.output`` to a mapping or a single value,
            which is named ``output``.
        global_step_transform: Function from (engine, event name) to the step, any real number. The
            default is the number of times that the event has fired, starting at 1.
        state_attributes: Names of attributes of ``engine.state``.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If there is nothing to record.
        PathError: If the tag is not a valid path; it is also a ValueError.
    """

    def __init__(
        self,
        tag: str | None = None,
        metric_names: str | list[str] | None = None,
        output_transform: Callable[[Any], Any] | None = None,
        global_step_transform: Callable[[Any, Any], Any] | None = None,
        state_attributes: list[str] | None = None,
    ) -> None:
        step = _own_step if global_step_transform is None else global_step_transform
        super().__init__(tag, metric_names, output_transform, step, state_attributes)
        checked_tag(tag, type(self).__name__)
        if state_attributes is not None and not _is_several(state_attributes):
            raise TypeError(
                f"state_attributes should be a list of names, got {state_attributes!r:.80}"
            )

    def __call__(self, engine: Any, logger: Any, event_name: Any) -> None:
        values = self._values(engine)
        step = self.global_step_transform(engine, event_name)
        try:
            to_float(step)
        except ValueKindError:
            raise TypeError(
                f"global_step must be int or another real number, got {type(step)}. "
                "Please check the output of global_step_transform."
            ) from None
        _record_values(self, logger, values, step)

    def _values(self, engine: Any) -> dict[Any, Any]:
        values: dict[Any, Any] = {}
        metrics = engine.state.metrics
        for name in metrics if self.metric_names == "all" else self.metric_names or ():
            if name in metrics:
                values[name] = metrics[name]
            else:
                known = f"in engine's state metrics: {list(metrics)}"
                warnings.warn(f"Provided metric name '{name}' is missing {known}", stacklevel=2)
        if self.output_transform is not None:
            output = self.output_transform(engine.state.output)
            values.update(output if isinstance(output, Mapping) else {"output": output})
        for name in self.state_attributes or ():
            values[name] = getattr(engine.state, name, None)
        return values


class OptimizerParamsHandler(_host.base.BaseOptimizerParamsHandler):  # type: ignore[misc] # of any release
    """Record a parameter of each group of an optimizer under ``<param_name>/group_<i>``.

    Args:
        optimizer: An optimizer, or an object with a sequence ``param_groups``.
        param_name: Name of the parameter in each group.
        tag: Namespace, such as ``"generator"``; None for none.

    Raises:
        TypeError: If the optimizer has no parameter groups.
        PathError: If the tag or the parameter name is not a valid path.
    """

    def __init__(self, optimizer: Any, param_name: str = "lr", tag: str | None = None) -> None:
        super().__init__(optimizer, param_name, tag)
        checked_tag(tag, type(self).__name__)
        check_path(param_name)

    def __call__(self, engine: Any, logger: Any, event_name: Any) -> None:
        groups = enumerate(self.optimizer.param_groups)
        values = {f"group_{index}": group[self.param_name] for index, group in groups}
        _record_values(self, logger, values, _own_step(engine, event_name), self.param_name)


class _Parameters(_host.base.BaseWeightsHandler):  # type: ignore[misc] # of any release
    _of: ClassVar[Literal["weights", "grads"]] = "weights"
    weights: Any

    def __init__(
        self, model: torch.nn.Module, tag: str | None = None, whitelist: Whitelist = None
    ) -> None:
        checked_tag(tag, type(self).__name__)
        if not (whitelist is None or callable(whitelist) or _is_several(whitelist)):
            raise TypeError(
                "Argument whitelist should be a list of prefixes or a function of name and "
                f"parameter, got {whitelist!r:.80}"
            )
        super().__init__(model, tag, whitelist)
        self.weights = tuple(self.weights)  # a view that cannot be pickled, in 0.4.13

    def _found(self) -> Iterator[tuple[str, Tensor]]:
        for name, parameter in self.weights:
            tensor = parameter.grad if self._of == "grads" else parameter
            if tensor is not None and not is_lazy(tensor):
                yield name.replace(".", "/"), tensor.detach()


def _as_numbers(tensor: Tensor) -> Tensor:
    # Return a tensor that has a norm: quantised weights are integers or bytes.
    if tensor.is_quantized:
        return tensor.dequantize()
    kind = tensor.dtype
    has_norm = kind.is_complex or (kind.is_floating_point and kind.itemsize > 1)
    return tensor if has_norm else tensor.float()


class WeightsScalarHandler(_host.base.BaseWeightsScalarHandler, _Parameters):  # type: ignore[misc] # of any release
    """Record one number for each parameter of a model under ``weights_<reduction>/<name>``.

    Frozen parameters are included.

    Args:
        model: The model.
        reduction: Function from a tensor to a number; ``torch.norm`` by default.
        tag: Namespace; None for none.
        whitelist: Prefixes of the names of the parameters to record, or a predicate of (name,
            parameter).

    Raises:
        TypeError: If the model is not a module, or the reduction does not return one number.
        PathError: If the tag is not a valid path.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        reduction: Callable[[Tensor], Any] = torch.norm,
        tag: str | None = None,
        whitelist: Whitelist = None,
    ) -> None:
        _host.base.BaseWeightsScalarHandler.__init__(self, model, reduction, tag, whitelist)

    def __call__(self, engine: Any, logger: Any, event_name: Any) -> None:
        name = getattr(self.reduction, "__name__", type(self.reduction).__name__)
        values = {path: self.reduction(_as_numbers(tensor)) for path, tensor in self._found()}
        step = _own_step(engine, event_name)
        _record_values(self, logger, values, step, f"{self._of}_{name}")


class GradsScalarHandler(WeightsScalarHandler):
    """Record one number for each gradient of a model under ``grads_<reduction>/<name>``.

    Parameters without a gradient are omitted. The arguments are those of `WeightsScalarHandler`.
    """

    _of = "grads"


class WeightsHistHandler(_Parameters):
    """Record a histogram of each parameter of a model under ``weights/<name>``.

    The arguments are those of `WeightsScalarHandler`, except ``reduction``.
    """

    def __call__(self, engine: Any, logger: Any, event_name: Any) -> None:
        run, base = series_target_of(logger, type(self).__name__)
        step = _own_step(engine, event_name)
        record_histograms(run, dict(self._found()), step, join_path(base, self.tag or "", self._of))


class GradsHistHandler(WeightsHistHandler):
    """Record a histogram of each gradient of a model under ``grads/<name>``.

    Parameters without a gradient are omitted. The arguments are those of `WeightsHistHandler`.
    """

    _of = "grads"


class SeamarkSaver(_host.checkpoint.BaseSaveHandler):  # type: ignore[misc] # of any release
    """Save checkpoints into the run, as the ``save_handler`` of an Ignite ``Checkpoint``.

    The bytes are stored in the run's folder, where `path` finds them. The run has a file under the
    checkpoint's name, with its metadata (``basename``, ``score_name``, ``priority``) below.

    Rank 0 saves. If the disk is full or fails, a warning is logged, the loss is counted, and the
    training continues without the checkpoint. An object that cannot be pickled raises.

    Args:
        logger: A ``SeamarkLogger``, or an object with a run as its ``experiment``.

    Raises:
        TypeError: If the logger is not one of these.

    Example:
        ::

            best = Checkpoint(
                {"model": model},
                SeamarkSaver(logger),
                n_saved=2,
                score_name="accuracy",
                global_step_transform=global_step_from_engine(trainer),
            )
            evaluator.add_event_handler(Events.COMPLETED, best)
            ...
            Checkpoint.load_objects({"model": model}, saver.path(best.last_checkpoint))
    """

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        target_of(logger, "SeamarkSaver")

    def path(self, filename: str) -> Path:
        """Return the path of a checkpoint, whether or not it exists.

        Args:
            filename: File name made by ``Checkpoint``, such as ``Checkpoint.last_checkpoint``.

        Raises:
            ArgumentError: If the name leads out of the folder.
            PathError: If it is not a valid attribute path.
        """
        run, base = target_of(self._logger, "SeamarkSaver")
        name = check_writable(join_path(base, str(filename)))
        if any(part in {".", ".."} for part in name.split("/")):
            raise ArgumentError(
                f"filename: expected a name inside the run's folder, got {filename!r}"
            )
        return run.folder.files_dir / "checkpoints" / name

    def __call__(
        self,
        checkpoint: Mapping[str, Any],
        filename: str,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Save a checkpoint, replacing an older one of the same name, its path in the run."""
        if (found := self._recorder()) is None or not found[0].session.begin():
            return
        run, base = found
        target = self.path(filename)
        try:
            _write(checkpoint, target)
        except (OSError, RuntimeError) as error:
            let_pass(error)
            if not _is_disk(error):
                raise
            run.session.drop(
                "checkpoints", warn=f"checkpoint {filename!r} could not be saved: {error}"
            )
            return
        with dropping(run, "checkpoints", f"checkpoint {filename!r} could not be recorded"):
            _record(run, join_path(base, str(filename)), target, metadata)

    def remove(self, filename: str) -> None:
        """Remove a checkpoint from the disk and from the run. Does not raise if it is missing."""
        if (found := self._recorder()) is None:
            return
        run, base = found
        target, at = self.path(filename), join_path(base, str(filename))
        with dropping(run, "checkpoints", f"checkpoint {filename!r} could not be removed"):
            target.unlink(missing_ok=True)
            run.session.record_op({"op": "delete", "paths": [at]})
            run.session.content.prune(at)

    def _recorder(self) -> tuple[Run, str] | None:
        if _host.idist.get_rank() != 0:
            return None
        run, base = target_of(self._logger, "SeamarkSaver")
        if run.get_state() == "stopped":
            run.session.drop("checkpoints", warn="a checkpoint came after the run was stopped")
        return (run, base) if run.session.recording else None


NeptuneSaver = SeamarkSaver
"""Alias of the class, named as in Ignite."""


def _write(checkpoint: Mapping[str, Any], target: Path) -> None:
    """Write a checkpoint atomically."""
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f".{secrets.token_hex(8)}")
    try:
        with new.open("xb") as file:
            torch.save(checkpoint, file)
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)


def _is_disk(error: BaseException | None) -> bool:
    """Return whether an error comes from the disk; PyTorch's archive hides the original one."""
    while error is not None:
        if isinstance(error, OSError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _record(run: Run, at: str, target: Path, metadata: Mapping[str, Any] | None) -> None:
    if run.checkpoints == "keep":
        run.session.content.keep(at, target)
    else:
        run.session.content.refer(at, target)
    if metadata:
        run.session.record_atoms(parameters(metadata, at))
