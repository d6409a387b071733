"""Seamark for PyTorch Lightning, as ``lightning`` and as ``pytorch_lightning``, 1.9.5 and later."""

from __future__ import annotations

from seamark.lightning._callbacks import DeviceMemory, GradientNorms, LearningRates, StepTimes
from seamark.lightning._logger import NeptuneLogger, SeamarkLogger
from seamark.lightning._profiler import TimeProfiler
from seamark.lightning._resume import ResumeCallback

__all__ = [
    "DeviceMemory",
    "GradientNorms",
    "LearningRates",
    "NeptuneLogger",
    "ResumeCallback",
    "SeamarkLogger",
    "StepTimes",
    "TimeProfiler",
]
