"""What a control plane tells about itself: which metrics, traces and notifications there are by its settings."""

import asyncio

from trimtab.app import ControlPlane
from trimtab.client.client import Resource
from trimtab.client.otlp import TraceTarget
from trimtab.client.webhook import WebhookTarget
from trimtab.clock import LoopClock, run_virtually
from trimtab.controllers import well_known
from trimtab.observability import ObservabilitySettings
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store
from trimtab.telemetry import format_histograms, format_metrics

BINDINGS = Resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding")
CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)


def test_metrics_report_whether_each_cluster_is_ready() -> None:
    async def run() -> None:
        server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
        await server.start()
        plane = ControlPlane(LocalClient(server), clock=LoopClock())
        await plane.start()
        body = {"apiVersion": CLUSTERS.api_version, "kind": "Cluster", "metadata": {"name": "east"}}
        await LocalClient(server).create(CLUSTERS, {**body, "spec": {"syncMode": "Push"}})
        await asyncio.sleep(30)
        found = [sample for sample in plane.samples() if sample.name == "trimtab_cluster_ready"]
        assert [(sample.labels, sample.value) for sample in found] == [({"member_cluster": "east"}, False)]
        await plane.stop()
        await server.stop()

    run_virtually(run())


async def decide_about_a_tainted_cluster(*, karmada_metrics: bool = False) -> str:
    """A binding that fits nowhere; returns the metrics of the control plane that decided about it."""
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "default"}
    labels = {well_known.POLICY_ID_LABELS[0]: "an-id"}
    binding = {
        "apiVersion": BINDINGS.api_version,
        "kind": "ResourceBinding",
        "metadata": {"name": "web-deployment", "namespace": "default", "labels": labels},
        "spec": {"resource": resource, "replicas": 1, "placement": {"clusterAffinity": {"clusterNames": ["east"]}}},
    }
    cluster = {"apiVersion": CLUSTERS.api_version, "kind": "Cluster", "metadata": {"name": "east"}}
    taints = [{"key": "maintenance", "effect": "NoSchedule"}]
    server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
    await server.start()
    user = LocalClient(server)
    await user.create(CLUSTERS, {**cluster, "spec": {"syncMode": "Push", "taints": taints}})
    plane = ControlPlane(LocalClient(server), clock=LoopClock(), karmada_metrics=karmada_metrics)
    await plane.start()
    await user.create(BINDINGS, binding)
    await asyncio.sleep(20)
    metrics = format_metrics(plane.samples()) + format_histograms(plane.histograms())
    await plane.stop()
    await server.stop()
    return metrics


def test_metrics_under_the_names_of_karmada_are_served_on_request() -> None:
    labels = '{result="error",schedule_type="ReconcileSchedule"}'
    served = run_virtually(decide_about_a_tainted_cluster(karmada_metrics=True))
    assert f"karmada_scheduler_schedule_attempts_total{labels}" in served
    assert f"karmada_scheduler_e2e_scheduling_duration_seconds_count{labels}" in served
    assert 'binding_sync_work_duration_seconds_count{result="success"}' in served
    assert 'result="scheduled"' not in served, "no cluster fits"
    filtered = 'extension_point="Filter",result="Unschedulable"'
    assert f"karmada_scheduler_framework_extension_point_duration_seconds_count{{{filtered}}}" in served
    assert f'duration_seconds_count{{plugin="TaintToleration",{filtered}}}' in served
    assert 'karmada_scheduler_scheduling_algorithm_duration_seconds_count{schedule_step="Filter"}' in served
    assert 'eviction_queue_depth{name="binding-eviction"} 0' in served
    without = run_virtually(decide_about_a_tainted_cluster())
    assert not any(
        name in without for name in ("karmada_scheduler_", "binding_sync_work_", "cluster_ready_state", "eviction_")
    )


def test_traces_and_notifications_are_counted_only_where_they_are_sent() -> None:
    async def names(settings: ObservabilitySettings) -> set[str]:
        plane = ControlPlane(
            LocalClient(ApiServer(Store(), ApiServerSettings(clock=LoopClock()))),
            clock=LoopClock(),
            notify=settings.notify,
            trace=settings.trace,
        )
        found = {sample.name for sample in plane.samples()}
        await plane.observability.close()
        return found

    sent = {"trimtab_trace_spans_total", "trimtab_notifications_total"}
    nowhere = ObservabilitySettings()
    both = ObservabilitySettings(
        notify=WebhookTarget("http://127.0.0.1:9"), trace=TraceTarget("http://127.0.0.1:9", 1.0)
    )
    assert not sent & run_virtually(names(nowhere))
    assert sent <= run_virtually(names(both))
