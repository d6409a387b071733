"""Where a training runs: from recorded variables and files, and the real ones here."""

from __future__ import annotations

import platform
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from seamark.capture.environment import environment_facts
from seamark.journal.folder import iter_runs


def tree(root: Path, **files: str) -> Path:
    """Write files; a double underscore stands for a slash."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("DOT", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def facts(root: Path, **environment: str) -> dict[str, Any]:
    """Return what is found but for the system and Python."""
    found = environment_facts("m", environment, root)
    told = {path.removeprefix("m/environment/"): fact for path, fact in found.items()}
    for name in ("os", "kernel", "machine", "python", "python_environment"):
        told.pop(name, None)
    return {name: fact for name, fact in told.items() if not name.startswith("torch/")}


@pytest.mark.parametrize(
    ("files", "environment", "wanted"),
    [
        ({}, {}, {}),
        ({"DOTdockerenv": ""}, {}, {"container": "docker"}),
        (
            {"run__DOTcontainerenv": 'engine="podman-4.9"\nimage="docker.io/me/torch:2"\n'},
            {"container": "podman"},
            {"container": "podman", "container_image": "docker.io/me/torch:2"},
        ),
        ({"run__DOTcontainerenv": ""}, {}, {"container": "podman"}),
        ({}, {"container": "lxc"}, {"container": "lxc"}),
        ({}, {"container": "systemd-nspawn"}, {"container": "systemd-nspawn"}),
        ({}, {"container": "a word"}, {}),
        (
            {"DOTdockerenv": ""},
            {"APPTAINER_NAME": "torch.sif", "APPTAINER_CONTAINER": "/home/ada/images/torch.sif"},
            {"container": "apptainer", "container_image": "torch.sif"},
        ),
        (
            {},
            {"SINGULARITY_NAME": "torch.sif"},
            {"container": "singularity", "container_image": "torch.sif"},
        ),
    ],
)
def test_containers(tmp_path, files, environment, wanted):
    """Kind and image, as far as the files of an engine say them; no path of a person."""
    assert facts(tree(tmp_path, **files), **environment) == wanted


SLURM = {
    "SLURM_JOB_ID": "4214",
    "SLURM_ARRAY_JOB_ID": "4211",
    "SLURM_ARRAY_TASK_ID": "3",
    "SLURM_STEP_ID": "0",
    "SLURM_JOB_NAME": "train",
    "SLURM_JOB_PARTITION": "gpu",
    "SLURM_CLUSTER_NAME": "hpc",
    "SLURM_JOB_NODELIST": "node[17-18]",
    "SLURMD_NODENAME": "node17",
}


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        (
            SLURM,
            {
                "slurm/job_id": "4214",
                "slurm/array_job_id": "4211",
                "slurm/array_task_id": "3",
                "slurm/step_id": "0",
                "slurm/job_name": "train",
                "slurm/partition": "gpu",
                "slurm/cluster": "hpc",
                "slurm/node_list": "node[17-18]",
                "slurm/node": "node17",
            },
        ),
        ({"PBS_JOBID": "12.head", "PBS_QUEUE": "q"}, {"pbs/job_id": "12.head", "pbs/queue": "q"}),
        ({"LSB_JOBID": "9", "LSB_JOBINDEX": "0"}, {"lsf/job_id": "9", "lsf/array_index": "0"}),
        (
            {"SGE_ROOT": "/sge", "JOB_ID": "7", "SGE_TASK_ID": "undefined", "QUEUE": "all.q"},
            {"sge/job_id": "7", "sge/queue": "all.q"},
        ),
        ({"JOB_ID": "7", "QUEUE": "mine"}, {}),
        ({"COLAB_RELEASE_TAG": "release-colab"}, {"service": "Colab"}),
        ({"KAGGLE_KERNEL_RUN_TYPE": "Batch"}, {"service": "Kaggle", "service_id": "Batch"}),
        (
            {"SM_CURRENT_HOST": "algo-1", "TRAINING_JOB_NAME": "job-5"},
            {"service": "SageMaker", "service_id": "job-5"},
        ),
        ({"GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "8"}, {"service": "GitHub Actions"}),
    ],
)
def test_clusters_and_services(tmp_path, environment, wanted):
    found = facts(tmp_path, **environment)
    assert wanted.items() <= found.items()
    assert set(found) - set(wanted) <= {"service_id"}


def test_a_pod(tmp_path):
    """The namespace is in a file beside a token, which is not read."""
    account = "run__secrets__kubernetesDOTio__serviceaccount__"
    root = tree(
        tmp_path, **{f"{account}namespace": "team-a\n", f"{account}token": "eyJhbGciOi.secret"}
    )
    pod = {"HOSTNAME": "train-0", "NODE_NAME": "worker-3", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    found = facts(root, **pod)
    assert found == {
        "kubernetes/namespace": "team-a",
        "kubernetes/pod": "train-0",
        "kubernetes/node": "worker-3",
    }


def test_other_variables_are_not_read(tmp_path):
    asked: set[str] = set()

    class Watched(dict[str, str]):
        def get(self, key: str, default: Any = None) -> Any:
            asked.add(key)
            return super().get(key, default)

        def __getitem__(self, key: str) -> str:
            asked.add(key)
            return super().__getitem__(key)

        def __iter__(self) -> Any:
            pytest.fail("the whole environment is read")

        items = values = keys = __iter__

    environment_facts("m", Watched(SLURM, AWS_SECRET_ACCESS_KEY="x"), tmp_path)
    assert "SLURM_JOB_ID" in asked
    assert not any("SECRET" in name or "TOKEN" in name for name in asked)


@pytest.mark.parametrize("name", ["etc/os-release", "proc/self/cgroup", "run/.containerenv"])
def test_odd_files_raise_nothing(tmp_path, name):
    """Folders and bytes that are no text in the place of files."""
    (tmp_path / name).mkdir(parents=True)
    assert isinstance(environment_facts("m", {}, tmp_path), dict)
    (tmp_path / name).rmdir()
    (tmp_path / name).write_bytes(b"\xff\x00\n" * 100_000)
    assert isinstance(environment_facts("m", {}, tmp_path), dict)


def test_torch_is_not_imported_and_no_gpu_is_woken(monkeypatch, tmp_path):
    """What a build says is read from what is there; GPUs only where the training uses them."""
    asked: list[str] = []

    def counted() -> int:
        asked.append("devices")
        return 8

    used = False
    cuda = SimpleNamespace(is_initialized=lambda: used, device_count=counted)
    cudnn = SimpleNamespace(version=lambda: 91002)
    fake = SimpleNamespace(
        __version__="2.13.0+cu128",
        version=SimpleNamespace(cuda="12.8", hip=None),
        cuda=cuda,
        backends=SimpleNamespace(cudnn=cudnn),
    )
    monkeypatch.setitem(sys.modules, "torch", fake)

    def told() -> dict[str, Any]:
        found = environment_facts("m", {}, tmp_path)
        return {path.partition("/torch/")[2]: one for path, one in found.items() if "torch" in path}

    assert told() == {"version": "2.13.0+cu128", "cuda": "12.8"}
    assert not asked
    used = True
    assert told() == {"version": "2.13.0+cu128", "cuda": "12.8", "devices": 8, "cudnn": "91002"}
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())  # half imported
    assert told() == {}
    code = "import sys; from seamark.capture.environment import environment_facts as f; f('m')"
    script = f"{code}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, env={"PYTHONPATH": _paths()})


def _paths() -> str:
    return ":".join(sys.path)


def test_the_real_ones(tmp_path):
    found = environment_facts("monitoring/w")
    assert found["monitoring/w/environment/kernel"] == platform.release()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    assert found["monitoring/w/environment/python"] == python
    assert socket.gethostname() not in found.values()


def test_tokens_in_names_of_jobs_are_hidden(scripts, monkeypatch):
    """People put anything into them; what is hidden is listed."""
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    monkeypatch.setenv("SLURM_JOB_ID", "4214")
    monkeypatch.setenv("SLURM_JOB_NAME", f"train --token={token}")
    assert scripts.run("import seamark\nseamark.init_run().stop()\n").code == 0
    found = scripts.recorded().below("monitoring/")
    (path,) = [one for one in found if one.endswith("/environment/slurm/job_name")]
    assert token not in str(found)
    assert str(found[path]).startswith("train")
    written = b"".join(one.read_bytes() for one in Path(scripts.root).rglob("*") if one.is_file())
    assert token.encode() not in written
    assert b"sys/masked" in written


def test_a_capture_that_fails_is_counted(scripts):
    """What is not there is known to be missing; the rest is recorded."""
    code = """
        import seamark, seamark.capture.code.code as code
        def broken():
            raise RuntimeError("no")
        code.installed_packages = broken
        seamark.init_run().stop()
    """
    assert scripts.run(code).code == 0
    recorded = scripts.recorded()
    assert "source_code/entrypoint" in recorded.atoms
    assert "source_code/packages" not in recorded.atoms
    (run,) = iter_runs(scripts.root)
    assert b'"capture":1' in run.journals()[0].path.read_bytes()
