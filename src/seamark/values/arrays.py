"""Types of arrays of numbers, and recognition of values of optional libraries.

At run time the types are classes that do not need NumPy. No library is imported.

All functions use ``type(value)`` instead of ``value.__class__``, which can be a property with side
effects, and raises for a dead weak reference.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Sized
from typing import TYPE_CHECKING, Any, Final

from seamark.process.interrupts import quietly

if TYPE_CHECKING:
    import numpy as np

    Bools = np.ndarray[Any, np.dtype[np.bool_]]
    Floats = np.ndarray[Any, np.dtype[np.float64]]
    Ints = np.ndarray[Any, np.dtype[np.int64]]
else:

    class _ArrayType(type):
        dtype: str

        def __instancecheck__(cls, value: object) -> bool:
            return getattr(getattr(value, "dtype", None), "name", "") == cls.dtype

    Bools = _ArrayType("Bools", (), {"dtype": "bool"})
    Floats = _ArrayType("Floats", (), {"dtype": "float64"})
    Ints = _ArrayType("Ints", (), {"dtype": "int64"})


def check_lengths(*columns: Sized) -> None:
    """Check that columns have equal lengths; raise ValueError otherwise."""
    if len(lengths := set(map(len, columns))) > 1:
        raise ValueError(f"expected columns of equal length, got lengths {sorted(lengths)}")


_NODE: Final = re.compile(r"\$\{([\w-][\w.\-\[\]]*)\}")
_MAX_HOPS: Final = 32


def _derives(kind: type, module: str, *names: str) -> bool:
    loaded = sys.modules.get(module)
    if loaded is None:
        return False
    known = (getattr(loaded, name, None) for name in names)
    return any(isinstance(each, type) and issubclass(kind, each) for each in known)


# Cached, since it is called for each value at each step. Base classes are loaded before a type.
_is_kind: Final[Callable[..., bool]] = functools.lru_cache(maxsize=1024)(_derives)


def is_tensor(kind: type) -> bool:
    """Return whether a class is or derives from torch's tensor class."""
    return _is_kind(kind, "torch", "Tensor")


def is_array(kind: type) -> bool:
    """Return whether a class is or derives from NumPy's array class or torch's tensor class."""
    return _is_kind(kind, "numpy", "ndarray") or is_tensor(kind)


def is_numpy_scalar(kind: type) -> bool:
    """Return whether a type is that of NumPy scalars such as ``numpy.float32(1)``."""
    return _is_kind(kind, "numpy", "generic")


def is_omegaconf(kind: type) -> bool:
    """Return whether a class is a container class of OmegaConf."""
    return _is_kind(kind, "omegaconf", "DictConfig", "ListConfig")


def numpy_scalar(value: Any) -> Any:
    """Convert a NumPy scalar to the nearest Python value.

    Times become aware datetimes (NumPy times have no zone and mean UTC), "not a time" becomes None.
    Other values (complex numbers, records, bytes) are the result of their ``item`` method.
    """
    from datetime import datetime, timezone

    kind = value.dtype.kind
    if kind == "M":
        moment = value.astype("datetime64[us]").item()
        return moment.replace(tzinfo=timezone.utc) if isinstance(moment, datetime) else moment
    if kind == "m":
        return None if str(value) == "NaT" else str(value)
    if kind == "f":
        return float(value)
    return value.item()


def array_values(value: Any) -> Any:
    """Convert an array or tensor, dense or sparse, to nested lists or a Python scalar."""
    if is_tensor(type(value)):
        value = value.detach()
        if getattr(value, "is_sparse", False):
            value = value.to_dense()
        return value.cpu().tolist()
    if value.dtype.kind in "Mm":
        flat = [numpy_scalar(each) for each in value.reshape(-1)]
        return flat[0] if value.ndim == 0 else flat
    return value.tolist()


def summary(value: Any) -> dict[str, Any]:
    """Describe a large array or tensor: type, shape, dtype, device, and extremes if available."""
    kind = type(value)
    found: dict[str, Any] = {
        "type": f"{kind.__module__}.{kind.__qualname__}",
        "shape": [int(size) for size in value.shape],
        "dtype": str(value.dtype).removeprefix("torch."),
    }
    if is_tensor(kind):
        found["device"] = str(value.device)
        value = value.detach()
    with quietly():  # not numeric, or inaccessible
        wide = value.double() if is_tensor(kind) else value.astype("float64", casting="same_kind")
        found |= {name: float(getattr(wide, name)()) for name in ("min", "max", "mean")}
    return found


def plain_omegaconf(config: Any) -> Any:
    """Convert an OmegaConf configuration to dictionaries and lists without calling resolvers.

    References to other nodes (``${model.lr}``) are resolved. Resolver calls (``${oc.env:TOKEN}``)
    are kept as written, because their results may be secrets.
    """
    omegaconf = sys.modules["omegaconf"].OmegaConf
    raw = omegaconf.to_container(config, resolve=False, throw_on_missing=False)
    root = config._get_root()  # noqa: SLF001 - nothing public gives what a part refers to
    whole = raw if root is config else omegaconf.to_container(root, resolve=False)
    return _follow(raw, whole, 0)


def _follow(node: Any, whole: Any, hops: int) -> Any:
    if isinstance(node, dict):
        return {key: _follow(each, whole, hops) for key, each in node.items()}
    if isinstance(node, list):
        return [_follow(each, whole, hops) for each in node]
    if not isinstance(node, str) or "${" not in node or hops >= _MAX_HOPS:
        return node
    if found := _NODE.fullmatch(node):
        target = _select(whole, found[1])
        return node if target is None else _follow(target, whole, hops + 1)
    return _NODE.sub(lambda match: _inline(match, whole, hops), node)


def _inline(match: re.Match[str], whole: Any, hops: int) -> str:
    target = _select(whole, match[1])
    if target is None or isinstance(target, (dict, list)):
        return match[0]
    return str(_follow(target, whole, hops + 1))


def _select(whole: Any, path: str) -> Any:
    for part in path.replace("[", ".").replace("]", "").split("."):
        if isinstance(whole, list) and part.isdigit() and int(part) < len(whole):
            whole = whole[int(part)]
        elif isinstance(whole, dict) and part in whole:
            whole = whole[part]
        else:
            return None
    return whole
