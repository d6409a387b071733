"""Adapter for PyTorch Lightning 1.9.5 and later, as ``lightning`` or ``pytorch_lightning``."""

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
