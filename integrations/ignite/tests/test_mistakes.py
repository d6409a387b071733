"""Mistakes of a person: refused at the line that is wrong, exactly, and nothing is half done."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from ignite.engine import Engine, Events
from ignite.handlers import DiskSaver

from seamark.errors import ArgumentError, PathError
from seamark.ignite import (
    BasicTimeProfiler,
    GradsHistHandler,
    GradsScalarHandler,
    HandlersTimeProfiler,
    OptimizerParamsHandler,
    OutputHandler,
    WeightsHistHandler,
    WeightsScalarHandler,
    setup_seamark_logging,
)

PROFILERS = [BasicTimeProfiler, HandlersTimeProfiler]
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
    makers = [
        lambda: OutputHandler(tag, metric_names="all"),
        lambda: OptimizerParamsHandler(optimizer, tag=tag),
        *(
            lambda kind=kind: kind(net, tag=tag)
            for kind in (
                WeightsScalarHandler,
                GradsScalarHandler,
                WeightsHistHandler,
                GradsHistHandler,
            )
        ),
        lambda: logger.attach_output_handler(engine, Events.COMPLETED, tag, metric_names="all"),
        lambda: logger.attach_opt_params_handler(engine, Events.COMPLETED, optimizer, tag=tag),
        lambda: logger.attach_checkpoint(engine, DiskSaver("saved"), Events.COMPLETED, tag),
    ]
    for make in makers:
        with pytest.raises(error, match=re.escape(says)):
            make()
    assert count(engine) == 0
    assert not Path(".seamark").exists()


@pytest.mark.parametrize("given", ["alpha", 5, b"alpha"])
def test_state_attributes_are_several(given):
    """A string is a sequence of letters, and would be looked for letter by letter."""
    with pytest.raises(TypeError, match="state_attributes should be a list of names, got"):
        OutputHandler("t", state_attributes=given)


@pytest.mark.parametrize("given", ["fc", 5, b"fc"])
@pytest.mark.parametrize("kind", [WeightsScalarHandler, WeightsHistHandler, GradsHistHandler])
def test_a_whitelist_is_a_list_or_a_function(net, kind, given):
    """Letters of a string would be prefixes."""
    with pytest.raises(TypeError, match="whitelist should be a list of prefixes or a function"):
        kind(net, whitelist=given)


@pytest.mark.parametrize("name", ["", 5, None, "a//b"])
def test_a_parameter_s_name_is_a_path(optimizer, name):
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
    """As Ignite has it."""
    logger = setup_seamark_logging(engine, {0: optimizer}, log_every_iters=1)
    engine.run(range(2))
    assert len(read(logger, "0/lr/group_0")) == 2
    logger.close()


@pytest.mark.parametrize("kind", PROFILERS)
@pytest.mark.parametrize("namespace", [5, None, "a//b", "/a"])
def test_times_go_to_a_namespace(logger, engine, kind, namespace):
    """Refused before the engine is touched."""
    profiler = kind()
    with pytest.raises(PathError):
        profiler.attach(engine, run=logger, namespace=namespace)
    with pytest.raises(PathError):
        profiler.to_run(logger, namespace)
    assert "run" not in vars(engine)
    assert profiler.stats() == []


@pytest.mark.parametrize("kind", PROFILERS)
@pytest.mark.parametrize("wrong", [5, "profiling", object()])
def test_times_go_to_a_run(engine, kind, wrong):
    profiler = kind()
    for give in (lambda: profiler.attach(engine, run=wrong), lambda: profiler.to_run(wrong)):
        with pytest.raises(ArgumentError, match="run: expected a Run or a namespace of one"):
            give()
    assert "run" not in vars(engine)


@pytest.mark.parametrize("kind", PROFILERS)
def test_files_are_what_they_should_be(kind):
    profiler = kind()
    for layout in ("wide", "long"):
        for wrong in (None, 5):
            with pytest.raises(TypeError, match="PathLike"):
                profiler.write_results(wrong, layout=layout)
        with pytest.raises(OSError, match="nowhere"):
            profiler.write_results("nowhere/times.csv", layout=layout)
    with pytest.raises(ArgumentError, match="'wide' or 'long'"):
        profiler.write_results("", layout="tall")
