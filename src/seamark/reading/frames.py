"""The package pandas, where it is installed."""

from __future__ import annotations

from typing import Any

from seamark.errors import MissingExtraError

__all__ = ["pandas"]


def pandas() -> Any:
    """Return the package pandas.

    Raises:
        MissingExtraError: If it is not installed; the message names the extra.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        msg = 'to_pandas() needs pandas; install it with: pip install "seamark[pandas]"'
        raise MissingExtraError(msg, name="pandas") from error
    return pd
