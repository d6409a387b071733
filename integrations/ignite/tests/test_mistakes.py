"""Mistakes of a person: refused at the line that is wrong, exactly, and nothing is half done."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from ignite.engine import Engine, Events
from ignite.handlers import DiskSaver
from profiled import PROFILERS

from seamark.errors import ArgumentError, PathError
from seamark.ignite import (
    GradsHistHandler,
    GradsScalarHandler,
    OptimizerParamsHandler,
    OutputHandler,
    WeightsHistHandler,
    WeightsScalarHandler,
    setup_seamark_logging,
)

TAGS = [
    (5, TypeError, "tag: expected a string or None, got int: 5"),
    (b"x", TypeError, "tag: expected a string or None, got bytes: b'x'"),
    (["t"], TypeError, "tag: expected a string or None, got list: ['t']"),
    ("a//b", PathError, "tag: expected non-empty parts joined by '/', got an empty part in 'a//b'"),
    ("/a", PathError, "tag: expected non-empty parts joined by '/', got a leading slash in '/a'"),
    ("a/", PathError, "tag: expected non-empty parts joined by '/', got a trailing slash in 'a/'"),
    ("a\nb", PathError, r"tag: expected no control characters, got '\n' at position 1 in 'a\nb'"),
]


def count(*engines):
    return sum(len(found) for one in engines for found in one._event_handlers.values())


@pytest.fixture
def optimizer(net):
    return torch.optim.SGD(net.parameters(), 0.1)


@pytest.mark.parametrize(("tag", "error", "says"), TAGS)
def test_a_tag_is_a_namespace(net, optimizer, logger, engine, tag, error, says):
    """Values under any other would be lost one by one while training runs."""
    of_models = (WeightsScalarHandler, GradsScalarHandler, WeightsHistHandler, GradsHistHandler)
    makers = [
        lambda: OutputHandler(tag, metric_names="all"),
        lambda: OptimizerParamsHandler(optimizer, tag=tag),
        *(lambda kind=kind: kind(net, tag=tag) for kind in of_models),
        lambda: logger.attach_output_handler(engine, Events.COMPLETED, tag, metric_names="all"),
        lambda: logger.attach_opt_params_handler(engine, Events.COMPLETED, optimizer, tag=tag),
        lambda: logger.attach_checkpoint(engine, DiskSaver("saved"), Events.COMPLETED, tag),
    ]
    for make in makers:
        with pytest.raises(error, match=re.escape(says)):
            make()
    assert count(engine) == 0
    assert not Path(".seamark").exists()


def test_lists_of_names_are_no_strings(net, optimizer):
    """A string is a sequence of letters, and each would be a name or a prefix."""
    for given in ("alpha", 5, b"alpha"):
        with pytest.raises(TypeError, match="state_attributes should be a list of names, got"):
            OutputHandler("t", state_attributes=given)
        for kind in (WeightsScalarHandler, WeightsHistHandler, GradsHistHandler):
            with pytest.raises(TypeError, match="whitelist should be a list of prefixes or a func"):
                kind(net, whitelist=given)
    for name in ("", 5, None, "a//b"):
        with pytest.raises(PathError, match="path: expected"):
            OptimizerParamsHandler(optimizer, name)


@pytest.mark.parametrize("wrong", [None, 5, "trainer", Engine])
def test_handlers_are_attached_to_engines(logger, wrong):
    says = "should be ignite.engine.Engine, but given <class"
    for attach in (
        lambda: logger.attach(wrong, lambda *_: None, Events.STARTED),
        lambda: logger.attach_output_handler(wrong, Events.STARTED, "t", metric_names="all"),
        lambda: logger.attach_checkpoint(wrong, DiskSaver("saved"), Events.STARTED),
        lambda: setup_seamark_logging(wrong),
        *(lambda kind=kind: kind().attach(wrong) for kind in PROFILERS),
    ):
        with pytest.raises(TypeError, match=says):
            attach()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"optimizers": "wrong"}, TypeError),
        ({"evaluators": "wrong"}, TypeError),
        ({"optimizers": {"a": 5}}, TypeError),
        ({"evaluators": {"a": 5}}, TypeError),
        ({"optimizers": {"a//b": None}}, PathError),
        ({"trainer_metric_names": "loss"}, TypeError),
        ({"evaluator_metric_names": 5}, TypeError),
        ({"log_every_iters": 0}, ValueError),
        ({"log_every_iters": 1.5}, ValueError),
        ({"proyect": "x"}, TypeError),
    ],
)
def test_a_set_up_is_whole_or_nothing(engine, optimizer, given, error):
    """Also where the mistake is in the last of several."""
    evaluator = Engine(lambda *_: None)
    given = {"optimizers": optimizer, "evaluators": evaluator} | given
    if isinstance(given["optimizers"], dict) and "a//b" in given["optimizers"]:
        given["optimizers"]["a//b"] = optimizer
    with pytest.raises(error):
        setup_seamark_logging(engine, **given)
    assert count(engine, evaluator) == 0


def test_names_of_optimizers_may_be_numbers(engine, optimizer, read):
    logger = setup_seamark_logging(engine, {0: optimizer}, log_every_iters=1)
    engine.run(range(2))
    assert len(read(logger, "0/lr/group_0")) == 2
    logger.close()


def test_times_go_to_a_run_and_a_namespace(logger, engine, profiler):
    for namespace in (5, None, "a//b", "/a"):
        with pytest.raises(PathError):
            profiler.attach(engine, run=logger, namespace=namespace)
        with pytest.raises(PathError):
            profiler.to_run(logger, namespace)
    for wrong in (5, "profiling", object()):
        with pytest.raises(ArgumentError, match="run: expected a Run or a namespace of one"):
            profiler.attach(engine, run=wrong)
        with pytest.raises(ArgumentError, match="run: expected a Run or a namespace of one"):
            profiler.to_run(wrong)
    assert "run" not in vars(engine)
    assert profiler.stats() == []


def test_arguments_of_profilers(profiler):
    assert profiler.cuda == "off"
    with pytest.raises(ArgumentError, match="'off' or 'events'"):
        type(profiler)(cuda="sync")
    for layout in ("wide", "long"):
        for wrong in (None, 5):
            with pytest.raises(TypeError, match="PathLike"):
                profiler.write_results(wrong, layout=layout)
        with pytest.raises(OSError, match="nowhere"):
            profiler.write_results("nowhere/times.csv", layout=layout)
    with pytest.raises(ArgumentError, match="'wide' or 'long'"):
        profiler.write_results("", layout="tall")
