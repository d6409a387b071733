"""What each handler records, at which step and under which path."""

from __future__ import annotations

import math
import os
import pickle
from collections import namedtuple
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from ignite.engine import Engine, Events

import seamark
from seamark.ignite import (
    GradsHistHandler,
    GradsScalarHandler,
    NeptuneLogger,
    OptimizerParamsHandler,
    OutputHandler,
    SeamarkLogger,
    WeightsHistHandler,
    WeightsScalarHandler,
    global_step_from_engine,
    setup_seamark_logging,
)


def handlers(net):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    return [
        OutputHandler("training", metric_names="all"),
        OptimizerParamsHandler(optimizer),
        WeightsScalarHandler(net),
        WeightsHistHandler(net),
        GradsScalarHandler(net),
        GradsHistHandler(net),
    ]


def test_handlers_go_by_pickle_and_refuse_other_loggers(net, engine):
    """The message names the handler and what it works with."""
    for handler in handlers(net):
        name = type(handler).__name__
        assert type(pickle.loads(pickle.dumps(handler))) is type(handler)
        for wrong in (object(), None, "logger", {"experiment": 1}):
            with pytest.raises(TypeError, match=f"Handler {name} works only with Seam"):
                handler(engine, wrong, Events.ITERATION_STARTED)


@pytest.mark.parametrize(
    ("kind", "given", "error", "says"),
    [
        (OutputHandler, {"metric_names": "loss"}, TypeError,
         "metric_names should be either a list or equal 'all'"),
        (OutputHandler, {"output_transform": 1}, TypeError, "output_transform should be a funct"),
        (OutputHandler, {"metric_names": ["a"], "global_step_transform": 1}, TypeError,
         "global_step_transform"),
        (OutputHandler, {}, ValueError, "Either metric_names, output_transform or state_attrib"),
        (OptimizerParamsHandler, {}, TypeError, "Argument optimizer should be"),
        (WeightsScalarHandler, {}, TypeError, r"torch\.nn\.Module"),
        (WeightsScalarHandler, {"reduction": 1}, TypeError, "reduction should be callable"),
        (GradsScalarHandler, {"reduction": lambda tensor: tensor}, TypeError,
         "reduction function should be a scalar"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_with_the_messages_of_ignite(net, kind, given, error, says):
    first = {OutputHandler: "training"}.get(kind, net if given else {})
    with pytest.raises(error, match=says):
        kind(first, **given)


@pytest.mark.parametrize("step", ["five", None, [1], 1j, torch.ones(2)])
def test_step_that_is_no_real_number_is_refused(logger, engine, step):
    handler = OutputHandler("t", metric_names="all", global_step_transform=lambda *_: step)
    with pytest.raises(TypeError, match="global_step must be int"):
        handler(engine, logger, Events.EPOCH_STARTED)


def test_step_may_be_any_real_number(logger, engine, read):
    """It is kept as given; a row at a step that is not finite is left out."""
    steps = [0, -3, 2.5, 1e300, np.int64(7), np.float32(0.5), torch.tensor(4), Fraction(1, 4),
             Decimal("1.5")]  # fmt: skip
    engine.state.metrics = {"a": 1.0, "s": "text"}
    given = iter([math.nan, math.inf, *steps])
    handler = OutputHandler("t", metric_names="all", global_step_transform=lambda *_: next(given))
    for _ in range(2 + len(steps)):
        handler(engine, logger, Events.EPOCH_STARTED)
    assert read(logger, "t/a") == [(step, 1.0) for step in sorted(map(float, steps))]
    assert sorted(read(logger, "t/s")) == [(step, "text") for step in sorted(map(float, steps))]


def test_output_of_every_shape(logger, engine, read):
    """Nested containers and vectors are taken apart; NaN and infinities stay; texts are texts."""
    point = namedtuple("point", "x y")  # noqa: PYI024
    engine.state.metrics = {
        "float": 0.5,
        "nan": math.nan,
        "inf": -math.inf,
        "int": 2,
        "bool": True,
        "tensor": torch.tensor(1.5),
        "one": torch.tensor([[2.5]]),
        "vector": torch.arange(3, dtype=torch.int64),
        "array": np.array([0.25, np.nan]),
        "scalar": np.array(3.0),
        "numpy": np.float32(0.5),
        "text": "warm-up",
        "list": [1, [2, "three"]],
        "point": point(4, 5),
        "map": {"a": {"b": torch.tensor([6.0])}},
        7: 8,
    }
    engine.run([0])
    engine.state.metrics = {"float": 1.0} | engine.state.metrics
    OutputHandler("t", metric_names="all")(engine, logger, Events.ITERATION_COMPLETED)
    numbers = {
        "float": 0.5, "int": 2, "bool": 1, "tensor": 1.5, "one": 2.5, "vector/0": 0, "vector/1": 1,
        "vector/2": 2, "array/0": 0.25, "scalar": 3, "numpy": 0.5, "list/0": 1, "list/1/0": 2,
        "point/0": 4, "point/1": 5, "map/a/b/0": 6, "inf": -math.inf, "7": 8,
    }  # fmt: skip
    for name, value in numbers.items():
        assert read(logger, f"t/{name}") == [(1, value)], name
    for name in ("nan", "array/1"):
        ((step, value),) = read(logger, f"t/{name}")
        assert step == 1
        assert math.isnan(value)
    assert read(logger, "t/text") == [(1, "warm-up")]
    assert read(logger, "t/list/1/1") == [(1, "three")]


def test_values_of_no_series_are_left_out_with_one_warning_each(logger, engine, read, caplog):
    """The other values of the row are recorded."""
    holds_itself = {}
    holds_itself["again"] = holds_itself
    engine.state.metrics = {
        "a": 1.0, "none": None, "matrix": torch.ones(2, 2), "object": object(), "complex": 1j,
        "self": holds_itself, "b//c": 1.0,
    }  # fmt: skip
    logger.attach_output_handler(engine, Events.ITERATION_COMPLETED, tag="t", metric_names="all")
    engine.run(range(4))
    assert len(read(logger, "t/a")) == 4
    assert set(read.paths(logger, "t")) == {"t/a"}
    assert len([one for one in caplog.messages if "left out" in one]) == 6


@pytest.mark.parametrize("tag", [None, ""])
def test_no_tag_is_no_prefix(logger, engine, read, net, tag):
    """Neptune's handlers wrote to a namespace called ``None``."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    engine.run([0])
    engine.state.metrics = {"a": 1.0}
    OutputHandler(tag, metric_names=["a"])(engine, logger, Events.ITERATION_COMPLETED)
    OptimizerParamsHandler(optimizer, tag=tag)(engine, logger, Events.ITERATION_COMPLETED)
    WeightsScalarHandler(net, tag=tag)(engine, logger, Events.ITERATION_COMPLETED)
    WeightsHistHandler(net, tag=tag)(engine, logger, Events.ITERATION_COMPLETED)
    found = read.paths(logger)
    assert {"a", "lr/group_0", "weights_norm/0/weight", "weights/0/weight"} <= set(found)


def test_output_transform_and_state_attributes(logger, engine, read):
    """A value that is no mapping is called ``output``; an attribute that is missing is left out."""
    engine.add_event_handler(Events.ITERATION_STARTED, lambda: setattr(engine.state, "alpha", 0.5))
    logger.attach_output_handler(
        engine, Events.ITERATION_COMPLETED, "a", output_transform=lambda output: output * 2,
        state_attributes=["alpha", "missing"],
    )  # fmt: skip
    logger.attach_output_handler(
        engine, Events.EPOCH_COMPLETED, "b", output_transform=lambda output: {"loss": output}
    )
    engine.run(range(2), max_epochs=2)
    assert read(logger, "a/output") == [(1, 2), (2, 4), (3, 6), (4, 8)]
    assert read(logger, "a/alpha") == [(step, 0.5) for step in (1, 2, 3, 4)]
    assert read(logger, "b/loss") == [(1, 2), (2, 4)]
    assert "a/missing" not in read.paths(logger)


def test_missing_metric_is_warned_about_in_the_words_of_ignite(logger, engine, read):
    engine.run([0])
    engine.state.metrics = {"a": 1.0}
    handler = OutputHandler("t", metric_names=["a", "gone"])
    with pytest.warns(UserWarning, match="Provided metric name 'gone' is missing"):
        handler(engine, logger, Events.ITERATION_COMPLETED)
    assert read(logger, "t/a") == [(1, 1.0)]


def test_error_in_a_function_of_the_user_reaches_the_user(logger, engine):
    logger.attach_output_handler(
        engine, Events.ITERATION_COMPLETED, "t", output_transform=lambda output: output["loss"]
    )
    with pytest.raises(TypeError, match="not subscriptable"):
        engine.run([0])


def test_optimizer_parameters(logger, engine, read):
    """Of every group; tuples are taken apart, tensors are numbers."""
    groups = [
        {"params": [torch.nn.Parameter(torch.zeros(1))], "lr": 0.1},
        {"params": [torch.nn.Parameter(torch.zeros(1))], "lr": torch.tensor(0.25)},
    ]
    optimizer = torch.optim.Adam(groups)
    logger.attach_opt_params_handler(engine, Events.ITERATION_STARTED, optimizer, tag="gen")
    logger.attach_opt_params_handler(
        engine, Events.ITERATION_STARTED(every=2), optimizer=optimizer, param_name="betas"
    )
    engine.run(range(2))
    assert read(logger, "gen/lr/group_0") == [(1, 0.1), (2, 0.1)]
    assert read(logger, "gen/lr/group_1") == [(1, 0.25), (2, 0.25)]
    assert read(logger, "betas/group_0/1") == [(2, 0.999)]


def test_optimizers_of_deepspeed_only_have_groups(logger, engine, read):
    for kind in (list, tuple):
        wrapper = SimpleNamespace(param_groups=kind([{"lr": 0.5}, {"lr": 0.25}]))
        tag = kind.__name__
        logger.attach_opt_params_handler(engine, Events.ITERATION_STARTED, wrapper, tag=tag)
    engine.run([0])
    for kind in ("list", "tuple"):
        found = [read(logger, f"{kind}/lr/group_{number}") for number in (0, 1)]
        assert found == [[(1, 0.5)], [(1, 0.25)]], kind


def test_weights_of_frozen_layers_are_recorded(logger, engine, read, net):
    """Also before the first backward pass; gradients only where there are some."""
    logger.attach(engine, WeightsScalarHandler(net, tag="w"), Events.EPOCH_STARTED)
    logger.attach(engine, GradsScalarHandler(net, torch.mean, "g"), Events.EPOCH_COMPLETED)
    engine.add_event_handler(
        Events.ITERATION_COMPLETED, lambda: net(torch.ones(1, 3)).sum().backward()
    )
    engine.run([0])
    assert read(logger, "w/weights_norm/0/weight") == [
        (1, pytest.approx(float(net[0].weight.norm())))
    ]
    assert read(logger, "g/grads_mean/1/bias") == [(1, 1.0)]
    names = {"0/weight", "0/bias", "1/weight", "1/bias"}
    assert set(read.paths(logger, "w")) == {f"w/weights_norm/{name}" for name in names}
    assert set(read.paths(logger, "g")) == {"g/grads_mean/1/weight", "g/grads_mean/1/bias"}


@pytest.mark.parametrize("whitelist", [["1."], lambda name, parameter: parameter.requires_grad])
@pytest.mark.parametrize(
    "kind", [WeightsScalarHandler, WeightsHistHandler, GradsScalarHandler, GradsHistHandler]
)
def test_whitelist(logger, engine, read, net, kind, whitelist):
    net.requires_grad_(requires_grad=isinstance(whitelist, list))
    net[1].requires_grad_()
    net(torch.ones(1, 3)).sum().backward()
    engine.run([0])
    kind(net, tag="t", whitelist=whitelist)(engine, logger, Events.ITERATION_COMPLETED)
    assert {path.rsplit("/", 2)[1] for path in read.paths(logger, "t")} == {"1"}


def test_histograms(logger, engine, read, net):
    """Edges from the smallest to the largest value; every finite value is counted once."""
    net[0].weight.data = torch.tensor([[0.0, 1.0, 2.0], [3.0, math.nan, math.inf]])
    net[0].bias.data.fill_(7)
    logger.attach(engine, WeightsHistHandler(net), Events.ITERATION_COMPLETED)
    logger.attach(engine, GradsHistHandler(net), Events.ITERATION_COMPLETED)
    engine.run([0])
    (weight,) = read(logger, "weights/0/weight")
    assert (weight.step, weight.edges[0], weight.edges[-1]) == (1, 0, 3)
    assert sum(weight.counts) == 4
    assert [weight.counts[0], weight.counts[-1]] == [1, 1]
    (bias,) = read(logger, "weights/0/bias")
    assert (list(bias.edges), list(bias.counts)) == ([6.5, 7.5], [2])
    assert not read.paths(logger, "grads")


def test_a_handler_call_is_one_write(logger, engine, read, net, monkeypatch):
    """Whatever the number of parameters; one that has no place costs only itself."""
    logger["weights/1/bias"] = "taken"
    net(torch.ones(1, 3)).sum().backward()
    writes = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: writes.append(data) or write(fd, data))
    engine.state.metrics = {f"m{number}": number for number in range(20)}
    handlers = [kind(net) for kind in (WeightsScalarHandler, GradsScalarHandler, GradsHistHandler)]
    handlers.append(OutputHandler("t", metric_names="all"))
    for times, handler in enumerate(handlers, 1):
        handler(engine, logger, Events.ITERATION_COMPLETED)
        assert len(writes) == times
    WeightsHistHandler(net)(engine, logger, Events.ITERATION_COMPLETED)
    monkeypatch.undo()
    assert sorted(read.paths(logger, "grads")) == ["grads/1/bias", "grads/1/weight"]
    kept = ["weights/0/bias", "weights/0/weight", "weights/1/weight"]
    assert [len(read(logger, path)) for path in kept] == [1, 1, 1]
    assert read.dropped(logger)[1] == {"histogram": 1}


class Odd(torch.nn.Module):
    """Parameters as quantised, sparse and half-precision models have them."""

    def __init__(self):
        super().__init__()
        kinds = {
            "bf16": torch.ones(4, dtype=torch.bfloat16),
            "fp8": torch.ones(4).to(torch.float8_e4m3fn),
            "int8": torch.ones(4, dtype=torch.int8),
            "bool": torch.tensor([True, True, True, True]),
            "sparse": torch.diag(torch.ones(4)).to_sparse(),
            "zero_d": torch.tensor(2.0),
            "complex": torch.full((4,), 1j),
            "large": torch.full((4,), 30_000.0, dtype=torch.float16),
        }
        for name, value in kinds.items():
            self.register_parameter(name, torch.nn.Parameter(value, requires_grad=False))
        self.register_parameter("empty", torch.nn.Parameter(torch.empty(0)))
        self.register_parameter("elsewhere", torch.nn.Parameter(torch.empty(3, device="meta")))


def test_weights_of_every_kind(logger, engine, read, caplog):
    """Of integers and bytes there is a norm too; what has no numbers is left out, once."""
    model = Odd()
    for _ in range(2):
        WeightsScalarHandler(model)(engine, logger, Events.ITERATION_COMPLETED)
        WeightsHistHandler(model)(engine, logger, Events.ITERATION_COMPLETED)
    names = {"bf16", "fp8", "int8", "bool", "sparse", "zero_d", "complex"}
    for name in names:
        assert read(logger, f"weights_norm/{name}")[0] == (0, pytest.approx(2.0))
    assert {"weights_norm/large", "weights_norm/empty"} <= set(read.paths(logger))
    for name in names - {"complex", "empty"}:
        assert sum(read(logger, f"weights/{name}")[0].counts) in (1, 4, 16)
    assert len([one for one in caplog.messages if "complex" in one]) == 1
    assert len([one for one in caplog.messages if "elsewhere" in one]) <= 2


def test_gradients_of_every_kind(logger, engine, read):
    """Embeddings have sparse ones."""
    model = torch.nn.ModuleDict(
        {"table": torch.nn.Embedding(4, 2, sparse=True), "small": torch.nn.Linear(2, 1).bfloat16()}
    )
    model["table"](torch.tensor([1, 2])).sum().backward()
    model["small"](torch.ones(1, 2, dtype=torch.bfloat16)).sum().backward()
    GradsScalarHandler(model)(engine, logger, Events.ITERATION_COMPLETED)
    GradsHistHandler(model)(engine, logger, Events.ITERATION_COMPLETED)
    assert read(logger, "grads_norm/table/weight") == [(0, 2.0)]
    assert read(logger, "grads_norm/small/bias") == [(0, 1.0)]
    assert {"grads/table/weight", "grads/small/weight"} <= set(read.paths(logger))


def test_layers_without_a_shape_yet_are_left_out(logger, engine, read):
    net = torch.nn.Sequential(torch.nn.LazyLinear(2))
    logger.attach(engine, WeightsScalarHandler(net), Events.ITERATION_COMPLETED)
    engine.run([0])
    net(torch.ones(1, 3))
    engine.run([0])
    assert len(read(logger, "weights_norm/0/weight")) == 1


def test_global_step_from_engine(engine):
    """Of the event, of another event, or an attribute where the state does not count the event."""
    trainer = Engine(lambda *_: None)
    trainer.run(range(3), max_epochs=2)
    assert global_step_from_engine(trainer)(engine, Events.EPOCH_COMPLETED) == 2
    iterations = global_step_from_engine(trainer, Events.ITERATION_COMPLETED)
    assert iterations(engine, Events.COMPLETED) == 6
    other = global_step_from_engine(trainer, "validated", fallback_attr="iteration")
    assert other(engine, Events.EPOCH_COMPLETED) == 6


def test_set_up_in_one_line(read):
    """Training metrics and learning rates every so many iterations, evaluators at the epoch."""
    trainer = Engine(
        lambda engine, _batch: engine.state.metrics.update(loss=engine.state.iteration)
    )
    evaluator = Engine(lambda engine, _batch: engine.state.metrics.update(acc=0.5, other=1))
    trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: evaluator.run([0]))
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.5)
    given = {"log_every_iters": 2, "evaluator_metric_names": ["acc"], "project": "p"}
    logger = setup_seamark_logging(trainer, optimizer, evaluator, **given)
    trainer.run(range(4), max_epochs=2)
    assert read(logger, "training/loss") == [(2, 2), (4, 4), (6, 6), (8, 8)]
    assert read(logger, "lr/group_0") == [(step, 0.5) for step in (2, 4, 6, 8)]
    assert read(logger, "validation/acc") == [(1, 0.5), (2, 0.5)]
    assert not read.paths(logger, "validation/other")
    logger.close()


def test_set_up_by_name(read, net):
    trainer = Engine(lambda engine, _batch: engine.state.metrics.update(loss=1.0))
    evaluators = {
        name: Engine(lambda engine, _b: engine.state.metrics.update(m=1)) for name in "xy"
    }
    for one in evaluators.values():
        trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda _, one: one.run([0]), one)
    optimizers = {"gen": torch.optim.SGD(net.parameters(), 0.5)}
    logger = setup_seamark_logging(trainer, optimizers, evaluators, log_every_iters=None)
    trainer.run(range(2))
    assert len(read(logger, "training/loss")) == 2
    assert {"gen/lr/group_0", "x/m", "y/m"} <= set(read.paths(logger))
    logger.close()


def test_handlers_take_a_run_a_namespace_and_any_logger_with_an_experiment(engine, read):
    assert NeptuneLogger is SeamarkLogger

    class Other:
        def __init__(self, experiment):
            self.experiment = experiment

    run = seamark.init_run(capture={"git": False, "packages": False})
    engine.run([0])
    engine.state.metrics = {"a": 1.0}
    for number, one in enumerate([run, run["sub"], Other(run), Other(run["sub"])]):
        OutputHandler(f"t{number}", metric_names="all")(engine, one, Events.ITERATION_COMPLETED)
    found = read.paths(SeamarkLogger(run=run))
    assert {"t0/a", "sub/t1/a", "t2/a", "sub/t3/a"} <= set(found)
    run.stop()
