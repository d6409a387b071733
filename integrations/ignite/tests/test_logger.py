"""The logger: arguments, the life of its run, copies, resuming, attaching."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest
import torch
from ignite.engine import Engine, Events, EventsList
from ignite.engine.events import EventEnum
from ignite.handlers import Checkpoint

import seamark
from seamark.errors import ArgumentError, RunNotFoundError, UnknownArgumentError
from seamark.ignite import OutputHandler, SeamarkLogger

SECRET = "token-that-nobody-may-see"
QUIET = {"capture": {"git": False, "packages": False}}


def state_of(logger):
    run = logger.experiment.get_root_object()
    return seamark.init_run(
        project=run.project, with_id=run.id, mode="read-only"
    )["sys/state"].fetch()  # fmt: skip


def test_wrong_arguments_are_refused_at_construction():
    for given, error in [
        ({"proyect": "x"}, UnknownArgumentError),
        ({"ranks": "some"}, ArgumentError),
        ({"mode": "onlin"}, ArgumentError),
        ({"run": object()}, ArgumentError),
        ({"with_id": "nowhere0"}, RunNotFoundError),
    ]:
        with pytest.raises(error):
            SeamarkLogger(**given)
    with seamark.init_run(**QUIET) as run, pytest.raises(ArgumentError, match="project, tags"):
        SeamarkLogger(project="p", run=run, tags=["x"])


def test_nothing_is_on_disk_before_the_first_record(engine):
    """Neither a constructed logger nor an attached one, a copy, or one asked for its id."""
    logger = SeamarkLogger("token", "team/p", name="first", tags=["t"])
    logger.attach_output_handler(engine, Events.ITERATION_COMPLETED, "t", metric_names="all")
    pickle.loads(pickle.dumps(logger))
    copy.deepcopy(logger)
    assert logger.id == logger.experiment.id
    logger.state_dict()
    assert not Path(".seamark").exists()
    logger["a"] = 1
    assert logger.experiment["sys/name"].fetch() == "first"
    assert logger.experiment.project == "team/p"
    logger.close()


def test_version_of_ignite_is_noted(logger, engine, read):
    """Where Neptune's logger noted it, also on a run that was going on already."""
    import ignite

    path = "source_code/integrations/neptune-pytorch-ignite"
    assert logger[path].fetch() == ignite.__version__  # before anything is on disk
    assert logger.exists(path)
    assert not Path(".seamark").exists()
    logger["a"] = 1
    assert logger[path].fetch() == ignite.__version__
    with seamark.init_run(**QUIET) as run:
        SeamarkLogger(run=run["sub"])
        assert run[path].fetch() == ignite.__version__


def test_items_and_attributes_are_those_of_the_run(logger):
    logger["parameters"] = {"lr": 0.5}
    logger["train"]["loss"].append(1.0)
    logger.log_metrics({"m": 1.0}, step=3)
    assert logger.exists("parameters/lr")
    assert logger["train/loss"].fetch_last() == 1.0
    del logger["parameters"]
    assert not logger.exists("parameters")


def test_missing_attributes_are_missing():
    """Also on an object that was never initialised: copy and pickle make such ones."""
    half = SeamarkLogger.__new__(SeamarkLogger)
    for one in (half, SeamarkLogger()):
        for name in ("nothing", "_private", "__deepcopy__", "_experiments"):
            with pytest.raises(AttributeError, match=name):
                getattr(one, name)
    assert not hasattr(half, "id")
    assert not hasattr(half, "experiment")


@pytest.mark.parametrize(
    "travel", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]
)
@pytest.mark.parametrize("started", [False, True])
def test_copies_record_into_the_same_run(travel, started, read):
    """However they were made; no pickle and no checkpoint has the token."""
    logger = SeamarkLogger(api_token=SECRET, **QUIET)
    if started:
        logger["a"] = 1
    assert SECRET.encode() not in pickle.dumps(logger)
    assert SECRET not in repr([logger.state_dict(), vars(logger)])
    other = travel(logger)
    other["b"] = 2
    assert other.id == logger.id
    assert {"b"} <= set(read.paths(logger))
    assert len(list(Path(".seamark/default").iterdir())) == 1
    other.close()
    logger.close()


def test_context_manager_completes_and_closes_the_run(engine):
    with SeamarkLogger(**QUIET) as logger:
        logger.attach_output_handler(
            engine, Events.ITERATION_COMPLETED, "t", output_transform=float
        )
        engine.run(range(3))
    assert logger.get_state() == "stopped"
    assert state_of(logger) == "completed"
    logger.close()


@pytest.mark.parametrize(
    ("error", "state"), [(RuntimeError("boom"), "failed"), (KeyboardInterrupt(), "interrupted")]
)
@pytest.mark.parametrize("how", ["with", "finally"])
def test_exceptions_go_through_and_are_recorded(error, state, how):
    seen = []

    def step(engine, _batch):
        seen.append(engine.state.iteration)
        if engine.state.iteration == 3:
            raise error
        return 0.0

    engine = Engine(step)
    logger = SeamarkLogger(**QUIET)
    logger.attach_output_handler(engine, Events.ITERATION_COMPLETED, "t", output_transform=float)
    with pytest.raises(type(error)) as caught:  # noqa: PT012 - the two ways to end a run
        if how == "with":
            with logger:
                engine.run(range(9), max_epochs=2)
        else:
            try:
                engine.run(range(9), max_epochs=2)
            finally:
                logger.close()
    assert caught.value is error
    assert seen == [1, 2, 3]
    assert state_of(logger) == state
    assert Events.EXCEPTION_RAISED not in engine._event_handlers


def test_run_that_was_given_stays_open(engine, read):
    run = seamark.init_run(**QUIET)
    with SeamarkLogger(run=run["fold-1"]) as logger:
        logger.attach_output_handler(engine, Events.COMPLETED, "t", output_transform=float)
        logger["lr"] = 0.5
        engine.run(range(3))
    assert run["fold-1/lr"].fetch() == 0.5
    assert read(logger, "fold-1/t/output") == [(1, 3.0)]
    run["more"] = 1
    run.stop()


def test_engine_goes_on_with_few_warnings_after_the_logger_was_closed(engine, caplog):
    logger = SeamarkLogger(**QUIET)
    logger.attach_output_handler(
        engine, Events.ITERATION_COMPLETED, "t",
        output_transform=lambda output: {"a": output, "s": "text"},
    )  # fmt: skip
    engine.run([0])
    logger.close()
    assert engine.run(range(5)).iteration == 5
    assert 1 <= len(caplog.messages) <= 3


def test_disabled_logger_records_nothing_and_has_all_verbs(engine):
    with SeamarkLogger(mode="disabled") as logger:
        logger.attach_output_handler(engine, Events.ITERATION_COMPLETED, "t", output_transform=str)
        logger["a"] = 1
        engine.run(range(3))
        logger.load_state_dict(logger.state_dict())
    assert not Path(".seamark").exists()


# ------------------------------------------------------------------------------- attaching


def test_unknown_events_are_refused_before_anything_is_attached(logger, engine):
    handler = OutputHandler("t", metric_names="all")
    several = EventsList() | Events.COMPLETED | Events.EXCEPTION_RAISED
    for event in ("unknown", several):
        with pytest.raises(RuntimeError, match="Unknown event name"):
            logger.attach(engine, handler, event)
    assert not engine.has_event_handler(handler)


def test_arguments_reach_the_handler_at_every_event_of_a_list(logger, engine):
    """Ignite's base class drops them for lists."""
    calls = []

    def handler(engine, logger, event_name, *args, **kwargs):
        calls.append((event_name, args, kwargs))

    events = Events.EPOCH_COMPLETED | Events.ITERATION_STARTED(every=2)
    with logger.attach(engine, handler, events, 1, two=2):
        engine.run(range(4), max_epochs=1)
    names = [Events.ITERATION_STARTED, Events.ITERATION_STARTED, Events.EPOCH_COMPLETED]
    assert calls == [(name, (1,), {"two": 2}) for name in names]
    engine.run(range(4), max_epochs=2)
    assert len(calls) == 3


@pytest.mark.parametrize(
    ("event", "calls"),
    [
        (Events.STARTED, 1),
        (Events.EPOCH_STARTED, 3),
        (Events.ITERATION_STARTED, 12),
        (Events.ITERATION_STARTED(every=5), 2),
        (Events.ITERATION_COMPLETED(once=7), 1),
        (Events.ITERATION_COMPLETED(event_filter=lambda _, count: count > 9), 3),
        (Events.EPOCH_COMPLETED, 3),
        (Events.COMPLETED, 1),
        (Events.STARTED | Events.EPOCH_COMPLETED(every=2) | Events.COMPLETED, 3),
    ],
)
def test_handlers_are_called_with_engine_logger_and_event(logger, engine, event, calls):
    """As often as the event fires, filters included; the event is the one that was asked for."""
    seen = []
    logger.attach(engine, lambda *args: seen.append(args), event)
    engine.run(range(4), max_epochs=3)
    names = {str(one) for one in (event if isinstance(event, EventsList) else [event])}
    assert len(seen) == calls
    assert all(args[:2] == (engine, logger) for args in seen)
    assert {str(args[2]) for args in seen} == names


@pytest.mark.parametrize("event", [Events.ITERATION_COMPLETED, Events.ITERATION_COMPLETED(every=2)])
def test_handle_removes_the_handler(logger, engine, read, event):
    handle = logger.attach_output_handler(engine, event, "t", output_transform=float)
    engine.run(range(2))
    count = len(read(logger, "t/output"))
    handle.remove()
    engine.run(range(2), max_epochs=2)
    assert len(read(logger, "t/output")) == count


def test_registered_events_are_counted_in_the_state(logger, read):

    class Own(EventEnum):
        VALIDATED = "validated"

    def step(engine, _batch):
        engine.state.validated += 10
        engine.fire_event(Own.VALIDATED)
        return 1.0

    engine = Engine(step)
    engine.register_events(*Own, event_to_attr={Own.VALIDATED: "validated"})
    logger.attach_output_handler(engine, Own.VALIDATED, "t", state_attributes=["validated"])
    engine.run(range(2))
    assert read(logger, "t/validated") == [(10, 10), (20, 20)]


# ------------------------------------------------------------------------------- resuming


def train(logger, epochs, checkpoint=None, *, fail_after=None):
    """Train two iterations an epoch, saving after each; the output is the iteration."""
    engine = Engine(lambda engine, _batch: float(engine.state.iteration))
    saver = Checkpoint({"trainer": engine, "logger": logger}, "saved", n_saved=None)
    if checkpoint is not None:
        Checkpoint.load_objects({"trainer": engine, "logger": logger}, checkpoint)
    logger.attach_output_handler(engine, Events.ITERATION_COMPLETED, "t", output_transform=float)
    engine.add_event_handler(Events.EPOCH_COMPLETED, saver)
    if fail_after is not None:

        @engine.on(Events.ITERATION_COMPLETED(once=fail_after))
        def _fail():
            raise RuntimeError

    engine.run(range(2), max_epochs=epochs)


def test_loading_a_checkpoint_goes_on_in_its_run(read):
    """As a new attempt: what came after the checkpoint is hidden, and not lost."""
    first = SeamarkLogger(project="p", **QUIET)
    with pytest.raises(RuntimeError), first:
        train(first, 5, fail_after=5)
    for path in Path("saved").iterdir():
        path.rename(path.name)  # Ignite wants an empty folder
    second = SeamarkLogger(project="p", **QUIET)
    train(second, 4, "checkpoint_4.pt")
    assert second.id == first.id
    assert read(second, "t/output") == [(step, step) for step in range(1, 9)]
    every = second["t/output"].fetch_points(attempt="all")
    assert every.step.tolist() == [1, 2, 3, 4, 5, 5, 6, 7, 8]
    assert sorted(every.attempt.tolist()) == [0] * 5 + [1] * 4
    second.close()
    for path in Path("saved").iterdir():
        path.rename(path.name)
    third = SeamarkLogger(project="p", **QUIET)
    train(third, 4, "checkpoint_6.pt")
    assert read(third, "t/output") == [(step, step) for step in range(1, 9)]
    assert third["t/output"].fetch_points(attempt="all").step.size == 11
    assert state_of(third) == "running"
    third.close()
    assert len(list(Path(".seamark/p").iterdir())) == 1


def test_a_resumed_training_has_every_point_once_in_any_order_of_handlers(read):

    def fit(logger, checkpoint=None, *, fail_after=None):
        engine = Engine(lambda engine, _batch: float(engine.state.iteration))
        evaluator = Engine(lambda engine, _batch: None)
        to_save = {"trainer": engine, "logger": logger}
        if checkpoint is not None:
            Checkpoint.load_objects(to_save, checkpoint)
        engine.add_event_handler(Events.EPOCH_COMPLETED, Checkpoint(to_save, "saved", n_saved=None))
        engine.add_event_handler(Events.EPOCH_COMPLETED, lambda: evaluator.run([0]))
        weight = torch.zeros(1, requires_grad=True)
        logger.attach_opt_params_handler(
            engine, Events.ITERATION_STARTED, torch.optim.SGD([weight], lr=0.5), tag="t"
        )
        for which, event in [
            (engine, Events.ITERATION_COMPLETED),
            (engine, Events.EPOCH_COMPLETED),
            (evaluator, Events.COMPLETED),
        ]:
            logger.attach_output_handler(
                which,
                event,
                f"t/{event.name}/{'val' if which is evaluator else 'train'}",
                output_transform=lambda _: engine.state.iteration,
                global_step_transform=lambda *_: engine.state.iteration,
            )
        if fail_after is not None:

            @engine.on(Events.ITERATION_COMPLETED(once=fail_after))
            def _fail():
                raise RuntimeError

        engine.run(range(2), max_epochs=4)

    first = SeamarkLogger(project="p", **QUIET)
    with pytest.raises(RuntimeError), first:
        fit(first, fail_after=7)
    for path in Path("saved").iterdir():
        path.rename(path.name)
    with SeamarkLogger(project="p", **QUIET) as second:
        fit(second, "checkpoint_4.pt")
        paths = {
            "t/lr/group_0": [*range(1, 9)],
            "t/ITERATION_COMPLETED/train/output": [*range(1, 9)],
            "t/EPOCH_COMPLETED/train/output": [2, 4, 6, 8],
            "t/COMPLETED/val/output": [2, 4, 6, 8],
        }
        assert {path: [step for step, _ in read(second, path)] for path in paths} == paths


def test_points_of_other_writers_before_the_checkpoint_stay(read):
    """Positions are those of the whole run, not of the process that saves."""
    first = SeamarkLogger(**QUIET)
    first.log_metrics({"a": 1.0}, step=1)
    first.close()
    second = SeamarkLogger(with_id=first.id, **QUIET)
    second.log_metrics({"a": 2.0}, step=2)
    second.load_state_dict(second.state_dict())
    second.log_metrics({"a": 3.0}, step=3)
    assert read(second, "a") == [(1, 1), (2, 2), (3, 3)]
    second.close()


@pytest.mark.parametrize(
    ("state", "error"),
    [(None, ArgumentError), ({}, ArgumentError), (7, ArgumentError),
     ({"run": "a/b", "project": "p", "positions": {}}, ValueError)],
)  # fmt: skip
def test_invalid_state_is_refused(logger, state, error):
    with pytest.raises(error):
        logger.load_state_dict(state)


def test_logger_of_a_certain_run_stays_with_it(caplog):
    """``run`` and ``with_id`` win over the checkpoint."""
    old = SeamarkLogger(**QUIET)
    old["a"] = 1
    state = old.state_dict()
    old.close()
    with seamark.init_run(**QUIET) as run:
        given, opened = SeamarkLogger(run=run), SeamarkLogger(with_id=run.id, **QUIET)
        for one in (given, opened):
            one.load_state_dict(state)
            assert one.id == run.id
        opened.close()
    assert caplog.text.count("continuing with run") == 2


def test_torch_loads_the_state_with_weights_only(logger, tmp_path):
    logger["a"] = 1
    torch.save(logger.state_dict(), tmp_path / "state.pt")
    assert torch.load(tmp_path / "state.pt", weights_only=True) == logger.state_dict()


def test_repr_names_project_id_name_and_place_and_begins_no_run(tmp_path):
    logger = SeamarkLogger(project="team/digits", name="first", root=tmp_path)
    assert repr(logger) == f"<SeamarkLogger of team/digits/{logger.id} 'first' in {tmp_path}>"
    assert list(tmp_path.iterdir()) == []
    assert repr(SeamarkLogger.__new__(SeamarkLogger)) == "<SeamarkLogger>"
