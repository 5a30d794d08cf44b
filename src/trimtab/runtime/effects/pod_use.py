"""Reads the pods of a workload and what they use, from the API server and the metrics API of a cluster."""

from typing import cast

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource, resource_of
from trimtab.decide.autoscale import PodSample
from trimtab.decide.pods.fit.requests import Amounts, parse_amounts, pod_resources_of
from trimtab.errors import NotFound

POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")


async def pod_use(client: Client, namespace: str, selector: str) -> tuple[PodSample, ...]:
    """The pods that the selector matches. Without a metrics API no pod has metrics."""
    pods = (await client.list(resource_of(kind_of(Pod)), namespace, labels=selector)).items
    try:
        metrics = (await client.list(POD_METRICS, namespace, labels=selector)).items
    except NotFound:
        metrics = []
    used = {raw["metadata"]["name"]: usage_of(raw) for raw in metrics}
    return tuple(sample_of(cast("Pod", kind_of(Pod).decode(raw)), used) for raw in pods)


def usage_of(metrics: Raw) -> Amounts:
    total: Amounts = {}
    for container in metrics.get("containers") or ():
        for name, amount in parse_amounts(container.get("usage") or {}).items():
            total[name] = total.get(name, 0) + amount
    return total


def sample_of(pod: Pod, used: dict[str, Amounts]) -> PodSample:
    return PodSample(
        pod.name,
        pod_resources_of(pod).requests,
        used.get(pod.name),
        is_ready=pod.is_ready,
        is_counted=pod.metadata.deletion_timestamp is None and pod.status.phase != "Failed",
    )
