"""Environment of a training: system, container, cluster, notebook service, build of torch.

It is determined once, from this process and local files, without accessing the network, running a
program, importing a library or initializing a GPU. Only a fixed list of environment variables is
read.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from seamark.process.interrupts import quietly

_MAX_FILE_BYTES: Final = 1 << 16
_MAX_FACT_CHARS: Final = 1000

# Variables with the identifiers of a job, by recorded name; the first name detects the cluster.
_CLUSTERS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "slurm": {
        "job_id": ("SLURM_JOB_ID", "SLURM_JOBID"),
        "array_job_id": ("SLURM_ARRAY_JOB_ID",),
        "array_task_id": ("SLURM_ARRAY_TASK_ID",),
        "step_id": ("SLURM_STEP_ID",),
        "job_name": ("SLURM_JOB_NAME",),
        "partition": ("SLURM_JOB_PARTITION",),
        "cluster": ("SLURM_CLUSTER_NAME",),
        "node_list": ("SLURM_JOB_NODELIST", "SLURM_NODELIST"),
        "node": ("SLURMD_NODENAME",),
    },
    "pbs": {
        "job_id": ("PBS_JOBID",),
        "array_index": ("PBS_ARRAY_INDEX",),
        "job_name": ("PBS_JOBNAME",),
        "queue": ("PBS_QUEUE",),
    },
    "lsf": {
        "job_id": ("LSB_JOBID",),
        "array_index": ("LSB_JOBINDEX",),
        "job_name": ("LSB_JOBNAME",),
        "queue": ("LSB_QUEUE",),
    },
}
# Other software uses these variables too: they are read only if SGE_ROOT is set.
_SGE: Final = {
    "job_id": ("JOB_ID",),
    "task_id": ("SGE_TASK_ID",),
    "job_name": ("JOB_NAME",),
    "queue": ("QUEUE",),
}
_KUBERNETES: Final = {
    "pod": ("POD_NAME", "MY_POD_NAME", "K8S_POD_NAME", "HOSTNAME"),
    "namespace": ("POD_NAMESPACE", "MY_POD_NAMESPACE", "K8S_NAMESPACE"),
    "node": ("NODE_NAME", "MY_NODE_NAME", "K8S_NODE_NAME"),
    "image": ("IMAGE_NAME", "CONTAINER_IMAGE"),
}
# Contains only the namespace; the token in the same folder is never read.
_NAMESPACE_FILE: Final = "run/secrets/kubernetes.io/serviceaccount/namespace"
# Name of each service, variables that detect it, and variable with an identifier.
_SERVICES: Final[tuple[tuple[str, tuple[str, ...], str | None], ...]] = (
    ("Colab", ("COLAB_RELEASE_TAG", "COLAB_GPU"), None),
    ("Kaggle", ("KAGGLE_KERNEL_RUN_TYPE",), "KAGGLE_KERNEL_RUN_TYPE"),
    ("SageMaker", ("SM_TRAINING_ENV", "SM_CURRENT_HOST", "TRAINING_JOB_ARN"), "TRAINING_JOB_NAME"),
    ("Azure ML", ("AZUREML_RUN_ID",), "AZUREML_RUN_ID"),
    ("Vertex AI", ("CLOUD_ML_JOB_ID", "CLOUD_ML_PROJECT_ID"), "CLOUD_ML_JOB_ID"),
    ("Databricks", ("DATABRICKS_RUNTIME_VERSION",), "DATABRICKS_RUNTIME_VERSION"),
    ("Lightning AI", ("LIGHTNING_CLOUD_SPACE_ID",), "LIGHTNING_CLOUD_SPACE_ID"),
    ("Determined", ("DET_TRIAL_ID",), "DET_TRIAL_ID"),
    ("Modal", ("MODAL_TASK_ID",), "MODAL_TASK_ID"),
    ("RunPod", ("RUNPOD_POD_ID",), "RUNPOD_POD_ID"),
    ("Vast.ai", ("VAST_CONTAINERLABEL",), "VAST_CONTAINERLABEL"),
    ("Paperspace", ("PAPERSPACE_METRIC_WORKLOAD_ID",), "PAPERSPACE_METRIC_WORKLOAD_ID"),
    ("Codespaces", ("CODESPACES",), "CODESPACE_NAME"),
    ("GitHub Actions", ("GITHUB_ACTIONS",), "GITHUB_RUN_ID"),
    ("GitLab CI", ("GITLAB_CI",), "CI_JOB_ID"),
)


def environment_facts(
    namespace: str, environment: Mapping[str, str] | None = None, root: Path = Path("/")
) -> dict[str, Any]:
    """Return environment facts by path below ``<namespace>/environment``. Never raises."""
    env = os.environ if environment is None else environment
    facts: dict[str, Any] = {}
    machine = (_system(root), _container(env, root), _cluster(env), _torch())
    for part in (*machine, _kubernetes(env, root), _service(env)):
        with quietly():
            facts.update(part)
    return {
        f"{namespace}/environment/{name}": fact[:_MAX_FACT_CHARS] if isinstance(fact, str) else fact
        for name, fact in facts.items()
        if fact not in (None, "")
    }


# --------------------------------------------------------------------- this machine


def _system(root: Path) -> Iterator[tuple[str, str]]:
    release = _os_release(root) if platform.system() == "Linux" else ""
    yield "os", release or f"{platform.system()} {platform.mac_ver()[0]}".strip()
    yield "kernel", platform.release()
    yield "machine", platform.machine()
    yield "python", f"{platform.python_implementation()} {platform.python_version()}"


def _os_release(root: Path) -> str:
    # Source: os-release(5).
    found = re.search(
        r"^PRETTY_NAME=([\"']?)(.*?)\1$", read_text(root / "etc/os-release"), re.MULTILINE
    )
    return found[2] if found else ""


# --------------------------------------------------------------------- containers


def _container(env: Mapping[str, str], root: Path) -> Iterator[tuple[str, str]]:
    for prefix in ("APPTAINER", "SINGULARITY"):
        if image := env.get(f"{prefix}_CONTAINER") or env.get(f"{prefix}_NAME"):
            yield "container", prefix.lower()
            yield "container_image", image.rpartition("/")[2]
            return
    podman_file = root / "run/.containerenv"  # written by podman, with the image
    if podman_file.exists():
        yield "container", "podman"
        if named := re.search(r"^image=\"([^\"\n]*)\"$", read_text(podman_file), re.MULTILINE):
            yield "container_image", named[1]
    elif (root / ".dockerenv").exists():
        yield "container", "docker"
    elif env.get("container") in ("lxc", "podman", "systemd-nspawn"):
        yield "container", env["container"]


# --------------------------------------------------------------------- clusters and services


def _cluster(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    clusters = {**_CLUSTERS, **({"sge": _SGE} if "SGE_ROOT" in env else {})}
    for cluster, variables in clusters.items():
        if any(name in env for name in variables["job_id"]):
            yield from _known_variables(env, cluster, variables)


def _kubernetes(env: Mapping[str, str], root: Path) -> Iterator[tuple[str, str]]:
    mounted = root / _NAMESPACE_FILE
    if "KUBERNETES_SERVICE_HOST" not in env and not mounted.exists():
        return
    namespace = read_text(mounted).strip()
    if namespace:
        yield "kubernetes/namespace", namespace
    yield from _known_variables(env, "kubernetes", _KUBERNETES)


def _known_variables(
    env: Mapping[str, str], cluster: str, variables: Mapping[str, Iterable[str]]
) -> Iterator[tuple[str, str]]:
    for name, candidates in variables.items():
        value = next((env[one] for one in candidates if env.get(one)), "")
        if value and value != "undefined":  # SGE's value for jobs that are not arrays
            yield f"{cluster}/{name}", value


def _service(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for service, candidates, number in _SERVICES:
        if any(name in env for name in candidates):
            yield "service", service
            if number and env.get(number):
                yield "service_id", env[number]
            return


# --------------------------------------------------------------------- torch


def _torch() -> Iterator[tuple[str, Any]]:
    # Only if torch is imported already. No GPU is asked, because that could initialize CUDA.
    torch: Any = sys.modules.get("torch")
    built: Any = getattr(torch, "version", None)
    if built is None:  # not imported, or import not finished
        return
    yield "torch/version", str(torch.__version__)
    for name, attribute in (("cuda", "cuda"), ("rocm", "hip"), ("xpu", "xpu")):
        if value := getattr(built, attribute, None):
            yield f"torch/{name}", str(value)


def read_text(path: Path) -> str:
    """Return the first 64 KiB of a small file; an empty text if it cannot be read."""
    with quietly(only=OSError), path.open("rb") as file:
        return file.read(_MAX_FILE_BYTES).decode("utf-8", "replace")
    return ""
