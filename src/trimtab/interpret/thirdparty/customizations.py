"""The customizations for third-party kinds that come with Trimtab, in the form in which users write their own.

Each script of `scripts/` defines the functions of the operations that its kinds need. The functions that they share are
in `common.lua`, which stands before each of them. `trimtab interpret --show KIND` prints the result, so that users can
change it and apply it: their customization comes before the one that is shipped.
"""

import re
from functools import cache
from importlib import resources
from typing import NamedTuple

from trimtab.api.profile import PROFILES
from trimtab.api.value import Raw
from trimtab.interpret.lua.scripts import HOOKS, ScriptIndex, index_scripts
from trimtab.interpret.operations import Operation

_FUNCTION = re.compile(r"^function (\w+)\(", re.MULTILINE)
_KUBEFLOW = ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob")
_FLUX_SOURCES = ("GitRepository", "Bucket", "OCIRepository", "HelmRepository", "HelmChart")

TARGETS: dict[str, tuple[tuple[str, str], ...]] = {
    "argo_rollout": (("argoproj.io/v1alpha1", "Rollout"),),
    "argo_workflow": (("argoproj.io/v1alpha1", "Workflow"),),
    "argocd_application": (("argoproj.io/v1alpha1", "Application"),),
    "argocd_project": (("argoproj.io/v1alpha1", "AppProject"),),
    "flink_deployment": (("flink.apache.org/v1beta1", "FlinkDeployment"),),
    "flux": (
        *((f"source.toolkit.fluxcd.io/{version}", kind) for version in ("v1", "v1beta2") for kind in _FLUX_SOURCES),
        *((f"kustomize.toolkit.fluxcd.io/{version}", "Kustomization") for version in ("v1", "v1beta2")),
        *((f"helm.toolkit.fluxcd.io/{version}", "HelmRelease") for version in ("v2", "v2beta2", "v2beta1")),
    ),
    "kruise_advancedcronjob": (("apps.kruise.io/v1alpha1", "AdvancedCronJob"),),
    "kruise_broadcastjob": (("apps.kruise.io/v1alpha1", "BroadcastJob"),),
    "kruise_daemonset": (("apps.kruise.io/v1alpha1", "DaemonSet"), ("apps.kruise.io/v1beta1", "DaemonSet")),
    "kruise_sidecarset": (("apps.kruise.io/v1alpha1", "SidecarSet"),),
    "kruise_uniteddeployment": (("apps.kruise.io/v1alpha1", "UnitedDeployment"),),
    "kruise_workload": (
        ("apps.kruise.io/v1alpha1", "CloneSet"),
        ("apps.kruise.io/v1alpha1", "StatefulSet"),
        ("apps.kruise.io/v1beta1", "StatefulSet"),
    ),
    "kubeflow_job": (*(("kubeflow.org/v1", kind) for kind in _KUBEFLOW), ("kubeflow.org/v2beta1", "MPIJob")),
    "kubeflow_notebook": (("kubeflow.org/v1", "Notebook"), ("kubeflow.org/v1beta1", "Notebook")),
    "kyverno_policy": (("kyverno.io/v1", "Policy"), ("kyverno.io/v1", "ClusterPolicy")),
    "ray": (("ray.io/v1", "RayCluster"), ("ray.io/v1", "RayJob"), ("ray.io/v1", "RayService")),
    "spark_application": (("sparkoperator.k8s.io/v1beta2", "SparkApplication"),),
    "volcano_job": (("batch.volcano.sh/v1alpha1", "Job"),),
}
"""The kinds of each script, as (apiVersion, kind)."""
SWITCHES = {"flink_deployment": "flink_memory_units"}
"""The field of the profile that a script reads, as a constant in capitals."""


class ShippedScript(NamedTuple):
    """A script with what stands before it, and the operations that it defines."""

    text: str
    operations: tuple[Operation, ...]


@cache
def shipped_script(name: str, profile: str = "trimtab") -> ShippedScript:
    folder = resources.files(__package__).joinpath("scripts")
    common, own = (folder.joinpath(f"{part}.lua").read_text(encoding="utf-8") for part in ("common", name))
    defined = set(_FUNCTION.findall(own))
    if switch := SWITCHES.get(name):
        own = f"local {switch.upper()} = {str(getattr(PROFILES[profile], switch)).lower()}\n{own}"
    return ShippedScript(f"{common}\n{own}", tuple(operation for operation in HOOKS if HOOKS[operation][1] in defined))


def customization_for(api_version: str, kind: str, script: ShippedScript) -> Raw:
    """The script as a ResourceInterpreterCustomization."""
    group, _, version = api_version.rpartition("/")
    return {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": f"{kind}-{version}-{group}".lower().replace(".", "-")},
        "spec": {
            "target": {"apiVersion": api_version, "kind": kind},
            "customizations": {HOOKS[one][0]: {"luaScript": script.text} for one in script.operations},
        },
    }


@cache
def shipped_customizations(profile: str = "trimtab") -> tuple[Raw, ...]:
    return tuple(
        customization_for(api_version, kind, shipped_script(name, profile))
        for name, targets in TARGETS.items()
        for api_version, kind in targets
    )


@cache
def shipped_scripts(profile: str = "trimtab") -> ScriptIndex:
    return index_scripts(shipped_customizations(profile))
