"""Conversion of images to PNG and charts to HTML, with imported libraries and NumPy."""

from __future__ import annotations

import base64
import html
import io
import logging
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import ArgumentError, ValueKindError
from seamark.values._numbers import argument_error
from seamark.values.arrays import is_array, is_tensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_CHART_LIBRARIES: Final = frozenset({"pandas", "plotly", "bokeh", "altair"})
_PNG_MODES: Final = frozenset({"1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16"})
_CHANNELS: Final = (1, 3, 4)
_MAX_SAMPLE: Final = 255
_PNG_COLOUR_TYPES: Final = {1: 0, 3: 2, 4: 6}
"""Colour type of PNG by number of channels: grey, RGB, RGBA."""

log = logging.getLogger("seamark")

_logged_warnings: Final[list[str]] = []
"""Whether the warning about an image with values out of range was logged."""


def _libraries_of(value: Any) -> set[str]:
    return {base.__module__.partition(".")[0] for base in type(value).__mro__}


def _figure_of(value: Any) -> Any:
    if _libraries_of(value).isdisjoint({"matplotlib", "seaborn"}):
        return None
    if callable(getattr(value, "savefig", None)):
        return value
    figure = getattr(value, "figure", None)  # axes and artists
    return figure if callable(getattr(figure, "savefig", None)) else None


def is_image(value: Any) -> bool:
    """Return whether `image_of` supports the type of ``value``."""
    return is_array(type(value)) or "PIL" in _libraries_of(value) or _figure_of(value) is not None


def is_html(value: Any) -> bool:
    """Return whether `html_of` supports the type of ``value``.

    Objects of Seamark are not supported: appending a run to a series is a mistake.
    """
    libraries = _libraries_of(value)
    has_html = hasattr(type(value), "_repr_html_") and "seamark" not in libraries
    return bool(libraries & _CHART_LIBRARIES) or has_html


def is_drawing(value: Any) -> bool:
    """Return whether a value is a picture, a chart or a table.

    Arrays and tensors are values. An object with an HTML representation may be a hyperparameter.
    """
    libraries = _libraries_of(value)
    if libraries & {"pandas", "PIL"}:
        return not {"DataFrame", "Image"}.isdisjoint(base.__name__ for base in type(value).__mro__)
    return bool(libraries & _CHART_LIBRARIES) or _figure_of(value) is not None


def image_of(value: Any, *, autoscale: bool) -> bytes:
    """Return a PNG file; see `seamark.types.File.as_image`."""
    if is_array(type(value)):
        return _from_array(value, autoscale=autoscale)
    if "PIL" in _libraries_of(value):
        return _from_pil(value)
    if (figure := _figure_of(value)) is not None:
        target = io.BytesIO()
        figure.savefig(target, format="png", bbox_inches="tight")
        return target.getvalue()
    if hasattr(value, "__array__"):
        import numpy as np

        return _from_array(np.asarray(value), autoscale=autoscale)
    raise argument_error(
        value,
        "File.as_image",
        "a PIL image, a Matplotlib figure, a NumPy array or a tensor",
        ValueKindError,
    )


def _from_pil(image: Any) -> bytes:
    target = io.BytesIO()
    if image.mode not in _PNG_MODES:
        image = image.convert("RGB")
    image.save(target, format="PNG")
    return target.getvalue()


def _from_array(value: Any, *, autoscale: bool) -> bytes:
    import numpy as np

    if is_tensor(type(value)):
        value = value.detach().cpu()
        array = np.asarray((value.float() if value.is_floating_point() else value).numpy())
    else:
        array = np.asarray(value)
    pixels = _to_bytes(_to_channels_last(array), autoscale=autoscale)
    height, width, channels = pixels.shape
    return png(pixels.tobytes(), width, height, channels)


def png(pixels: bytes, width: int, height: int, channels: int) -> bytes:
    """Return a PNG of 8-bit samples, row by row from the top; 1, 3 (RGB) or 4 (RGBA) channels."""
    line = width * channels
    rows = b"".join(
        b"\0" + pixels[n * line : (n + 1) * line] for n in range(height)
    )  # 0: no filter
    head = struct.pack(">IIBBBBB", width, height, 8, _PNG_COLOUR_TYPES[channels], 0, 0, 0)
    parts = (_chunk(b"IHDR", head), _chunk(b"IDAT", zlib.compress(rows, 6)), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _to_channels_last(array: NDArray[Any]) -> NDArray[Any]:
    shape = array.shape
    if array.ndim == 2 and array.size:  # noqa: PLR2004 - see the message
        return array[:, :, None]
    if array.ndim == 3 and array.size:  # noqa: PLR2004
        if shape[2] in _CHANNELS:
            return array
        if shape[0] in _CHANNELS:
            return array.transpose(1, 2, 0)
    raise ArgumentError(
        "File.as_image: expected an array of shape (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), "
        f"got {tuple(shape)}"
    )


def _to_bytes(array: NDArray[Any], *, autoscale: bool) -> NDArray[np.uint8]:
    import numpy as np

    if array.dtype == np.uint8:
        return array
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * np.uint8(_MAX_SAMPLE)
    if array.dtype.kind not in "iuf":
        raise ValueKindError(
            f"File.as_image: expected an array of bools, ints or floats, got {array.dtype}"
        )
    lowest, highest = np.nanmin(array), np.nanmax(array)
    scale = autoscale and array.dtype.kind == "f" and lowest >= 0 and highest <= 1
    if not scale and (lowest < 0 or highest > _MAX_SAMPLE):
        wanted = "0 to 255, or 0 to 1 for floats" if autoscale else "0 to 255"
        msg = f"File.as_image: expected values of {wanted}, got {lowest:g} to {highest:g}"
        if not autoscale:
            raise ArgumentError(msg)
        _warn_of_range(msg)
        array, scale = _stretch(array), True
    if array.dtype.kind == "f":
        array = np.rint(np.nan_to_num(array, nan=0.0) * (_MAX_SAMPLE if scale else 1))
    return array.astype(np.uint8)


def _stretch(array: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    floats = array.astype(np.float64)
    finite = floats[np.isfinite(floats)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    floats = np.clip(np.nan_to_num(floats, nan=low, posinf=high, neginf=low), low, high)
    return (floats - low) / (high - low) if high > low else np.zeros_like(floats)


def _warn_of_range(message: str) -> None:
    if not _logged_warnings:
        _logged_warnings.append(message)
        log.warning(
            "seamark: %s: such images are scaled to their range of values; "
            "use File.as_image(np.clip(image, 0, 1)) to clip the values instead",
            message,
        )


def html_of(value: Any, include_plotlyjs: bool | str | None) -> str:  # noqa: FBT001
    """Return a chart or table as an HTML page; see `seamark.types.File.as_html`."""
    libraries = _libraries_of(value)
    if "plotly" in libraries:
        embedded = True if include_plotlyjs is None else include_plotlyjs
        return str(value.to_html(include_plotlyjs=embedded, full_html=True))
    if "bokeh" in libraries:
        from bokeh.embed import file_html  # type: ignore[import-not-found, unused-ignore]
        from bokeh.resources import INLINE  # type: ignore[import-not-found, unused-ignore]

        return str(file_html(value, INLINE, "chart"))
    if libraries & {"pandas", "altair"} and hasattr(value, "to_html"):
        return _wrap_page(str(value.to_html()))
    if (figure := _figure_of(value)) is not None:
        image = base64.b64encode(image_of(figure, autoscale=True)).decode()
        return _wrap_page(f'<img alt="figure" src="data:image/png;base64,{image}">')
    if hasattr(type(value), "_repr_html_"):
        return _wrap_page(str(value._repr_html_()))
    if "pandas" in libraries:  # a series, an index
        return _wrap_page(f"<pre>{html.escape(str(value))}</pre>")
    raise argument_error(
        value,
        "File.as_html",
        "a data frame, a Plotly, Bokeh, Altair or Matplotlib chart, or an object with _repr_html_",
        ValueKindError,
    )


def _wrap_page(body: str) -> str:
    if "<html" in body[:1000].lower():
        return body
    head = '<!doctype html><html><head><meta charset="utf-8"></head><body>'
    return f"{head}{body}</body></html>"
