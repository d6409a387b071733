"""Adapter for PyTorch-Ignite 0.4.13 and later."""

from __future__ import annotations

from seamark.ignite._handlers import (
    GradsHistHandler,
    GradsScalarHandler,
    NeptuneSaver,
    OptimizerParamsHandler,
    OutputHandler,
    SeamarkSaver,
    WeightsHistHandler,
    WeightsScalarHandler,
    global_step_from_engine,
)
from seamark.ignite._logger import NeptuneLogger, SeamarkLogger, setup_seamark_logging
from seamark.ignite._profilers import BasicTimeProfiler, HandlersTimeProfiler

__all__ = [
    "BasicTimeProfiler",
    "GradsHistHandler",
    "GradsScalarHandler",
    "HandlersTimeProfiler",
    "NeptuneLogger",
    "NeptuneSaver",
    "OptimizerParamsHandler",
    "OutputHandler",
    "SeamarkLogger",
    "SeamarkSaver",
    "WeightsHistHandler",
    "WeightsScalarHandler",
    "global_step_from_engine",
    "setup_seamark_logging",
]
