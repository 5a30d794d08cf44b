"""Reading the pods of a workload and what they use."""

import asyncio
from typing import Any

from trimtab.client.client import Listing
from trimtab.decide.autoscale import PodSample
from trimtab.errors import NotFound
from trimtab.runtime.effects.pod_use import pod_use


class Cluster:
    """Answers lists of pods and of their metrics."""

    def __init__(self, pods: list[dict[str, Any]], metrics: list[dict[str, Any]] | None) -> None:
        self.pods, self.metrics = pods, metrics

    async def list(self, resource: Any, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing:
        assert (namespace, labels) == ("shop", "app=web")
        if resource.group == "":
            return Listing(self.pods, "1")
        if self.metrics is None:
            raise NotFound("no metrics")
        return Listing(self.metrics, "1")


def pod(name: str, *, ready: str = "True", phase: str = "Running") -> dict[str, Any]:
    containers = [{"name": "a", "resources": {"requests": {"cpu": "100m"}}}]
    return {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"containers": containers},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
    }


def metric(name: str, *usage: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "containers": [{"name": str(n), "usage": {"cpu": u}} for n, u in enumerate(usage)],
    }


def read(cluster: Cluster) -> tuple[PodSample, ...]:
    return asyncio.run(pod_use(cluster, "shop", "app=web"))  # type: ignore[arg-type]


def test_samples_have_requests_use_and_readiness() -> None:
    found = read(Cluster([pod("a"), pod("b", ready="False"), pod("c", phase="Failed")], [metric("a", "20m", "30m")]))
    assert found == (
        PodSample("a", {"cpu": 100}, {"cpu": 50}),
        PodSample("b", {"cpu": 100}, None, is_ready=False),
        PodSample("c", {"cpu": 100}, None, is_counted=False),
    )


def test_without_a_metrics_api_no_pod_has_metrics() -> None:
    assert [one.usage for one in read(Cluster([pod("a")], None))] == [None]
