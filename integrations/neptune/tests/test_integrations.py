"""Integrations that were written for neptune, unmodified: what they record is there to be read."""

from __future__ import annotations

import logging
import math
import warnings
from pathlib import Path

import neptune
import numpy as np
import pytest
import torch
from neptune.integrations.python_logger import NeptuneHandler
from recorded import below, values


@pytest.fixture
def digits():
    """Sixty rows of four numbers, of which the first decides."""
    numbers = np.random.default_rng(0).normal(size=(60, 4))
    return numbers, (numbers[:, 0] > 0).astype(int)


def test_optuna(run, read):
    """A study, its charts, and the study itself, which loads."""
    import neptune.integrations.optuna as npt_utils
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    few = ("contour", "edf", "parallel_coordinate", "param_importances", "slice")
    callback = npt_utils.NeptuneCallback(
        run, plots_update_freq=2, **{f"log_plot_{name}": False for name in few}
    )
    sampler = optuna.samplers.RandomSampler(seed=0)
    study = optuna.create_study(study_name="squares", sampler=sampler)
    study.optimize(
        lambda trial: trial.suggest_float("x", -1, 1) ** 2, n_trials=3, callbacks=[callback]
    )
    again = read(run)
    assert again["best/value"].fetch() == study.best_value
    assert again["best/params"].fetch() == study.best_params
    assert len(values(again["trials/values"])) == 3
    assert sorted(below(again, "trials/trials")) == ["0", "1", "2"]
    assert again["visualizations/plot_optimization_history"].fetch_extension() == "html"
    assert again["source_code/integrations/neptune-optuna"].fetch() == npt_utils.__version__
    assert npt_utils.load_study_from_run(again).best_params == study.best_params


def test_optuna_with_two_objectives(run, read):
    """Each objective has a series of its own."""
    import neptune.integrations.optuna as npt_utils
    import optuna

    directions = ["minimize", "maximize"]
    sampler = optuna.samplers.RandomSampler(seed=0)
    study = optuna.create_study(study_name="two", directions=directions, sampler=sampler)
    callback = npt_utils.NeptuneCallback(
        run["search"], plots_update_freq="never", target_names=["size", "score"]
    )
    study.optimize(
        lambda trial: (trial.number, trial.suggest_int("n", 1, 1)), n_trials=2, callbacks=[callback]
    )
    again = read(run)
    assert values(again["search/trials/values/size"]) == [0, 1]
    assert values(again["search/trials/values/score"]) == [1, 1]


@pytest.mark.installed
def test_optuna_with_trials_that_have_nothing(run, read):
    """A trial without a value, or without parameters, ends no study; the client's it ends."""
    import neptune.integrations.optuna as npt_utils
    import optuna

    def objective(trial):
        if trial.number == 1:
            raise optuna.TrialPruned
        return trial.number

    callback = npt_utils.NeptuneCallback(run, plots_update_freq="never")
    study = optuna.create_study()
    study.optimize(objective, n_trials=3, callbacks=[callback])
    run["values"].append(neptune.utils.stringify_unsupported(None))
    run["values"].append(1.0)
    again = read(run)
    assert values(again["trials/values"]) == [0, 2]
    assert values(again["values"]) == [1.0]


def test_xgboost(run, read, digits):
    """Metrics of every round, parameters, the model and the charts."""
    import xgboost
    from neptune.integrations.xgboost import NeptuneCallback

    data = xgboost.DMatrix(digits[0], label=digits[1])
    seen = {}
    xgboost.train(
        {"max_depth": 2, "eta": 0.3, "objective": "binary:logistic", "nthread": 1},
        data,
        num_boost_round=3,
        evals=[(data, "train")],
        evals_result=seen,
        callbacks=[NeptuneCallback(run=run, log_tree=None)],
        verbose_eval=False,
    )
    again = read(run)
    assert values(again["training/train/logloss"]) == pytest.approx(seen["train"]["logloss"])
    assert again.exists("training/pickled_model")
    assert again.exists("training/booster_config/learner")
    assert again.exists("training/plots/importance")


def test_lightgbm(run, read, digits):
    """Metrics of every round, parameters, and a summary with charts in a series of files."""
    import lightgbm
    from neptune.integrations.lightgbm import NeptuneCallback, create_booster_summary

    rows = lightgbm.Dataset(digits[0], digits[1])
    booster = lightgbm.train(
        {
            "objective": "binary",
            "num_leaves": 3,
            "min_data_in_leaf": 5,
            "verbose": -1,
            "num_threads": 1,
        },
        rows,
        num_boost_round=3,
        valid_sets=[rows],
        valid_names=["train"],
        callbacks=[NeptuneCallback(run=run)],
    )
    run["summary"] = create_booster_summary(
        booster=booster, log_trees=False, log_importances=True, log_pickled_booster=True
    )
    again = read(run)
    assert len(values(again["train/binary_logloss"])) == 3
    assert again["params/num_leaves"].fetch() == 3
    assert again.exists("summary/pickled_model")
    assert again["summary/visualizations/feature_importances/gain"].fetch_extension() == "png"


def test_sklearn(run, read, digits):
    """A summary of a classifier: parameters, scores, the pickled model, predictions."""
    import neptune.integrations.sklearn as npt_utils
    from sklearn.linear_model import LogisticRegression

    features, labels = digits
    model = LogisticRegression(C=0.5).fit(features[:40], labels[:40])
    run["cls"] = npt_utils.create_classifier_summary(
        model, features[:40], features[40:], labels[:40], labels[40:], log_charts=False
    )
    again = read(run)
    assert again["cls/all_params/C"].fetch() == 0.5
    assert again.exists("cls/pickled_model")
    assert again.exists("cls/test/preds")


def test_pytorch(run, read, tmp_path, monkeypatch):
    """Norms of gradients and parameters, and the model's weights."""
    from neptune.integrations.pytorch import NeptuneLogger

    net = torch.nn.Linear(2, 1)
    logger = NeptuneLogger(run=run, model=net, log_gradients=True, log_parameters=True, log_freq=1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        loss = net(torch.ones(4, 2)).square().mean()
        run[logger.base_namespace]["batch/loss"].append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    logger.log_checkpoint()
    logger.log_model("weights")
    again = read(run)
    assert len(values(again["training/plots/gradients/weight"])) == 2
    assert len(values(again["training/plots/parameters/bias"])) == 2
    assert len(values(again["training/batch/loss"])) == 2
    again["training/model/weights.pt"].download(str(tmp_path / "weights.pt"))
    loaded = torch.load(tmp_path / "weights.pt")
    assert torch.equal(loaded["weight"], net.weight)


def test_tensorboard(run, read):
    """Values written for TensorBoard are recorded as well."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pkg_resources
        from neptune_tensorboard import enable_tensorboard_logging_ctx
    from torch.utils.tensorboard import SummaryWriter

    with enable_tensorboard_logging_ctx(run), SummaryWriter("logs") as writer:
        for step in range(3):
            writer.add_scalar("loss", 1 / (step + 1), step)
        writer.add_text("note", "hello")
        writer.add_image("picture", torch.rand(3, 4, 4))
    again = read(run)
    assert values(again["tensorboard/scalar/loss"]) == pytest.approx([1, 1 / 2, 1 / 3])
    assert again["tensorboard/text/note"].fetch_last() == "hello"
    assert again["tensorboard/image/picture"].fetch_extension() == "png"


def test_fastai(run, read):
    """Two fits of a learner, each under an index of its own, whose paths begin with a slash."""
    from fastai.basics import DataLoader, DataLoaders, Learner
    from neptune.integrations.fastai import NeptuneCallback

    rows = [(torch.rand(2), torch.rand(1)) for _ in range(8)]
    loaders = DataLoaders(DataLoader(rows, bs=4), DataLoader(rows, bs=4))
    loaders.path = "."
    for _ in range(2):
        learner = Learner(
            loaders,
            torch.nn.Linear(2, 1),
            loss_func=torch.nn.functional.mse_loss,
            cbs=[NeptuneCallback(run=run, upload_saved_models=None)],
        )
        with learner.no_bar(), learner.no_logging():
            learner.fit(2, lr=0.01)
    again = read(run)
    assert again["config/batch_size"].fetch() == 4
    assert sorted(below(again, "metrics")) == ["fit_0", "fit_1"]
    losses = values(again["metrics/fit_1/training/batch/loss"])
    assert len(losses) == 4
    assert all(map(math.isfinite, losses))


def test_transformers(read):
    """A Trainer that reports to neptune: losses by step, arguments, the model's configuration."""
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
    from transformers.integrations import NeptuneCallback

    config = BertConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, vocab_size=9
    )
    rows = [{"input_ids": [1, 2, 3], "labels": n % 2} for n in range(4)]
    with pytest.warns(FutureWarning):
        callback = NeptuneCallback(project="team/moved", name="tiny", tags=["bert"])
    trainer = Trainer(
        model=BertForSequenceClassification(config),
        args=TrainingArguments(
            "out",
            max_steps=2,
            logging_steps=1,
            report_to="none",
            use_cpu=True,
            save_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=rows,
        callbacks=[callback],
    )
    trainer.train()
    again = read(NeptuneCallback.get_run(trainer))
    assert len(values(again["finetuning/train/loss"])) == 2
    assert again["finetuning/model_parameters/hidden_size"].fetch() == 8
    assert again["finetuning/trainer_parameters/max_steps"].fetch() == 2
    assert again["sys/tags"].fetch() == {"bert"}


def test_python_logger(run, read):
    """Python's own logging."""
    logger = logging.getLogger("a training")
    handler = NeptuneHandler(run=run, path="log")
    logger.addHandler(handler)
    logger.warning("the loss is rising")
    logger.removeHandler(handler)
    assert values(read(run)["log"]) == ["the loss is rising"]


def test_series_of_files(run, read):
    """``FileSeries`` replaces what a path held."""
    from neptune.types import File, FileSeries
    from PIL import Image

    for shades in ([1], [2, 3]):
        pictures = [np.full((2, 2), shade, dtype=np.uint8) for shade in shades]
        run["plots"] = FileSeries([File.as_image(picture) for picture in pictures])
    again = read(run)
    again["plots"].download("plots")
    found = sorted(np.asarray(Image.open(file)).max() for file in Path("plots").iterdir())
    assert found == [2, 3]
