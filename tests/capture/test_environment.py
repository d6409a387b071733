"""Where a training runs: from recorded variables and files, and the real ones here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from seamark.capture.environment import environment_facts


def facts(root: Path, **environment: str) -> dict[str, Any]:
    """Return what is found but for the system and Python."""
    found = environment_facts("m", environment, root)
    told = {path.removeprefix("m/environment/"): fact for path, fact in found.items()}
    always = ("os", "kernel", "machine", "python")
    return {
        name: one for name, one in told.items() if name.partition("/")[0] not in (*always, "torch")
    }


SLURM = {
    "SLURM_JOB_ID": ("slurm/job_id", "4214"),
    "SLURM_ARRAY_JOB_ID": ("slurm/array_job_id", "4211"),
    "SLURM_ARRAY_TASK_ID": ("slurm/array_task_id", "3"),
    "SLURM_STEP_ID": ("slurm/step_id", "0"),
    "SLURM_JOB_NAME": ("slurm/job_name", "train"),
    "SLURM_JOB_PARTITION": ("slurm/partition", "gpu"),
    "SLURM_CLUSTER_NAME": ("slurm/cluster", "hpc"),
    "SLURM_JOB_NODELIST": ("slurm/node_list", "node[17-18]"),
    "SLURMD_NODENAME": ("slurm/node", "node17"),
}
JOB = {name: value for name, (_, value) in SLURM.items()}
POD = {"HOSTNAME": "train-0", "NODE_NAME": "worker-3", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
ACCOUNT = "run/secrets/kubernetes.io/serviceaccount"
PODMAN = {"run/.containerenv": 'engine="podman-4.9"\nimage="docker.io/me/torch:2"\n'}
IN_POD = {f"{ACCOUNT}/namespace": "team-a\n", f"{ACCOUNT}/token": "eyJhbGciOi.secret"}
OF_POD = {"namespace": "team-a", "pod": "train-0", "node": "worker-3"}


def image(container: str, name: str = "torch.sif") -> dict[str, str]:
    return {"container": container, "container_image": name}


def service(name: str, number: str) -> dict[str, str]:
    return {"service": name, "service_id": number}


APPTAINER = {"APPTAINER_NAME": "torch.sif", "APPTAINER_CONTAINER": "/home/ada/images/torch.sif"}
SGE = {"SGE_ROOT": "/sge", "JOB_ID": "7", "SGE_TASK_ID": "undefined", "QUEUE": "all.q"}


@pytest.mark.parametrize(
    ("files", "environment", "wanted"),
    [
        ({}, {}, {}),
        ({".dockerenv": ""}, {}, {"container": "docker"}),
        (PODMAN, {"container": "podman"}, image("podman", "docker.io/me/torch:2")),
        ({"run/.containerenv": ""}, {}, {"container": "podman"}),
        ({}, {"container": "systemd-nspawn"}, {"container": "systemd-nspawn"}),
        ({}, {"container": "a word"}, {}),
        ({".dockerenv": ""}, APPTAINER, image("apptainer")),
        ({}, {"SINGULARITY_NAME": "torch.sif"}, image("singularity")),
        ({}, JOB, dict(SLURM.values())),
        ({}, {"PBS_JOBID": "12.h", "PBS_QUEUE": "q"}, {"pbs/job_id": "12.h", "pbs/queue": "q"}),
        ({}, {"LSB_JOBID": "9", "LSB_JOBINDEX": "0"}, {"lsf/job_id": "9", "lsf/array_index": "0"}),
        ({}, SGE, {"sge/job_id": "7", "sge/queue": "all.q"}),
        ({}, {"JOB_ID": "7", "QUEUE": "mine"}, {}),
        ({}, {"AWS_SECRET_ACCESS_KEY": "x", "HF_TOKEN": "x", "USER": "ada", "HOME": "/home"}, {}),
        ({}, {"COLAB_RELEASE_TAG": "a"}, {"service": "Colab"}),
        ({}, {"KAGGLE_KERNEL_RUN_TYPE": "b"}, service("Kaggle", "b")),
        ({}, {"SM_CURRENT_HOST": "a", "TRAINING_JOB_NAME": "5"}, service("SageMaker", "5")),
        ({}, {"GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "8"}, service("GitHub Actions", "8")),
        (IN_POD, POD, {f"kubernetes/{name}": value for name, value in OF_POD.items()}),
    ],
)
def test_containers_clusters_and_services_are_found(tmp_path, files, environment, wanted):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert facts(tmp_path, **environment) == wanted


@pytest.mark.parametrize("name", ["etc/os-release", "proc/self/cgroup", "run/.containerenv"])
def test_odd_files_raise_nothing(tmp_path, name):
    (tmp_path / name).mkdir(parents=True)
    assert isinstance(environment_facts("m", {}, tmp_path), dict)
    (tmp_path / name).rmdir()
    (tmp_path / name).write_bytes(b"\xff\x00\n" * 100_000)
    assert isinstance(environment_facts("m", {}, tmp_path), dict)


def test_torch_is_not_imported_and_no_gpu_is_woken(monkeypatch, tmp_path):
    fake = SimpleNamespace(
        __version__="2.13.0+cu128", version=SimpleNamespace(cuda="12.8", hip=None)
    )

    def told(torch: SimpleNamespace) -> dict[str, Any]:
        monkeypatch.setitem(sys.modules, "torch", torch)
        found = environment_facts("m", {}, tmp_path)
        return {path.partition("/torch/")[2]: one for path, one in found.items() if "torch" in path}

    assert told(fake) == {"version": "2.13.0+cu128", "cuda": "12.8"}
    assert told(SimpleNamespace()) == {}  # half imported
    code = "import sys; from seamark.capture.environment import environment_facts as f; f('m')"
    script = f"{code}; assert 'torch' not in sys.modules"
    paths = {"PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-c", script], check=True, env=paths)


def test_tokens_in_names_of_jobs_are_hidden_and_noted(scripts):
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    job = {"SLURM_JOB_ID": "4214", "SLURM_JOB_NAME": f"train --token={token}"}
    assert scripts.run("import seamark\nseamark.init_run().stop()\n", env=job).code == 0
    assert str(scripts.recorded().one("/environment/slurm/job_name")).startswith("train")
    written = b"".join(one.read_bytes() for one in scripts.root.rglob("*") if one.is_file())
    assert token.encode() not in written
    assert b"sys/masked" in written


def test_capture_that_fails_is_counted_and_the_others_are_recorded(scripts):
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
    (journal,) = scripts.root.glob("*/*/journal/*")
    assert b'"capture":1' in journal.read_bytes()
