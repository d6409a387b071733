"""`run.log_distribution` and `seamark.utils.device`."""

from __future__ import annotations

import pytest

import seamark
from seamark import errors


@pytest.fixture
def group(monkeypatch):
    """A process group of this process alone; the module that made it."""
    pytest.importorskip("torch")
    import torch.distributed as dist

    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "0")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist
    dist.destroy_process_group()


def test_a_real_process_group_is_described(group):
    import torch

    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2), static_graph=True)
    with seamark.init_run() as run:
        run.log_distribution(model)
        found = run["distributed"].fetch()
        assert (found["strategy"], found["backend"]) == ("DistributedDataParallel", "gloo")
        assert (found["world_size"], found["accelerator"]) == (1, "cpu")
        assert found["static_graph"]
        assert run.log_distribution(group)["backend"] == "gloo"
        told = run.log_distribution(torch.nn.DataParallel(torch.nn.Linear(2, 2)))
        assert (told["strategy"], told["world_size"]) == ("DataParallel", 1)


def test_classes_of_libraries_that_are_not_here_are_known_by_name(monkeypatch):
    """A class of that name in a package of that name is asked for plain facts only."""

    class MirroredStrategy:
        num_replicas_in_sync = 4

    class DeepSpeedEngine:
        world_size = 8

        def zero_optimization_stage(self):
            return 2

        def bfloat16_enabled(self):
            return False

        def fp16_enabled(self):
            return True

        def train_batch_size(self):
            raise RuntimeError

    DeepSpeedEngine.__module__ = "deepspeed.runtime.engine"
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with seamark.init_run() as run:
        told = run.log_distribution(MirroredStrategy())
        assert told == {"strategy": "MirroredStrategy", "world_size": 4, **told}
        run.log_distribution(DeepSpeedEngine())
        found = run["distributed"].fetch()
        assert found["strategy"] == "DeepSpeed"
        assert (found["zero_stage"], found["precision"], found["world_size"]) == (2, "fp16", 8)
        assert "effective_batch_size" not in found
        with pytest.raises(errors.ArgumentError, match="got dict"):
            run.log_distribution({})


def test_the_device_is_one_of_torch():
    torch = pytest.importorskip("torch")
    found = seamark.utils.device()
    assert isinstance(found, torch.device)
    if not torch.cuda.is_available():
        assert found.type in {"cpu", "mps", "xpu"}
