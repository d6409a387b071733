"""What a model looks like, as text: its modules, or the calls of one forward pass."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import nn

__all__ = ["describe_model"]


def describe_model(model: nn.Module, example: Any = None) -> str:
    """Return the structure of a model as text.

    Args:
        model: Any module.
        example: Input for one forward pass, as ``example_input_array`` gives it: a tensor, or a
            tuple or dict of arguments. Without it nothing is run.

    Returns:
        With an example one line for each innermost module in the order of calls, with the shapes
        that went in and out; else the tree of modules as PyTorch prints it.
    """
    if example is None or _is_distributed():
        return str(model)
    lines: list[str] = []
    modes = {module: module.training for module in model.modules()}
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if not list(module.children()):
                hook = module.register_forward_hook(_recorder(name, lines))
                stack.callback(hook.remove)
        stack.callback(_restore, modes)
        cuda: Any = torch.cuda
        devices = range(cuda.device_count() if cuda.is_initialized() else 0)
        stack.enter_context(torch.random.fork_rng(devices))
        stack.enter_context(torch.no_grad())
        model.eval()  # so that no batch statistics move
        _call(model, _to_device(example, model))
    return "\n".join(lines)


def _is_distributed() -> bool:
    # A forward pass of a sharded model on one rank alone would wait for the others for ever.
    distributed = sys.modules.get("torch.distributed")
    return bool(
        distributed
        and distributed.is_available()
        and distributed.is_initialized()
        and distributed.get_world_size() > 1
    )


def _recorder(name: str, lines: list[str]) -> Any:
    def record(module: nn.Module, inputs: Any, output: Any) -> None:
        lines.append(f"{name or '.'}: {module}  {_shape(inputs)} -> {_shape(output)}")

    return record


def _shape(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "x".join(map(str, value.shape)) or "scalar"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_shape(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_shape, value))
    return type(value).__name__


def _to_device(value: Any, model: nn.Module) -> Any:
    if isinstance(value, torch.Tensor):
        weight = next(model.parameters(), None)
        return value if weight is None else value.to(weight.device)
    if isinstance(value, dict):
        return {key: _to_device(item, model) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(_to_device(item, model) for item in value)
    return value


def _call(model: nn.Module, example: Any) -> None:
    if isinstance(example, tuple):
        model(*example)
    elif isinstance(example, dict):
        model(**example)
    else:
        model(example)


def _restore(modes: dict[nn.Module, bool]) -> None:
    for module, training in modes.items():
        module.training = training
