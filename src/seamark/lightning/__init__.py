"""Seamark for PyTorch Lightning, as ``lightning`` and as ``pytorch_lightning``, 1.9.5 and later."""

from __future__ import annotations

from seamark.lightning._logger import NeptuneLogger, SeamarkLogger

__all__ = ["NeptuneLogger", "SeamarkLogger"]
