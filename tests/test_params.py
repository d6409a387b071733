"""`run.params`: a mapping that is a view of `parameters/`."""

from __future__ import annotations

import argparse
import copy
import dataclasses
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import pytest

import seamark
from seamark import errors

begin = seamark.init_run


def told(run):
    assert run.params.as_dict() == {"lr": 0.1, "db": {"password": "s3cr3t-word"}}
    assert run.params.db.password == "s3cr3t-word"


def test_item_attribute_and_path_are_one_value_and_a_mapping_replaces_it():
    with begin(params={"lr": 0.1, "opt": {"name": "adam"}}) as run:
        run.params.opt.eps = 1e-8
        run["parameters/opt/beta"] = 0.9
        run.params["sched/warmup"] = 10
        assert run.params.opt.as_dict() == {"name": "adam", "eps": 1e-8, "beta": 0.9}
        assert run.params["opt"]["beta"] == run.params["opt/beta"] == run.params.opt.beta
        assert run["parameters"].fetch() == run.params.as_dict() == run.params
        assert "sched" in run.params
        assert list(run.params) == ["lr", "opt", "sched"]
    with begin(params={"opt": {"name": "adam", "eps": 1}}) as run:
        run.params.opt = {"name": "sgd"}
        assert run["parameters"].fetch() == run.params == {"opt": {"name": "sgd"}}
        run.params["opt"] = None
        assert run["parameters"].fetch() == run.params == {"opt": None}


def test_params_behave_like_a_dict():
    with begin() as run:
        model: dict[str, Any] = {}
        for each in (model, run.params):
            each.update({"a": 1, "b": 2, "c": {"d": 3}})
            each.setdefault("e", 4)
            each.setdefault("a", 5)
            assert each.pop("b") == 2
            assert each.pop("nothing", None) is None
            del each["c"]
        assert dict(run.params) == model == {"a": 1, "e": 4}
        assert len(run.params) == 2
        assert {"a", "e", "update"} <= {*dir(run.params)}
        run.params.clear()
        assert not run.params
        assert not run.exists("parameters")


def test_mistakes_say_what_there_is_and_write_nothing():
    with begin(params={"learning_rate": 0.1}) as run:
        with pytest.raises(KeyError, match="did you mean 'learning_rate'"):
            run.params["learning_rte"]
        with pytest.raises(AttributeError, match="learning_rate"):
            _ = run.params.learning_rte
        with pytest.raises(AttributeError, match=r"params\['update'\] = "):
            run.params.update = 3
        run.params["update"] = 3
        assert run.params["update"] == 3
        assert callable(run.params.update)
        with pytest.raises(errors.MissingFieldError, match="nothing"):
            del run.params["nothing"]
        run["parameters/loss"].append(0.5)
        with pytest.raises(errors.FamilyError, match="parameters/loss"):
            run.params.update({"a": 1, "loss": 2})
        assert not run.exists("parameters/a")
        assert "a" not in run.params
    read = begin(with_id=run.id, mode="read-only")
    for opened, error in ((run, errors.InactiveRunError), (read, errors.ReadOnlyError)):
        with pytest.raises(error):
            opened.params.a = 2
        assert opened.params.learning_rate == 0.1


def test_update_takes_what_people_have():
    """Mappings, dataclasses, Namespaces, pairs and keywords; it returns what was given."""

    @dataclasses.dataclass
    class Config:
        depth: int = 3

    with begin() as run:
        run.params.update(Config())
        run.params.update(argparse.Namespace(width=4))
        run.params.update([("pairs", 5)], more=6)
        run.params.update(new_params={"lr": 0.1}, override=False)  # as its argument is elsewhere
        run.params.update(new_params=3)  # a parameter of that name
        args = run.params.update({"act": dict, "shape": (1, 2)})
        assert (args.act, args.shape) == (dict, (1, 2))
        wanted = {"depth": 3, "width": 4, "pairs": 5, "more": 6, "lr": 0.1, "new_params": 3}
        wanted |= {"act": "dict", "shape": [1, 2]}
        assert run.params == run["parameters"].fetch() == wanted
        with pytest.raises(TypeError, match=r"expected a mapping.*got int: 7"):
            run.params.update(7)


def test_update_reads_the_command_line_with_a_parser(monkeypatch, capsys):
    """What was known stays without override, and is in what is returned; a table is shown."""
    monkeypatch.setattr("sys.argv", ["train.py", "--wd", "0.5"])
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--wd", type=float, default=0.0)
    parser.add_argument("--token", default="hf_abcdefghijklmnopqrstuvwxyzabcdefgh")
    with begin(params={"lr": 0.01}) as run:
        args = run.params.update(parser, override=False, show=True)
        assert (args.lr, args.wd, args.token) == (0.01, 0.5, run.params.token)
        shown = capsys.readouterr().out
        assert [line.split()[:2] for line in shown.splitlines()][:1] == [["lr", "0.01"]]
        assert "hf_abcdef" not in shown


def test_secrets_are_hidden_on_disk_and_not_in_memory(monkeypatch):
    """A process that is spawned by the training knows them too."""
    monkeypatch.syspath_prepend(Path(__file__).parents[__name__.count(".")])
    with begin(params={"lr": 0.1}) as run:
        run.params.db = {"password": "s3cr3t-word"}
        told(run)
        assert "s3cr3t-word" not in repr(run.params)
        assert "s3cr3t-word" not in str(run["parameters/db/password"].fetch())
        assert b"s3cr3t-word" not in pickle.dumps(run)
        child = multiprocessing.get_context("spawn").Process(target=told, args=(run,))
        child.start()
        child.join(60)
        assert child.exitcode == 0


def test_disabled_runs_and_silent_ranks_answer_the_same(monkeypatch):
    """A script that builds its model from them runs on every rank and without recording."""
    runs = [begin(mode="disabled")]
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    runs.append(begin())
    for run in runs:
        run.params.update({"lr": 0.1, "gone": 1})
        run["parameters/db/password"] = "s3cr3t-word"
        del run.params.gone
        told(run)
        del run["parameters/lr"]
        assert "lr" not in run.params


def test_an_opened_run_answers_with_what_it_held():
    with begin(params={"a": 1, "b": 2, "c": {"d": 3}, "long": "x" * 5_000_000}) as run:
        pass
    with begin(with_id=run.id) as again:
        again.params.b = 5
        del again.params.c
        assert again.params.as_dict() == {"a": 1, "b": 5, "long": "x" * 5_000_000}


def test_params_of_an_adapter_are_read_and_stay_in_their_place():
    with begin() as run:
        run["training/hyperparams"] = {"lr": 0.1, "depth": 3}
        assert run.params == {"lr": 0.1, "depth": 3}
        run.params.lr = 0.2
        assert run.params.lr == 0.2
        assert run["training/hyperparams/lr"].fetch() == 0.1
        assert run["parameters"].fetch() == {"lr": 0.2}


def test_a_copy_is_a_dict_and_records_nothing():
    with begin(params={"a": {"b": 1}}) as run:
        mine = copy.deepcopy(run.params)
        mine["a"]["b"] = 2
        assert run.params.a.b == 1
        assert pickle.loads(pickle.dumps(run.params)) == {"a": {"b": 1}}


def test_a_later_change_is_kept_with_its_time():
    with begin(params={"lr": 0.1, "same": 1}) as run:
        run.params.update(lr=0.2, same=1)
    with begin(with_id=run.id) as again:
        again["parameters/lr"] = 0.3
        changes = again.params.changes()
    assert [each["value"] for each in changes["parameters/lr"]] == [0.1, 0.2, 0.3]
    times = [each["time"] for each in changes["parameters/lr"]]
    assert times == sorted(times)
    assert list(changes) == ["parameters/lr"]
    with begin(with_id=run.id) as again:
        del again.params.lr
        again.params.lr = 5
        assert again.params.changes() == {}
