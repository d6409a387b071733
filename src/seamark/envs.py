"""Environment variables of Neptune's module ``envs`` that apply here."""

from __future__ import annotations

from typing import Final

__all__ = [
    "API_TOKEN_ENV_NAME",
    "CONNECTION_MODE",
    "CUSTOM_RUN_ID_ENV_NAME",
    "PROJECT_ENV_NAME",
]

API_TOKEN_ENV_NAME: Final = "SEAMARK_API_TOKEN"  # noqa: S105 - its name
CONNECTION_MODE: Final = "SEAMARK_MODE"
CUSTOM_RUN_ID_ENV_NAME: Final = "SEAMARK_CUSTOM_RUN_ID"
PROJECT_ENV_NAME: Final = "SEAMARK_PROJECT"
